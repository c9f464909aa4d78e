"""The numbers that decide the work: in arguments, settings files and Python sources."""

from __future__ import annotations

import pytest

from slurmcast.script import numbers, python_source

ARGUMENTS = [
    ("--epochs 90", {"epochs": 90}),
    ("--epochs=90", {"epochs": 90}),
    ("-e 90 -b 256", {"epochs": 90, "batch_size": 256}),
    ("-e90", {"epochs": 90}),
    ("--num_train_epochs 3 --per_device_train_batch_size 8", {"epochs": 3, "batch_size": 8}),
    ("--num-train-epochs=3 --max-steps=1e4", {"epochs": 3, "steps": 10000}),
    (
        "trainer.max_epochs=3 +data.batch_size=16 ++model.hidden_size=512",
        {"epochs": 3, "batch_size": 16, "hidden_size": 512},
    ),
    ("--batchSize 64 --maxIters 10_000", {"batch_size": 64, "steps": 10000}),
    ("--epochs 1 --epochs 2", {"epochs": 2}),
    ("--amp --epochs 2 --resume", {"epochs": 2}),
    ("--epochs --steps 4", {"steps": 4}),
    ("--layers 256 256 128", {}),
    ("--epochs ten --steps $N --batch-size -1", {}),
    ("--lr 1e-3 --seed 42 --name x", {}),
    ("--epochs 0", {}),
    ("--epochs 1e999 --steps 99999999999999999999999999999999999999999999999", {}),
    ("--model meta-llama/Llama-2-7b-hf", {"parameters": 7e9}),
    ("--model=facebook/opt-1.3b --data /data/ml-20m", {"parameters": 1.3e9}),
]


@pytest.mark.parametrize(("line", "expected"), ARGUMENTS)
def test_reads_arguments(line: str, expected: dict[str, float]) -> None:
    assert numbers.from_arguments(line.split()) == expected


def test_a_program_s_own_names_count_before_the_usual_ones() -> None:
    aliases = {"-n": "epochs", "-b": "layers"}
    assert numbers.from_arguments(["-n", "7", "-b", "3"], aliases) == {"epochs": 7, "layers": 3}
    assert numbers.from_arguments(["--lr", "1", "in.csv", "90"], {}, [None, "epochs"]) == {"epochs": 90}


SOURCES = [
    ("parser.add_argument('-e', '--epochs', type=int, default=90)", {"epochs": 90}),
    ("parser.add_argument('--epochs', type=int)", {}),
    ("@click.option('--max-steps', default=1000)\ndef main(max_steps): ...", {"steps": 1000}),
    ("def main(epochs: int = typer.Option(10)): ...", {"epochs": 10}),
    ("flags.DEFINE_integer('batch_size', 32, 'help')", {"batch_size": 32}),
    ("EPOCHS = 30\nBATCH = 8 * 4", {"epochs": 30, "batch_size": 32}),
    ("N = 4\nbatch_size = N * 2 ** 3", {"batch_size": 32}),
    ("class C:\n    num_epochs: int = 5\n    seq_len: int = field(default=128)", {"epochs": 5, "sequence_length": 128}),
    (
        "args = TrainingArguments(num_train_epochs=3, gradient_accumulation_steps=4)",
        {"epochs": 3, "gradient_accumulation": 4},
    ),
    ("cfg = {'epochs': 3, 'model': {'hidden_size': 64}}", {"epochs": 3, "hidden_size": 64}),
    ("def train(epochs=2, *, batch_size=16): ...", {"epochs": 2, "batch_size": 16}),
    ("for epoch in range(12): ...", {"epochs": 12}),
    ("for step in trange(1, 500): ...", {"steps": 500}),
    ("EPOCHS = int(os.environ.get('EPOCHS', 40))", {"epochs": 40}),
    ("n = os.getenv('MAX_STEPS', '100')", {"steps": 100}),
    ("epochs = 2 if args.debug else 100", {"epochs": 100}),
    ("train(loader, epochs=3)\np.add_argument('--epochs', default=9)", {"epochs": 9}),  # the option decides
    ("p.add_argument('--niter', default=25)\nfor epoch in range(opt.niter): ...", {"epochs": 25}),  # what it counts
    ("epochs = True\nsteps = None\nlayers = 'many'\nbatch_size = f()", {}),
    ("print 'python 2'\nepochs = 7\nparser.add_argument('--steps', type=int, default=50)", {"epochs": 7, "steps": 50}),
    ("epochs = (((", {}),
]


@pytest.mark.parametrize(("source", "expected"), SOURCES)
def test_reads_python_sources(source: str, expected: dict[str, float]) -> None:
    assert python_source.read(source).defaults == expected


def test_reads_what_a_program_calls_its_arguments() -> None:
    facts = python_source.read("p.add_argument('data')\np.add_argument('epochs')\np.add_argument('-n', '--num-layers')")
    assert facts.positionals == (None, "epochs")
    assert facts.aliases == {"-n": "layers", "--num-layers": "layers"}
    assert python_source.read("data = sys.argv[1]\nepochs = int(sys.argv[2])").positionals == (None, "epochs")


