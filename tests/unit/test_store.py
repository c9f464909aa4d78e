"""The store: each thing once, ids that wrap, energy that comes later, a disk that is full."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slurmcast.model import Decision, Estimate, Interval, Job, Outcome, Reading, Source
from slurmcast.store.store import NewSubmission, Store, StoreError

READING = Reading("key", "secret text", {"epochs": 3.0}, gpus_total=2, partitions=("a100",))
NEW = NewSubmission(
    "f.job", 1000, "alice", "x", 100, 0, "0" * 64, True, READING, "text", ("a100", "a6000"), ("-e", "5")
)
ESTIMATE = Estimate("a100", 2, Interval(1.0, 2.0, 3.0), None, Source.PRIOR)
JOB = Job(7, "alice", 1000, "x", "PENDING", "None", ("a100",), 101)
OUTCOME = Outcome(7, 101, "a100", "a100", 2, "COMPLETED", 110, 130, 20.0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "store.db", "lab")
    yield opened
    opened.close()


def test_a_spool_file_counts_once(store: Store) -> None:
    first = store.add(NEW, [ESTIMATE])
    assert store.add(NEW, []) == first
    assert store.estimates(first) == (ESTIMATE,)
    assert store.counts()["submission"] == 1


def test_script_text_is_not_kept(store: Store, tmp_path: Path) -> None:
    store.add(NEW, [ESTIMATE])
    store.close()
    assert all(b"secret text" not in path.read_bytes() for path in tmp_path.iterdir())


def test_what_is_stored_comes_back(store: Store) -> None:
    stored = store.submission(store.add(NEW, [ESTIMATE]))
    assert stored.reading == replace(READING, text="")
    assert (stored.named, stored.arguments, stored.final) == (("a100", "a6000"), ("-e", "5"), False)


def test_unfinished_until_final_and_again_with_a_new_model(store: Store) -> None:
    submission = store.add(NEW, [])
    assert [s.id for s in store.unfinished()] == [submission]
    store.set_estimates(submission, [ESTIMATE], final=True)
    assert store.unfinished() == []
    store.outdate_pending(since=50)
    assert [s.id for s in store.unfinished()] == [submission]
    store.set_estimates(submission, [ESTIMATE], final=True)
    store.claim(JOB, submission)
    store.add_outcomes([OUTCOME])
    store.outdate_pending(since=50)
    assert store.unfinished() == []


def test_ids_wrap(store: Store) -> None:
    first, second = store.add(NEW, []), store.add(replace(NEW, spool_name="g.job", submit_time=900), [])
    store.claim(JOB, first)
    store.claim(replace(JOB, submit_time=900), second)
    assert store.job_submission(JOB) == first
    assert store.job_submission(replace(JOB, submit_time=900)) == second
    found = store.find_job(7)
    assert found is not None and found["submit_time"] == 900


def test_claimed_submissions_are_no_candidates(store: Store) -> None:
    submission = store.add(NEW, [])
    assert [s.id for s in store.unclaimed(1000, "x", 99, 103)] == [submission]
    assert store.unclaimed(1001, "x", 99, 103) == []
    store.claim(JOB, submission)
    assert store.unclaimed(1000, "x", 99, 103) == []


def test_submissions_without_a_job_expire(store: Store) -> None:
    store.add(NEW, [ESTIMATE])
    claimed = store.add(replace(NEW, spool_name="g.job"), [ESTIMATE])
    store.claim(JOB, claimed)
    assert store.expire(before=1000) == 1
    assert store.counts() == {"submission": 1, "estimate": 1, "job": 1, "outcome": 0}


def test_outcomes_count_once_and_energy_may_come_later(store: Store) -> None:
    store.claim(JOB, store.add(NEW, []))
    assert store.add_outcomes([OUTCOME, OUTCOME]) == 1
    assert store.labels()[0].outcome.energy_kwh is None
    assert store.add_outcomes([replace(OUTCOME, energy_kwh=1.5)]) == 0
    assert store.add_outcomes([OUTCOME]) == 0
    assert [label.outcome.energy_kwh for label in store.labels()] == [1.5]
    assert store.add_outcomes([replace(OUTCOME, start_time=500, state="NODE_FAIL")]) == 1
    assert [label.outcome.state for label in store.labels()] == ["COMPLETED"]


def test_decisions(store: Store) -> None:
    store.see([JOB])
    decisions = [Decision(7, 101, float(at), "a100", f"reason {at}", changed=at != 2) for at in (1, 2, 3)]
    store.decide(decisions)
    found = store.find_job(7)
    assert found is not None and found["decision"]["reason"] == "reason 3"
    assert [d.at for d in store.changes(7, 101)] == [1.0, 3.0]


def test_kappa_keeps_its_history(store: Store) -> None:
    assert store.kappa() is None
    store.set_kappa(0.1, 5.0, "root")
    store.set_kappa(0.2, 6.0, "admin")
    assert store.kappa() == (0.2, 6.0, "admin")


def test_a_failed_transaction_leaves_nothing(store: Store) -> None:
    with pytest.raises(RuntimeError), store.transaction():
        store._db.execute("INSERT INTO kappa VALUES (1, 1, 'x')")
        raise RuntimeError
    assert store.kappa() is None


def test_a_newer_store_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "store.db") as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="newer"):
        Store(tmp_path / "store.db", "lab")


def test_garbage_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"garbage" * 1000)
    with pytest.raises(StoreError, match="move the file away"):
        Store(tmp_path / "store.db", "lab")


def test_a_full_disk_is_an_error_and_the_store_stays_sound(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(tmp_path)], check=True)
    try:
        store = Store(tmp_path / "store.db", "lab")
        stored = 0
        with pytest.raises(StoreError, match="disk full"):
            for n in range(10_000):
                store.add(replace(NEW, spool_name=f"{n}.job"), [ESTIMATE])
                stored += 1
        assert store.counts()["submission"] == stored
        store.close()
        assert Store(tmp_path / "store.db", "lab").counts()["submission"] == stored
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)
