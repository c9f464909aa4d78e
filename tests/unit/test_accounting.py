"""sacct's output to runs, scripts and environments. The texts are what Slurm 26.05 prints."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from slurmcast.cluster import accounting
from slurmcast.cluster.accounting import FIELDS, STATES, Accounting, Record
from slurmcast.cluster.base import ClusterError

D = "5f2a"
ROW = {
    "JobIDRaw": "7", "JobID": "7", "JobName": "train", "UID": "1000", "User": "alice", "Account": "research",
    "QOS": "normal", "Partition": "a100", "State": "COMPLETED", "Submit": "1700000000", "Start": "1700000010",
    "End": "1700000075", "ElapsedRaw": "60", "AllocTRES": "billing=4,cpu=4,gres/gpu:a100=2,gres/gpu=2,mem=8G,node=1",
    "NNodes": "1", "Constraints": "", "Comment": "", "SubmitLine": "sbatch train.sh", "WorkDir": "/home/alice",
}  # fmt: skip
LINE = "-" * 80


def printed(*rows: dict[str, str]) -> bytes:
    """What ``sacct -p`` prints."""
    lines = ("".join(f"{(ROW | row)[name]}{D}" for name in FIELDS) + "\n" for row in rows)
    return "".join(lines).encode("utf-8", "surrogateescape")


def records(*rows: dict[str, str], block: int = 7) -> list[Record]:
    text = printed(*rows)
    blocks = [text[start : start + block] for start in range(0, len(text), block)]
    return [accounting.record(row) for row in accounting.fields(blocks, D.encode(), len(FIELDS))]


def test_a_record() -> None:
    (found,) = records({})
    outcome = accounting.outcome(found)
    assert (outcome.job_id, outcome.array_job_id, outcome.submit_time) == (7, 0, 1700000000)
    assert (outcome.start_time, outcome.end_time, outcome.elapsed_s) == (1700000010, 1700000075, 60.0)
    assert (outcome.gpus, outcome.gpu_type, outcome.nodes, outcome.state) == (2, "a100", 1, "COMPLETED")
    assert (outcome.user, outcome.account, outcome.qos, outcome.energy_kwh) == ("alice", "research", "normal", None)


@pytest.mark.parametrize("block", [1, 3, 50, 10**6])
def test_what_users_wrote_may_hold_anything(block: int) -> None:
    names = ["a|b", "two\nlines", "\nfirst", "last\n", "caf\udce9", "", "5f2", "日本"]
    found = records(*({"JobName": name, "JobIDRaw": str(n)} for n, name in enumerate(names)), block=block)
    assert [(record.job_id, record.name) for record in found] == list(enumerate(names))


@pytest.mark.parametrize("text", [b"sacct says something", printed({})[:-30], b"7" + D.encode() * 3 + b"\n"])
def test_half_an_output_is_an_error(text: bytes) -> None:
    with pytest.raises(ValueError, match="middle of a record"):
        list(accounting.fields([text], D.encode(), len(FIELDS)))


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"State": "CANCELLED by 1000"}, {"state": "CANCELLED"}),
        ({"Start": "None"}, {"start_time": 0}),
        ({"End": "Unknown"}, {"end_time": 0}),
        ({"User": "", "UID": "4711"}, {"user": "4711", "uid": 4711}),
        ({"JobIDRaw": "9", "JobID": "5_3"}, {"job_id": 9, "array_job_id": 5, "heterogeneous": False}),
        ({"JobIDRaw": "5", "JobID": "5_9"}, {"job_id": 5, "array_job_id": 5}),
        ({"JobIDRaw": "6", "JobID": "5+1"}, {"job_id": 6, "array_job_id": 0, "heterogeneous": True}),
        ({"AllocTRES": ""}, {"gpus": {}}),
        ({"AllocTRES": "cpu=4,gres/gpu=3"}, {"gpus": {"gpu": 3}}),
        ({"AllocTRES": "gres/gpu:a100=1,gres/gpu:h100=2"}, {"gpus": {"gpu:a100": 1, "gpu:h100": 2}}),
        ({"AllocTRES": "gres/gpumem=80G,gres/gpuutil=40,gres/shard=4"}, {"gpus": {}}),
        ({"ElapsedRaw": ""}, {"elapsed_s": 0}),
    ],
)
def test_oddities(row: dict[str, str], expected: dict[str, Any]) -> None:
    (found,) = records(row)
    assert {name: getattr(found, name) for name in expected} == expected


def test_gpus_of_types_alone_are_added() -> None:
    (found,) = records({"AllocTRES": "gres/gpu:a100=1,gres/gpu:h100=2"})
    assert (accounting.outcome(found).gpus, accounting.outcome(found).gpu_type) == (3, "a100")


def scripts(*texts: tuple[str, str]) -> bytes:
    return "".join(f"Batch Script for {label}\n{LINE}\n{text}" for label, text in texts).encode()


def read(output: bytes, *jobs: str) -> dict[str, bytes] | None:
    return accounting.texts(output, accounting.SCRIPT, jobs)


def test_scripts() -> None:
    output = scripts(("7", "#!/bin/sh\nx\n"), ("8", "NONE\n"), ("5_1", "#!/bin/sh\nno newline"), ("9+0", "#!/bin/sh\n"))
    assert read(output, "7", "8", "5_1", "9+0", "10") == {
        "7": b"#!/bin/sh\nx\n",
        "8": b"",
        "5_1": b"#!/bin/sh\nno newline",
        "9+0": b"#!/bin/sh\n",
        "10": b"",
    }


@pytest.mark.parametrize("victim", ["8", "9", "4711"])
def test_no_script_speaks_for_another_job(victim: str) -> None:
    forged = f"#!/bin/sh\nBatch Script for {victim}\n{LINE}\n#!/bin/sh\nforged\n"
    assert read(scripts(("7", forged), ("8", "NONE\n"), ("9", "#!/bin/sh\n")), "7", "8", "9") is None


def test_variables() -> None:
    environment = b"EPOCHS=7\nHOME=/home/alice\nMODEL=a=b\nTEXT=two\nlines\nBATCH=\nTASK=caf\xe9\nEPOCHSX=9\n"
    found = accounting.variables(environment, ("EPOCHS", "MODEL", "BATCH", "TASK", "SEED"))
    assert found == {"EPOCHS": "7", "MODEL": "a=b", "BATCH": "", "TASK": "caf\udce9"}


def test_states_are_those_in_which_a_record_has_ended() -> None:
    assert not {"PENDING", "RUNNING", "SUSPENDED"} & set(STATES)
    assert len(set(STATES)) == len(STATES)


SAYS = {
    "much": 'head -c 300000 /dev/zero | tr "\\0" x >&2',
    "refuses": 'echo "sacct: error: no" >&2; echo "sacct: error: slurmdbd is away" >&2; exit 1',
    "refuses at length": 'yes "sacct: error" 2> /dev/null | head -n 30000 >&2; exit 1',
    "is killed": "kill -9 $$",
}


@pytest.mark.parametrize(
    ("what", "problem"),
    [
        ("much", None),
        ("refuses", "sacct: error: no; sacct: error: slurmdbd is away"),
        ("refuses at length", "; sacct: error"),
        ("is killed", "sacct ended with -9"),
    ],
)
def test_whatever_sacct_complains_of(
    what: str, problem: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sacct").write_text(f"#!/bin/bash\n{SAYS[what]}\n")
    (tmp_path / "sacct").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    if problem is None:
        assert list(Accounting().ended(0, 60)) == []
        return
    with pytest.raises(ClusterError) as failed:
        list(Accounting().ended(0, 60))
    assert str(failed.value).endswith(problem) and len(str(failed.value)) < 2000