def test_reads_imports() -> None:
    facts = python_source.read("import a.b\nfrom models import unet\nfrom . import x\nfrom ..y import z")
    assert facts.imports == (
        ("a.b", 0), ("models", 0), ("models.unet", 0), ("x", 1), ("y", 2), ("y.z", 2)
    )  # fmt: skip


SETTINGS = """
trainer:
  max_epochs: 12   # passes
  "batch_size": 64,
lr: 1e-3
hidden_size = 256
max_epochs: 99
steps: many
"""


def test_reads_settings_files() -> None:
    assert numbers.from_settings(SETTINGS) == {"epochs": 12, "batch_size": 64, "hidden_size": 256}


def test_every_synonym_has_one_meaning() -> None:
    words = [word for synonyms in numbers.SYNONYMS.values() for word in synonyms.split()]
    assert len(words) == len(set(words))
    assert all(numbers.canonical(word) == numbers.canonical("--" + word.replace("_", "-")) for word in words)


OWN = [
    ("--n-critic 5 --epochs 3", {"n_critic": 5}),
    ("--n_critic=5", {"n_critic": 5}),
    ("20000 12", {"#1": 20000, "#2": 12}),
    ("data.txt 12", {"#2": 12}),
    (
        "kmeans:iterations=120,clusters=200 model.trees=40",
        {"kmeans:iterations": 120, "clusters": 200, "trees": 40},
    ),
    ("--lr 0.5 --momentum 0.9 --seed 42 --log-every 100 --num-workers 8 --device 1", {}),
    ("--share 1.5 --trees 0 --points -3 --name x", {}),
    ("-e 3 -b 8", {}),
    ("--resume --n-critic 5", {"n_critic": 5}),
    ("--critics $N --points 1e30", {}),
]


@pytest.mark.parametrize(("line", "expected"), OWN)
def test_reads_arguments_under_names_of_a_program_s_own(line: str, expected: dict[str, float]) -> None:
    assert numbers.own_from_arguments(line.split()) == expected


def test_own_options_go_by_their_long_names_and_positionals_by_theirs() -> None:
    source = """
parser.add_argument("-n", "--negatives", type=int, default=4)
parser.add_argument("-s", "--samples", type=int, default=100)
parser.add_argument("--rate", type=float, default=0.5)
parser.add_argument("rows", type=int)
"""
    facts = python_source.read(source)
    assert facts.own_defaults == {"negatives": 4}
    found = numbers.own_from_arguments(["-n", "6", "-s", "300", "800"], facts.own_aliases, facts.own_positionals)
    assert found == {"negatives": 6, "rows": 800}


DEFAULTS = [
    ("rows = arg('rows', 40000)", {"rows": 40000}),
    ("opt = dict(corpus='x', tokens=40_000, lr=0.5)", {"tokens": 40000}),
    ("config = {'data': {'rows': 20, 'seed': 3}, 'nCritic': 5}", {"rows": 20, "n_critic": 5}),
    ("for name, default in (('alphas', 25), ('rate', 3)): p.add_argument(name)", {"alphas": 25}),
    ("HIDE = 100\nfor f, t in o:\n  if f == '-h': HIDE = int(t)", {"hide": 100}),
    ("rows, cols = 30, 8\nif a == '--cols': cols = int(b)", {"cols": 8}),
    ("f('not a name', 3), ('a b', 4), dict(**x), g('one', 1, 2)", {}),
]


@pytest.mark.parametrize(("source", "expected"), DEFAULTS)
def test_programs_without_a_parser_have_defaults_too(source: str, expected: dict[str, float]) -> None:
    assert python_source.read(source).own_defaults == expected


def test_options_of_a_hand_written_parser_go_by_the_names_of_their_variables() -> None:
    facts = python_source.read("ROWS = 9\nEPOCHS = 2\nif f == '-n': ROWS = int(t)\nif f == '-e': EPOCHS = int(t)")
    assert facts.own_aliases == {"-n": "rows", "--ROWS": "rows", "-e": "", "--EPOCHS": ""}
    assert facts.aliases["-e"] == "epochs"


def test_positionals_that_are_unpacked_have_names() -> None:
    facts = python_source.read("import sys\nepochs, trees, depth = map(int, sys.argv[1:4])\n")
    assert facts.positionals == ("epochs", None, "layers")
    assert facts.own_positionals == ("", "trees", "")
    assert numbers.own_from_arguments(["3", "50", "2"], {}, facts.own_positionals) == {"trees": 50}


def test_settings_files_have_names_of_their_own() -> None:
    text = "epochs: 3\nn_critic: 5\nseed: 7\nrate: 0.1\nn_critic: 6\n"
    assert numbers.own_from_settings(text) == {"n_critic": 5}


def test_there_are_never_more_of_them_than_are_kept() -> None:
    words = [word for n in range(100) for word in (f"--option-{n}", str(n + 1))]
    assert len(numbers.own_from_arguments(words)) == numbers.MAX_OWN
