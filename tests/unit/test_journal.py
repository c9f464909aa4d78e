"""The journal holds what each job had, through crashes, requeues and compaction."""

from __future__ import annotations

import os
import resource
from dataclasses import replace
from pathlib import Path

import pytest

from slurmcast.agent import journal
from slurmcast.agent.journal import Before, Journal
from slurmcast.model import Change, Job

JOB = Job(7, "alice", 1000, "train", "PENDING", "Priority", ("a100", "a6000"), 500, begin_time=508, nice=3)


def change(job: Job = JOB, partition: str | None = None, factor: int | None = None) -> Change:
    return Change(job.job_id, job.submit_time, "because", partition, factor)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def test_first_change_says_what_was_before(path: Path) -> None:
    written = Journal(path)
    written.write(1.0, [(change(partition="a6000", factor=90), JOB)])
    moved = replace(JOB, partitions=("a6000",), site_factor=90, nice=0)
    written.write(2.0, [(change(partition="a100"), moved)])
    expected = Before(7, 500, "a100,a6000", 0, 508, 3, places=("a6000", "a100"), ordered=True)
    assert written.before(JOB) == Journal(path).before(JOB) == expected
    assert journal.read(path) == {(7, 500): expected}


def test_only_what_was_set_is_marked(path: Path) -> None:
    written = Journal(path)
    written.write(1.0, [(Change(7, 500, "", lift_grace=True), JOB)])
    assert written.before(JOB) == Before(7, 500, "a100,a6000", 0, 508, 3)
    written.write(1.0, [(Change(7, 500, "", priority=5), JOB)])
    assert written.before(JOB) == Before(7, 500, "a100,a6000", 0, 508, 3, pinned=True)


def test_a_task_split_off_has_what_its_array_had(path: Path) -> None:
    written = Journal(path)
    written.write(1.0, [(change(partition="a6000", factor=90), JOB)])
    task = replace(JOB, job_id=9, array_job_id=7, is_array=True, partitions=("a6000",), site_factor=90)
    requeued = replace(task, submit_time=900, restarts=1)
    assert written.before(task) == written.before(requeued) == written.before(JOB)
    assert written.before(replace(requeued, restarts=0)) is None
    written.write(2.0, [(change(task, factor=5), task)])
    found = Journal(path).before(task)
    assert found is not None
    assert (found.job_id, found.partition, found.site_factor) == (9, "a100,a6000", 0)


def test_ids_wrap(path: Path) -> None:
    written = Journal(path)
    written.write(1.0, [(change(factor=1), JOB)])
    assert written.before(replace(JOB, submit_time=900)) is None


def test_a_requeued_job_is_the_same_job(path: Path) -> None:
    written = Journal(path)
    written.write(1.0, [(change(partition="a6000", factor=1), JOB)])
    requeued = replace(JOB, submit_time=900, restarts=1, partitions=("a6000",), site_factor=1)
    assert written.before(requeued) == written.before(JOB)
    written.write(2.0, [(change(requeued, factor=5), requeued)])
    found = Journal(path).before(requeued)
    assert found is not None
    assert (found.submit_time, found.partition, found.site_factor) == (900, "a100,a6000", 0)


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_torn_line_is_passed_over_and_closed(path: Path, cut: int) -> None:
    other = replace(JOB, job_id=8)
    Journal(path).write(1.0, [(change(factor=1), JOB), (change(other, factor=2), other)])
    os.truncate(path, path.stat().st_size - cut)
    torn = Journal(path)
    assert torn.before(JOB) is not None
    third = replace(JOB, job_id=9)
    torn.write(2.0, [(change(third, factor=3), third)])
    kept = {key[0] for key in journal.read(path)}
    assert kept == ({7, 8, 9} if cut == 1 else {7, 9})  # a line that lacks only its end is whole


def test_rubbish_is_passed_over(path: Path) -> None:
    path.write_bytes(b'\xff\xfe\n{}\n[1]\n"x"\n\n')
    assert journal.read(path) == {}


def test_no_journal_and_no_changes(path: Path) -> None:
    assert journal.read(path) == {}
    Journal(path).write(1.0, [])
    assert not path.exists()


def test_a_full_disk_is_told_and_its_torn_line_is_no_entry(path: Path) -> None:
    written = Journal(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (60, hard))
        with pytest.raises(OSError, match="too large"):
            written.write(1.0, [(change(factor=1), JOB)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert written.before(JOB) is None
    assert path.stat().st_size == 60
    written.write(2.0, [(change(factor=1), JOB)])
    assert len(journal.read(path)) == 1


def test_compaction_keeps_pending_and_requeued_jobs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "COMPACT_FROM", 3)
    jobs = [replace(JOB, job_id=n) for n in range(1, 7)]
    written = Journal(path)
    written.write(1.0, [(change(job, factor=n), job) for n, job in enumerate(jobs, 1)])
    before, size = written.before(jobs[4]), path.stat().st_size
    written.compact(jobs[1:])
    assert path.stat().st_size == size, "one finished job is not worth it"
    requeued = replace(jobs[5], submit_time=900, restarts=1)
    written.compact([jobs[4], requeued])
    assert {key[0] for key in journal.read(path)} == {5, 6}
    assert Journal(path).before(jobs[4]) == written.before(jobs[4]) == before
    assert written.before(jobs[0]) is None
    assert written.before(requeued) is not None
