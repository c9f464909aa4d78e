"""From a submission to a reading: what wins, what enters the key, what the encoder gets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from slurmcast.codec import from_json, to_json
from slurmcast.model import GpuRequest, Reading, Submission
from slurmcast.script import Found, Missing, OwnedFiles, SourceReader, read

SCRIPT = b"""#!/bin/bash
#SBATCH --job-name=demo --gres=gpu:a100:2
#SBATCH -N 2 -t 1:00:00
# warm up
module load cuda

srun python train.py --epochs ${1:-5} $EXTRA
"""
TRAIN = """import argparse
from models import unet
p = argparse.ArgumentParser()
p.add_argument("--epochs", type=int, default=90)
p.add_argument("--batch-size", type=int, default=32)
"""


def submission(script: bytes = SCRIPT, *arguments: str, **fields: object) -> Submission:
    made = Submission(os.getuid(), "u", "demo", 0, script, len(script), argv=("job.sh", *arguments))
    return replace(made, **fields)  # type: ignore[arg-type]


def files(texts: dict[str, str]) -> SourceReader:
    """A source reader over texts in memory, by path."""

    def reader(candidates: Sequence[str], work_dir: str, uid: int) -> Found | Missing:
        known = [Found(path, texts[path].encode()) for path in candidates if path in texts]
        return known[0] if known else Missing("no such file")

    return reader


def test_reads_a_whole_submission(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "unet.py").write_text("depth = 4\nepochs = 1\n")
    found = read(submission(SCRIPT, "20", work_dir=str(tmp_path)), OwnedFiles(os.getuid()))
    assert found.gpus == GpuRequest(per_node=2, type="a100")
    assert found.gpus_total == 4
    assert found.time_limit_s == 3600
    assert found.numbers == {
        "epochs": 20, "batch_size": 32, "layers": 4, "nodes": 2, "tasks": 2, "gpus": 4, "time_limit_s": 3600,
        "default epochs": 90,
    }  # fmt: skip
    assert found.sources == (str(tmp_path / "train.py"), str(tmp_path / "models" / "unet.py"))
    assert found.missing_sources == ()
    assert from_json(Reading, to_json(found)) == found


def test_the_text_has_what_matters_and_no_noise() -> None:
    found = read(
        submission(SCRIPT, "20", environment={"EXTRA": "--lr 1"}), files({"train.py": "# licence\n\nx = 1  \n"})
    )
    assert found.text == (
        "# arguments: 20\n# environment: EXTRA=--lr 1\n#!/bin/bash\n#SBATCH -N 2 -t 1:00:00\nmodule load cuda\n"
        "srun python train.py --epochs ${1:-5} $EXTRA\n\n# file: train.py\nx = 1"
    )


EPOCHS = "p.add_argument('--epochs', default=1)"


@pytest.mark.parametrize(
    ("script", "arguments", "environment", "epochs"),
    [
        ("python train.py", (), {}, 1),  # the source's default
        ("python train.py", (), {"EPOCHS": "2"}, 2),  # the environment over it
        ("EPOCHS=3 python train.py", (), {"EPOCHS": "2"}, 3),  # the script over that
        ("export EPOCHS=3; python train.py", (), {"EPOCHS": "2"}, 3),
        ("python train.py --epochs 4", (), {"EPOCHS": "2"}, 4),  # an argument over all
        ("python train.py --epochs $EPOCHS", (), {"EPOCHS": "2"}, 2),
        ("python train.py --epochs ${EPOCHS:-6}", (), {}, 6),
        ("E=$1; python train.py --epochs=$E", ("7",), {}, 7),
        ('python train.py "$@"', ("--epochs", "8"), {}, 8),
        ("python train.py --epochs 2; python train.py --epochs 9", (), {}, 9),  # the longest of several programs
    ],
)
def test_arguments_win_over_variables_over_defaults(
    script: str, arguments: tuple[str, ...], environment: dict[str, str], epochs: int
) -> None:
    made = submission(f"#!/bin/bash\n{script}\n".encode(), *arguments, environment=environment)
    assert read(made, files({"train.py": EPOCHS})).numbers["epochs"] == epochs


FOLLOWED = [
    ("bash run.sh 3", {"run.sh": "python x.py --epochs $1"}, {"epochs": 3}),
    ("source lib.sh; python x.py --steps $N", {"lib.sh": "N=9"}, {"steps": 9}),
    ("python -m pkg.train", {"pkg/train.py": "epochs = 4"}, {"epochs": 4}),
    ("python -m pkg.train", {"pkg/train.py": "from . import net", "pkg/net.py": "depth = 2"}, {"layers": 2}),
    ("python -m pkg", {"pkg/__main__.py": "epochs = 5"}, {"epochs": 5}),
    ("cd sub && python a.py", {"sub/a.py": "epochs = 6"}, {"epochs": 6}),
    ("cat > a.py <<E\nepochs = 7\nE\npython a.py", {}, {"epochs": 7}),
    ("python - <<E\nepochs = 8\nE", {}, {"epochs": 8}),
    ("python -c 'train(epochs=9)'", {}, {"epochs": 9}),
    ("torchrun --nproc_per_node=4 a.py", {"a.py": "epochs = 1"}, {"epochs": 1, "processes": 4}),
    ("for s in 1 2 3; do python a.py; done", {"a.py": "epochs = 1"}, {"epochs": 1, "trials": 3}),
    ("python a.py 12", {"a.py": "import sys\nepochs = int(sys.argv[1])"}, {"epochs": 12}),
    ("srun bash -c 'python a.py --epochs 2'", {}, {"epochs": 2}),
    ("srun ./solver --max-iter 500", {}, {"steps": 500}),
    ("echo --max-iter 500", {}, {"steps": None}),
]


@pytest.mark.parametrize(("script", "texts", "expected"), FOLLOWED)
def test_follows_the_script_to_its_programs(
    script: str, texts: dict[str, str], expected: dict[str, float | None]
) -> None:
    found = read(submission(f"#!/bin/bash\n{script}\n".encode()), files(texts)).numbers
    assert {name: found.get(name) for name in expected} == expected


def test_settings_files_count_between_variables_and_defaults() -> None:
    texts = {"t.py": "p.add_argument('--epochs', default=1)\nlayers = 2", "c.yaml": "max_epochs: 50\nbatch: 8"}
    made = submission(b"#!/bin/sh\npython t.py --config=c.yaml", environment={"BATCH": "16"})
    found = read(made, files(texts)).numbers
    assert {name: found[name] for name in ("epochs", "batch_size", "layers")} == {
        "epochs": 50, "batch_size": 16, "layers": 2
    }  # fmt: skip


def test_a_batch_script_may_be_python() -> None:
    script = b"#!/usr/bin/env python3\n#SBATCH --gpus=1\nimport sys\nepochs = int(sys.argv[1])\n"
    assert read(submission(script, "11")).numbers["epochs"] == 11


def test_says_which_sources_are_missing() -> None:
    found = read(submission(b"#!/bin/sh\npython $HOME/a.py; python b.py; bash c.sh; python -m d; source e.sh"))
    off = "reading sources is switched off"
    assert found.missing_sources == (
        "$HOME/a.py: its path is known only when the job runs", f"b.py: {off}", f"c.sh: {off}", f"d: {off}"
    )  # fmt: skip


class TestKey:
    def test_arguments_environment_request_and_sources_count(self) -> None:
        base = submission(SCRIPT, "10")
        others = [
            submission(SCRIPT, "100"),
            submission(SCRIPT, "1", "0"),
            replace(base, environment={"EXTRA": "1"}),
            replace(base, request={"min_nodes": "4"}),
            replace(base, script=SCRIPT + b"\n", script_size=len(SCRIPT) + 1),
            replace(base, script_size=999_999),  # cut by the hook
        ]
        keys = [read(made).key for made in (base, *others)]
        keys.append(read(base, files({"train.py": "x = 1"})).key)
        assert len(set(keys)) == len(keys)

    def test_an_array_counts_where_its_tasks_look_at_their_number(self) -> None:
        alike, numbered = submission(SCRIPT), submission(SCRIPT + b"echo $SLURM_ARRAY_TASK_ID\n")
        assert read(replace(alike, array="0-9")) == read(alike)
        assert read(replace(numbered, array="0-9")).key != read(numbered).key
        assert read(replace(numbered, array="0-9")).numbers["array_size"] == 10
        by_source = files({"train.py": 'import os\nseed = os.environ["SLURM_ARRAY_TASK_ID"]\n'})
        assert read(replace(alike, array="0-9"), by_source).key != read(alike, by_source).key

    def test_who_and_what_it_is_called_do_not(self) -> None:
        base = submission(SCRIPT, "10")
        same = replace(
            base, uid=7, user="v", name="other", submit_time=9, argv=("/elsewhere/job.sh", "10"),
            request={"account": "x", "qos": "y", "comment": "z"},
        )  # fmt: skip
        assert read(same).key == read(base).key

    @pytest.mark.parametrize(
        "line",
        ["--time=1:00:00", "--time 2-0", "-t 30", "-t30", "--job-name=other", "-J x", "-o %j.out", "--qos=high", "-Ax"],
    )
    def test_directives_that_leave_the_work_as_it_is(self, line: str) -> None:
        script = b"#!/bin/bash\n#SBATCH --gpus=2\npython train.py\n"
        more = script.replace(b"#SBATCH", f"#SBATCH {line} \n#SBATCH".encode(), 1)
        assert read(submission(more)).key == read(submission(script)).key

    @pytest.mark.parametrize("line", ["--nodes=2", "-t 30 --nodes=2", "--export=EPOCHS=9", "--time-min=5"])
    def test_other_directives_count(self, line: str) -> None:
        script = b"#!/bin/bash\n#SBATCH --gpus=2\npython train.py\n"
        more = script.replace(b"#SBATCH", f"#SBATCH {line}\n#SBATCH".encode(), 1)
        assert read(submission(more)).key != read(submission(script)).key

    def test_the_time_limit_is_a_number_of_the_same_work(self) -> None:
        hour, day = (read(submission(SCRIPT, "10", request={"time_limit": str(m)})) for m in (60, 1440))
        assert hour.key == day.key
        assert (hour.numbers["time_limit_s"], day.numbers["time_limit_s"]) == (3600, 86400)

    def test_every_release_s_spelling_of_a_request_is_one(self) -> None:
        spellings = ("gres:gpu:2", "gres/gpu:2", "gres/gpu=2")
        assert len({read(submission(request={"tres_per_node": text})).key for text in spellings}) == 1


@pytest.mark.parametrize(
    ("comment", "requested", "opted_out", "opted_in"),
    [
        ("", "", False, False),
        ("slurmcast:off", "", True, False),
        ("x,slurmcast:move", "", False, True),
        ("", "my slurmcast:off", True, False),
        ("slurmcast:off", "mine", False, False),  # what Slurm has wins
        ("slurmcast:off,slurmcast:move", "", True, False),
        ("slurmcast:offer", "", False, False),
    ],
)
def test_opting_out_and_in(comment: str, requested: str, opted_out: bool, opted_in: bool) -> None:
    script = f"#!/bin/sh\n#SBATCH --comment='{comment}'\n".encode()
    found = read(submission(script, request={"comment": requested} if requested else {}))
    assert (found.opted_out, found.opted_in) == (opted_out, opted_in)


def test_the_partition_that_slurm_knows_wins() -> None:
    script = b"#!/bin/sh\n#SBATCH -p a100,a6000\n"
    assert read(submission(script)).partitions == ("a100", "a6000")
    assert read(submission(script, partition="h100")).partitions == ("h100",)
    assert read(submission(b"#!/bin/sh\n")).partitions == ()


def test_options_of_the_program_and_what_its_sources_would_set() -> None:
    source = 'p.add_argument("--n-critic", default=5)\np.add_argument("--epochs", default=90)\n'
    script = b"#!/bin/bash\npython train.py --n-critic 7 --epochs 90 --config c.yaml\n"
    found = read(
        submission(script, work_dir="/w"), files({"train.py": source, "c.yaml": "clusters: 30\nbatch_size: 8\n"})
    )
    numbers = {name: value for name, value in found.numbers.items() if name not in ("nodes", "tasks")}
    assert numbers == {
        "epochs": 90, "batch_size": 8, "--n_critic": 7, "--clusters": 30, "default --n_critic": 5
    }  # fmt: skip
