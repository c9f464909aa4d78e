"""Submissions made from a job's record and its script, where the hook saw nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurmcast.daemon.record import submission
from slurmcast.model import GpuRequest, Job

SCRIPT = b"#!/bin/bash\n#SBATCH --gres=gpu:2\npython train.py\n"
WRAPPED = b"#!/bin/sh\n# This script was created by sbatch --wrap.\n\nsleep 60\n"


def job(line: str, partitions: tuple[str, ...] = ("a100",)) -> Job:
    gpus = GpuRequest(per_node=2)
    return Job(7, "alice", 1000, "train.sh", "PENDING", "None", partitions, 100, submit_line=line, gpus=gpus)


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("sbatch train.sh --epochs 5 -p x", ("train.sh", "--epochs", "5", "-p", "x")),
        ("sbatch --parsable -o /dev/null -H --gres=gpu:1 train.sh 5", ("train.sh", "5")),
        ("sbatch -n4 -HOp a100 run -x b", ("run", "-x", "b")),
        ("sbatch --exclusive train.sh a", ("train.sh", "a")),
        ("sbatch --nice --gres gpu:1 train.sh", ("train.sh",)),
        ("sbatch --comment the job's own run.sh --epochs 5", ("run.sh", "--epochs", "5")),
        ("sbatch --extra my words /home/alice/train.sh --epochs 5", ("/home/alice/train.sh", "--epochs", "5")),
        ("sbatch --extra my words -J other train.sh", ("words", "-J", "other", "train.sh")),
        ("sbatch", ()),
        ("", ()),
    ],
)
def test_the_script_and_its_arguments(line: str, arguments: tuple[str, ...]) -> None:
    asked = replace(job(line), comment="the job's own")
    assert submission(asked, SCRIPT, ["a100"]).argv == arguments


@pytest.mark.parametrize("line", ["sbatch --wrap sleep 60", "sbatch --wrap=python train.py", "sbatch -J a b --wrap x"])
def test_a_wrapped_command_has_no_arguments(line: str) -> None:
    assert submission(job(line), WRAPPED, ["a100"]).argv == ()


@pytest.mark.parametrize(
    ("line", "script", "partitions", "default", "named"),
    [
        ("sbatch x.sh", SCRIPT, ("a100",), ["a100"], None),
        ("sbatch -p a100 x.sh", SCRIPT, ("a100",), ["a100"], "a100"),
        ("sbatch -Hpa100 x.sh", SCRIPT, ("a100",), ["a100"], "a100"),
        ("sbatch --part a100 x.sh", SCRIPT, ("a100",), ["a100"], "a100"),
        ("sbatch -J two words -p a100 x.sh", SCRIPT, ("a100",), ["a100"], "a100"),
        ("sbatch x.sh", b"#!/bin/sh\n#SBATCH -p a100\n", ("a100",), ["a100"], "a100"),
        ("sbatch x.sh", SCRIPT, ("a6000",), ["a100"], "a6000"),
        ("sbatch x.sh", SCRIPT, ("a100", "a6000"), ["a100"], "a100,a6000"),
        ("sbatch x.sh", SCRIPT, ("a100",), [], "a100"),
    ],
)
def test_whether_the_user_named_the_partition(
    line: str, script: bytes, partitions: tuple[str, ...], default: list[str], named: str | None
) -> None:
    assert submission(job(line, partitions), script, default).partition == named


def test_the_request_is_the_records() -> None:
    made = submission(job("sbatch x.sh"), SCRIPT, ["a100"])
    assert made.request == {"min_nodes": "1", "num_tasks": "1", "cpus_per_task": "1", "tres_per_node": "gres/gpu:2"}
    assert (made.uid, made.submit_time, made.begin_time, made.complete) == (1000, 100, 0, True)
