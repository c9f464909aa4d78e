"""Which submission became which job: what agrees, which pairs are certain, what the script tells."""

from __future__ import annotations

import time
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from slurmcast.daemon.matching import agrees, by_script, match
from slurmcast.model import Job, Reading, Submission
from slurmcast.store.store import Stored


def job(number: int = 7, **fields: Any) -> Job:
    base = {"submit_time": 100, "begin_time": 100, "submit_line": "sbatch x.sh -e 5", "name": "train.sh", "uid": 1000}
    known = {"user": "alice", "state": "PENDING", "reason": "None", "partitions": ("a100",)}
    return Job(job_id=number, **{**base, **known, **fields})


def submitted(number: int = 1, text: bytes = b"", named: tuple[str, ...] = (), **fields: Any) -> Stored:
    base = {"submit_time": 100, "name": "train.sh", "uid": 1000, "user": "", "script": b"", "script_size": len(text)}
    submission = Submission(**{**base, "argv": ("x.sh", "-e", "5"), **fields})
    reading = Reading(sha256(text).hexdigest(), "", {})
    return Stored(number, submission, sha256(text).hexdigest(), len(text), True, reading, "t", named, None)


@pytest.mark.parametrize(
    ("a_job", "stored", "expected"),
    [
        (job(), submitted(), True),
        (job(submit_time=102), submitted(), True),
        (job(submit_time=103), submitted(), False),
        (job(uid=1001), submitted(), False),
        (job(name="other"), submitted(), False),
        (job(name=""), submitted(), True),
        (job(name="caf\ufffd"), submitted(name="caf\udce9"), True),
        (job(submit_line="sbatch x.sh -e 55"), submitted(), False),
        (job(submit_line="sbatch x.sh -e 5 more"), submitted(), False),
        (job(submit_line="sbatch x.sh \ufffd"), submitted(argv=("x.sh", "\udce9")), True),
        (job(), submitted(argv=()), True),
        (job(), submitted(begin_time=108), False),
        (job(begin_time=108), submitted(begin_time=108), True),
        (job(begin_time=150, state="RUNNING"), submitted(begin_time=108), True),
        (job(), submitted(partition="a6000"), False),
        (job(partitions=("a6000", "a100")), submitted(partition="a100,a6000"), True),
        (job(partitions=("a6000",)), submitted(partition="a100,a6000"), False),
        (job(partitions=("a6000",), state="RUNNING"), submitted(partition="a100,a6000"), True),
        (job(partitions=("a6000",)), submitted(), True),
    ],
)
def test_agrees(a_job: Job, stored: Stored, expected: bool) -> None:
    assert agrees(a_job, stored) is expected


def matched(jobs: list[Job], submissions: list[Stored]) -> dict[int, tuple[int, bool]]:
    return {found.job.job_id: (found.submission, found.certain) for found in match(jobs, submissions)}


def test_one_to_one() -> None:
    assert matched([job()], [submitted()]) == {7: (1, True)}


def test_nothing_to_match() -> None:
    assert matched([job()], []) == matched([], [submitted()]) == matched([job()], [submitted(uid=1)]) == {}


def test_as_many_jobs_as_submissions_pair_in_order_until_the_script_is_known() -> None:
    jobs = [job(31), job(30), job(32)]
    assert matched(jobs, [submitted(n, b"%d" % n) for n in (9, 4, 5)]) == {
        30: (4, False),
        31: (5, False),
        32: (9, False),
    }


def test_the_same_work_may_be_paired_at_will() -> None:
    assert matched([job(30), job(31)], [submitted(4), submitted(5)]) == {30: (4, True), 31: (5, True)}
    assert matched([job(30)], [submitted(4), submitted(5)]) == {30: (4, True)}


def test_where_scripts_are_the_same_the_order_has_the_last_word() -> None:
    submissions = [submitted(4), submitted(5)]
    submissions[1] = replace(submissions[1], reading=replace(submissions[1].reading, key="other environment"))
    assert matched([job(30), job(31)], submissions) == {30: (4, True), 31: (5, True)}


def test_unequal_numbers_are_left_open() -> None:
    assert matched([job(30)], [submitted(4, b"a"), submitted(5, b"b")]) == {}
    assert matched([job(30), job(31)], [submitted(4)]) == {}


def test_leave_to_be_moved_is_never_guessed() -> None:
    free, named = submitted(4, b"a"), submitted(5, b"b", named=("a100",))
    assert matched([job(30), job(31)], [free, named]) == {}


def test_arguments_untie_a_knot() -> None:
    jobs = [job(30, submit_line="sbatch x.sh -e 5"), job(31, submit_line="sbatch x.sh -e 6")]
    submissions = [submitted(4, argv=("x.sh", "-e", "6")), submitted(5)]
    assert matched(jobs, submissions) == {30: (5, True), 31: (4, True)}


def test_seconds_untie_a_knot() -> None:
    """A submission of the second before has no job: those of this second are still paired."""
    submissions = [submitted(3, b"x", submit_time=99), *(submitted(n, b"%d" % n) for n in (4, 5))]
    assert matched([job(30), job(31)], submissions) == {30: (4, False), 31: (5, False)}


def test_a_clock_that_ticks_between_hook_and_job_keeps_the_order() -> None:
    jobs = [job(30, submit_time=100), job(31, submit_time=101), job(32, submit_time=101)]
    submissions = [submitted(n, b"%d" % n, submit_time=100 + (n > 5)) for n in (4, 5, 6)]
    assert matched(jobs, submissions) == {30: (4, False), 31: (5, False), 32: (6, False)}


def test_a_burst_takes_no_time() -> None:
    jobs = [job(n, submit_time=100 + n // 50) for n in range(1000)]
    submissions = [submitted(n, b"%d" % n, submit_time=100 + n // 50) for n in range(1000)]
    began = time.perf_counter()
    found = matched(jobs, submissions)
    assert time.perf_counter() - began < 5
    assert found == {n: (n, False) for n in range(1000)}


def test_the_script_tells() -> None:
    candidates = [submitted(4, b"a"), submitted(5, b"b"), submitted(6, b"b", submit_time=101), submitted(8, b"b")]
    assert by_script(job(), b"x", candidates) is None
    assert by_script(job(), b"b", candidates) == candidates[1]
    assert by_script(job(submit_time=101), b"b", candidates) == candidates[2]
    assert by_script(job(submit_line="sbatch x.sh"), b"a", candidates) == candidates[0]
