"""Which programs are seen behind which launchers."""

from __future__ import annotations

import pytest

from slurmcast.script.expand import Scope
from slurmcast.script.launch import Launch, launched
from slurmcast.script.shell import commands

# (command line, the Python file or -m module, its arguments)
PYTHON = [
    ("python x.py", "x.py", ()),
    ("python3.11 -u -W ignore x.py a --b 1", "x.py", ("a", "--b", "1")),
    ("/opt/conda/bin/python -m pkg.mod --c", "-m pkg.mod", ("--c",)),
    ("python -um pkg.mod", "-m pkg.mod", ()),
    ("./x.py a", "./x.py", ("a",)),
    ("srun -n 4 --gpus-per-task=1 python x.py", "x.py", ()),
    ("srun --container-image=nvcr.io/nvidia/python:24 python x.py", "x.py", ()),
    ("torchrun --nproc_per_node=4 train.py --epochs 3", "train.py", ("--epochs", "3")),
    ("torchrun --nnodes 2 --nproc-per-node 8 -m pkg.train a", "-m pkg.train", ("a",)),
    ("python -m torch.distributed.run --nproc_per_node 4 train.py", "train.py", ()),
    ("python -m torch.distributed.launch --use_env train.py x", "train.py", ("x",)),
    ("accelerate launch --num_processes 2 train.py --lr 1", "train.py", ("--lr", "1")),
    ("deepspeed --num_gpus=4 train.py --deepspeed ds.json", "train.py", ("--deepspeed", "ds.json")),
    ("deepspeed --module pkg.mod a", "-m pkg.mod", ("a",)),
    ("singularity exec --nv -B /data img.sif python x.py", "x.py", ()),
    ("apptainer exec docker://python:3.10 python x.py", "x.py", ()),
    ("apptainer run --nv img.sif torchrun train.py", "train.py", ()),
    ("conda run -n env --no-capture-output python x.py", "x.py", ()),
    ("uv run x.py", "x.py", ()),
    ("uv run --with torch python -m pkg", "-m pkg", ()),
    ("poetry run python x.py", "x.py", ()),
    ("mpirun -np 4 -x PATH python x.py", "x.py", ()),
    ("env A=1 B=2 python x.py", "x.py", ()),
    ("time -p python x.py", "x.py", ()),
    ("/usr/bin/time -v python x.py", "x.py", ()),
    ("exec python x.py", "x.py", ()),
    ("nohup timeout 3h nice -n 5 python x.py &", "x.py", ()),
    ("CUDA_VISIBLE_DEVICES=0 python x.py > log 2>&1", "x.py", ()),
    ("numactl --cpunodebind=0 python x.py", "x.py", ()),
    ("nsys profile -o out python x.py", "x.py", ()),
    ("python -m cProfile -o out x.py a", "x.py", ("a",)),
    ("srun singularity exec img.sif torchrun --nproc_per_node=4 train.py", "train.py", ()),
    ("CMD='python x.py --a 1'; srun $CMD", "x.py", ("--a", "1")),
    ("eval python x.py", "x.py", ()),
]
NOTHING = [
    "echo python x.py",
    "pip install x.py",
    "python -m pip install torch",
    "python -m venv env",
    "python",
    "module load python",
    "which python",
    "srun hostname",
    "srun",
    "conda activate env",
    "source activate env",
    ". ~/.bashrc",
    "torchrun",
    "accelerate config",
    "./a.out",
    "./solver.x input",
]


def only(text: str) -> Launch | None:
    found = [launched(command) for command in commands(text, Scope())]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(("text", "program", "arguments"), PYTHON)
def test_finds_the_python_program(text: str, program: str, arguments: tuple[str, ...]) -> None:
    launch = only(text)
    assert launch is not None
    assert launch.language == "python"
    assert (f"-m {launch.module}" if launch.module else launch.path, launch.arguments) == (program, arguments)


@pytest.mark.parametrize("text", NOTHING)
def test_other_commands_start_nothing_that_is_read(text: str) -> None:
    assert only(text) is None


def test_code_on_the_command_line_and_on_standard_input() -> None:
    inline = only("srun python -c 'import x; x.run(epochs=3)' a")
    assert inline == Launch("python", code="import x; x.run(epochs=3)", arguments=("a",))
    piped = only("python3 - 7 <<E\nepochs = 4\nE")
    assert piped == Launch("python", code="epochs = 4\n", arguments=("7",))


@pytest.mark.parametrize(
    ("text", "path", "code", "arguments"),
    [
        ("bash other.sh 1 2", "other.sh", "", ("1", "2")),
        ("srun ./run.sh", "./run.sh", "", ()),
        ("./run a", "./run", "", ("a",)),
        ("source lib.sh", "lib.sh", "", ()),
        ("srun bash -c 'python x.py'", "", "python x.py", ()),
        ("bash -lc 'python x.py' _ 3", "", "python x.py", ("3",)),
        ("eval 'python x.py'", "", "python x.py", ()),
    ],
)
def test_finds_other_shell_scripts(text: str, path: str, code: str, arguments: tuple[str, ...]) -> None:
    launch = only(text)
    assert launch is not None
    assert (launch.language, launch.path, launch.code, launch.arguments) == ("shell", path, code, arguments)


def test_keeps_what_goes_with_the_program() -> None:
    launch = only("cd src && A=1 srun -n 2 env B=2 torchrun --nproc_per_node=4 t.py")
    assert launch is not None
    assert launch.environment == {"A": "1", "B": "2"}
    assert launch.launcher == ("-n", "2", "B=2", "--nproc_per_node=4")
    assert launch.directory == "src"
