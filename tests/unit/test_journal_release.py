"""``release`` undoes what is in the journal, and nothing else. Slurm's side is played by its JSON answers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurmcast.agent.journal import Journal
from slurmcast.agent.release import release
from slurmcast.model import Change, Job

NOW = 1000.0
JOB = Job(7, "alice", 1000, "train", "PENDING", "Priority", ("a100",), 500, nice=3)


def number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


def record(job_id: int = 7, **fields: Any) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "submit_time": number(500),
        "job_state": ["PENDING"],
        "partition": "a6000",
        "eligible_time": number(500),
        "restart_cnt": 0,
        **fields,
    }


class Scontrol:
    """Answers ``show job`` with records and remembers what else it was asked."""

    def __init__(self, *records: dict[str, Any], fails: str = "") -> None:
        self.records, self.fails = records, fails
        self.asked: list[str] = []

    def __call__(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        if arguments[0] == "show":
            return subprocess.CompletedProcess([], 0, json.dumps({"jobs": self.records}), "")
        self.asked.append(" ".join(arguments))
        return subprocess.CompletedProcess([], 1 if self.fails else 0, "", self.fails)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def journalled(path: Path, *changes: Change, job: Job = JOB) -> None:
    Journal(path).write(1.0, [(change, job) for change in changes])


MOVED = Change(7, 500, "", partition="a6000", site_factor=90)

# case: (change, Slurm's record, what scontrol is asked)
CASES: dict[str, tuple[Change, dict[str, Any], list[str]]] = {
    "moved and ordered": (MOVED, record(), ["update JobId=7 Partition=a100 SiteFactor=0"]),
    "only ordered": (Change(7, 500, "", site_factor=9), record(partition="a100"), ["update JobId=7 SiteFactor=0"]),
    "moved by others since": (MOVED, record(partition="h100"), ["update JobId=7 SiteFactor=0"]),
    "only moved, and back already": (Change(7, 500, "", partition="a6000"), record(partition="a100"), []),
    "a task that was split off": (
        MOVED,
        record(8, array_job_id=number(7)),
        ["update JobId=8 Partition=a100 SiteFactor=0"],
    ),
    "a task that was requeued": (
        MOVED,
        record(8, array_job_id=number(7), submit_time=number(900), restart_cnt=1),
        ["update JobId=8 Partition=a100 SiteFactor=0"],
    ),
    "running by now": (MOVED, record(job_state=["RUNNING"]), []),
    "another job of that id": (MOVED, record(submit_time=number(900)), []),
    "requeued": (
        MOVED,
        record(submit_time=number(900), restart_cnt=1),
        ["update JobId=7 Partition=a100 SiteFactor=0"],
    ),
    "old Slurm's plain numbers": (
        MOVED,
        record(submit_time=500, eligible_time=500, job_state="PENDING"),
        ["update JobId=7 Partition=a100 SiteFactor=0"],
    ),
    "pinned": (Change(7, 500, "", priority=5), record(partition="a100"), ["release 7", "update JobId=7 Nice=3"]),
}


@pytest.mark.parametrize("case", CASES)
def test_given_back(path: Path, case: str) -> None:
    change, shown, asked = CASES[case]
    journalled(path, change)
    scontrol = Scontrol(shown)
    results = release(path, scontrol, lambda: NOW)
    assert scontrol.asked == asked
    assert [(result.job_id, result.ok) for result in results] == ([(shown["job_id"], True)] if asked else [])


@pytest.mark.parametrize(("eligible", "lifted"), [(2000, True), (2500, False)])
def test_the_grace_is_lifted_where_it_is_still_ours(path: Path, eligible: int, lifted: bool) -> None:
    journalled(path, Change(7, 500, "", lift_grace=True), job=replace(JOB, begin_time=2000))
    scontrol = Scontrol(record(partition="a100", eligible_time=number(eligible)))
    release(path, scontrol, lambda: NOW)
    assert scontrol.asked == (["update JobId=7 StartTime=now"] if lifted else [])


def test_twice_does_nothing_more(path: Path) -> None:
    journalled(path, MOVED)
    assert release(path, Scontrol(record()), lambda: NOW)
    again = Scontrol(record())
    assert release(path, again, lambda: NOW) == []
    assert again.asked == []


def test_a_refusal_keeps_the_journal(path: Path) -> None:
    journalled(path, MOVED)
    (result,) = release(path, Scontrol(record(), fails="Access denied"), lambda: NOW)
    assert (result.ok, result.detail) == (False, "Access denied")
    (result,) = release(path, Scontrol(record()), lambda: NOW)
    assert result.ok


def test_slurmctld_down(path: Path) -> None:
    journalled(path, MOVED)

    def down(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 1, "", "Unable to contact slurm controller")

    (result,) = release(path, down, lambda: NOW)
    assert not result.ok
    assert "1 jobs not looked at: Unable to contact" in result.detail
    assert path.exists()


def test_no_journal(path: Path) -> None:
    assert release(path, Scontrol(), lambda: NOW) == []


def test_a_move_that_a_crash_prevented_hides_no_earlier_one(path: Path) -> None:
    job = replace(JOB, partitions=("a100", "a6000"))
    journalled(path, Change(7, 500, "", partition="a6000"), Change(7, 500, "", partition="a100"), job=job)
    scontrol = Scontrol(record(partition="a6000"))
    release(path, scontrol, lambda: NOW)
    assert scontrol.asked == ["update JobId=7 Partition=a100,a6000"]


def test_a_job_that_somebody_took_over_keeps_its_partition(path: Path) -> None:
    journalled(path, MOVED)
    Journal(path).take_over(2.0, [replace(JOB, partitions=("a6000",))])
    scontrol = Scontrol(record(partition="a6000"))
    release(path, scontrol, lambda: NOW)
    assert scontrol.asked == ["update JobId=7 SiteFactor=0"]
