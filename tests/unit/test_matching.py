"""Which submission became which job: certain pairs only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurmcast.daemon.matching import agrees, pair
from slurmcast.model import Job, Reading
from slurmcast.store.store import Stored

JOB = Job(
    7, "alice", 1000, "train.sh", "PENDING", "None", ("a100",), 100, begin_time=100, submit_line="sbatch x.sh -e 5"
)
STORED = Stored(1, 1000, 100, 0, "0" * 64, Reading("k", "", {}), "t", (), ("-e", "5"), True)


@pytest.mark.parametrize(
    ("job", "stored", "expected"),
    [
        (JOB, STORED, True),
        (replace(JOB, submit_time=102), STORED, True),
        (replace(JOB, submit_time=103), STORED, False),
        (replace(JOB, uid=1001), STORED, False),
        (replace(JOB, submit_line="sbatch x.sh -e 55"), STORED, False),
        (replace(JOB, submit_line="sbatch x.sh -e 5 more"), STORED, False),
        (JOB, replace(STORED, arguments=()), True),
        (JOB, replace(STORED, begin_time=108), False),
        (replace(JOB, begin_time=108), replace(STORED, begin_time=108), True),
        (replace(JOB, begin_time=150, state="RUNNING"), replace(STORED, begin_time=108), True),
    ],
)
def test_agrees(job: Job, stored: Stored, expected: bool) -> None:
    assert agrees(job, stored) is expected


def submissions(*ids: int) -> list[Stored]:
    return [replace(STORED, id=n) for n in ids]


def jobs(*ids: int) -> list[Job]:
    return [replace(JOB, job_id=n) for n in ids]


def test_one_to_one() -> None:
    assert pair(jobs(7), {7: submissions(1)}) == {7: 1}


def test_as_many_jobs_as_submissions_pair_in_order() -> None:
    same = submissions(4, 5, 9)
    assert pair(jobs(31, 30, 32), dict.fromkeys((30, 31, 32), same)) == {30: 4, 31: 5, 32: 9}


def test_unequal_numbers_are_left_open() -> None:
    same = submissions(4, 5)
    assert pair(jobs(30), {30: same}) == {}


def test_the_certain_ones_leave_the_others_certain() -> None:
    candidates = {30: submissions(4), 31: submissions(4, 5)}
    assert pair(jobs(30, 31), candidates) == {30: 4, 31: 5}


def test_no_candidate() -> None:
    assert pair(jobs(7), {}) == {}
