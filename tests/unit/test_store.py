"""The store: submissions and jobs, each once, ids that wrap; kappa; a file that can't be used, a disk that is full."""

from __future__ import annotations

import sqlite3
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from slurmcast.model import Decision, Estimate, Interval, Job, Reading, Source, Submission
from slurmcast.store.schema import MIGRATIONS
from slurmcast.store.store import KappaSetting, Link, NewSubmission, Store, StoreError

READING = Reading("key", "secret text", {"epochs": 3.0}, gpus_total=2, partitions=("a100",))
SUBMISSION = Submission(
    1000, "", "x", 100, b"#!/bin/sh\n", 10, argv=("train.sh", "-e", "5"), environment={"EPOCHS": "3"}
)
NEW = NewSubmission(SUBMISSION, READING, "text", ("a100", "a6000"), "f.job")
LATER = replace(NEW, spool_name="g.job", submission=replace(SUBMISSION, submit_time=900))
ESTIMATE = Estimate("a100", 2, Interval(1.0, 2.0, 3.0), None, Source.PRIOR)
JOB = Job(7, "alice", 1000, "x", "PENDING", "None", ("a100",), 101)


def claim(store: Store, job: Job, submission: int) -> None:
    store.see([job])
    store.claim(job, submission)


def test_a_spool_file_counts_once(store: Store) -> None:
    first = store.add(NEW, [ESTIMATE])
    assert store.add(NEW, []) == first
    assert store.estimates(first) == (ESTIMATE,)
    assert store.counts()["submission"] == 1


def test_script_text_is_not_kept(store: Store, tmp_path: Path) -> None:
    store.add(NEW, [ESTIMATE])
    store.close()
    assert all(b"secret text" not in path.read_bytes() for path in tmp_path.iterdir())


def test_the_script_is_kept_only_where_the_admin_says_so(store: Store, tmp_path: Path) -> None:
    store.add(NEW, [])
    store.add(replace(LATER, keep_script=True), [])
    with sqlite3.connect(tmp_path / "store.db") as db:
        assert db.execute("SELECT script FROM submission ORDER BY id").fetchall() == [(None,), (SUBMISSION.script,)]


def test_what_is_stored_comes_back(store: Store) -> None:
    stored = store.submission(store.add(NEW, [ESTIMATE]))
    assert stored.reading == replace(READING, text="")
    assert stored.submission == replace(SUBMISSION, script=b"")
    assert (stored.named, stored.model, stored.complete) == (("a100", "a6000"), None, True)


def test_names_that_are_no_utf_8_are_stored(store: Store) -> None:
    odd = replace(SUBMISSION, name="caf\udce9", environment={"TASK": "\udcff"}, argv=("x", "\udce9"))
    stored = store.submission(store.add(replace(NEW, submission=odd), []))
    assert stored.submission == replace(odd, script=b"")
    store.see([replace(JOB, name="caf\udce9", user="\ud800")])
    known = store.find_job(7)
    assert known is not None and known.name == "caf\ufffd"


@pytest.mark.parametrize(
    ("kept", "size", "script", "expected"),
    [
        (b"abc", 3, b"abc", True),
        (b"abc", 3, b"abd", False),
        (b"abc", 3, b"abcd", False),
        (b"abc", 9, b"abcdefghi", True),
        (b"abc", 9, b"xbcdefghi", False),
    ],
)
def test_a_script_is_known_again(store: Store, kept: bytes, size: int, script: bytes, expected: bool) -> None:
    cut = replace(NEW, submission=replace(SUBMISSION, script=kept, script_size=size))
    assert store.submission(store.add(cut, [])).is_of(script) is expected


def test_a_cut_script_is_completed(store: Store) -> None:
    cut = replace(NEW, submission=replace(SUBMISSION, script=b"#!/b"))
    number = store.add(cut, [ESTIMATE])
    store.set_estimates(number, [ESTIMATE], "m1")
    whole = store.submission(number).with_script(SUBMISSION.script)
    assert whole == SUBMISSION
    store.revise(number, replace(NEW, reading=replace(READING, key="whole"), spool_name=None), [])
    stored = store.submission(number)
    assert (stored.reading.key, stored.complete, stored.model) == ("whole", True, None)
    assert store.estimates(number) == ()
    assert store.add(cut, []) == number  # its spool file still counts as taken


def test_what_was_revised_or_has_expired_is_no_longer_current(store: Store) -> None:
    number = store.add(NEW, [])
    assert store.current(number, "text") == store.submission(number)
    store.revise(number, replace(NEW, text_key="with sources"), [])
    assert store.current(number, "text") is None
    assert store.current(number, "with sources") == store.submission(number)
    store.expire(before=1000)
    assert store.current(number, "with sources") is None


def test_estimates_of_an_expired_submission_go_nowhere(store: Store) -> None:
    number = store.add(NEW, [ESTIMATE])
    assert store.expire(before=1000) == 1
    store.set_estimates(number, [ESTIMATE], "m1")
    assert store.counts()["estimate"] == 0


def test_estimates_are_counted_by_source(store: Store) -> None:
    store.add(NEW, [ESTIMATE, replace(ESTIMATE, partition="a6000", source=Source.PROBE)])
    store.add(LATER, [ESTIMATE])
    assert store.estimates_by_source() == {"prior": 2, "probe": 1}


def test_ids_wrap(store: Store) -> None:
    first, second = store.add(NEW, []), store.add(LATER, [])
    later = replace(JOB, submit_time=900)
    store.see([JOB, later])
    store.claim(JOB, first)
    store.claim(later, second)
    assert store.link(JOB) == Link(first, True)
    assert store.link(later) == Link(second, True)
    newest, older = store.find_job(7), store.find_job(7, 101)
    assert newest is not None and newest.submit_time == 900
    assert older is not None and older.submit_time == 101


def test_claimed_submissions_are_no_candidates(store: Store) -> None:
    submission = store.add(NEW, [])
    assert [s.id for s in store.unclaimed(1000, 99, 103)] == [submission]
    assert store.unclaimed(1001, 99, 103) == []
    assert store.unclaimed(1000, 101, 103) == []
    claim(store, JOB, submission)
    assert store.unclaimed(1000, 99, 103) == []


def test_two_jobs_swap_their_submissions_when_the_script_says_so(store: Store) -> None:
    first, second = store.add(NEW, []), store.add(replace(NEW, spool_name="g.job"), [])
    other = replace(JOB, job_id=8)
    store.see([JOB, other])
    store.claim(JOB, first, certain=False)
    store.claim(other, second, certain=False)
    assert [s.id for s in store.doubtful(1000, 99, 103)] == [first, second]
    store.swap(JOB, second)
    assert store.link(JOB) == Link(second, True)
    assert store.link(other) == Link(first, False)
    assert [s.id for s in store.doubtful(1000, 99, 103)] == [first]


def test_a_requeued_job_keeps_its_submission(store: Store) -> None:
    submission = store.add(NEW, [])
    claim(store, JOB, submission)
    assert store.before_requeue(replace(JOB, submit_time=500)) == submission
    assert store.before_requeue(replace(JOB, submit_time=500, uid=1001)) is None
    assert store.before_requeue(replace(JOB, submit_time=500, name="y")) is None
    assert store.before_requeue(JOB) is None


def test_submissions_without_a_job_expire(store: Store) -> None:
    store.add(NEW, [ESTIMATE])
    claim(store, JOB, store.add(replace(NEW, spool_name="g.job"), [ESTIMATE]))
    assert store.expire(before=1000) == 1
    assert store.counts() == {"submission": 1, "estimate": 1, "job": 1, "outcome": 0, "unencoded": 0}


def test_decisions(store: Store) -> None:
    store.see([JOB])
    decisions = [Decision(7, 101, float(at), "a100", f"reason {at}", changed=at != 2) for at in (1, 2, 3)]
    store.decide(decisions)
    found = store.find_job(7)
    assert found is not None and found.decision is not None and found.decision["reason"] == "reason 3"
    assert [d.at for d in store.changes(7, 101)] == [1.0, 3.0]


def test_kappa_keeps_its_history(store: Store) -> None:
    assert store.kappas() == [] == store.kappa_history(5)
    settings = [
        KappaSetting("", "", 0.1, 5.0, "root"),
        KappaSetting("a100", "", 0.3, 6.0, "root"),
        KappaSetting("", "urgent", 0.0, 7.0, "root"),
        KappaSetting("", "", 0.2, 4.0, "admin"),  # the clock went back: what was set last holds all the same
        KappaSetting("a100", "", None, 9.0, "admin"),
    ]
    for setting in settings:
        store.set_kappa(setting)
    assert store.kappas() == settings[2:]
    assert store.kappa_history(2) == [settings[4], settings[3]]


def test_the_kappa_of_an_older_store_is_kept(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "store.db") as db:
        for migration in MIGRATIONS[:2]:
            db.executescript(migration)
        db.execute("PRAGMA user_version = 2")
        db.executemany("INSERT INTO kappa VALUES (?, ?, 'root')", [(2.0, 0.2), (1.0, 0.1)])
    store = Store(tmp_path / "store.db", "lab")
    assert store.kappas() == [KappaSetting("", "", 0.2, 2.0, "root")]
    assert [setting.value for setting in store.kappa_history(5)] == [0.2, 0.1]
    store.close()


def test_a_failed_transaction_leaves_nothing(store: Store) -> None:
    with pytest.raises(RuntimeError), store.transaction():
        store._db.execute("INSERT INTO kappa VALUES (1, 1, 'x', '', '')")
        raise RuntimeError
    assert store.kappas() == []


def test_several_may_open_a_new_store_at_once(tmp_path: Path) -> None:
    def opened(place: int) -> int:
        store = Store(tmp_path / f"{place // 6}.db", "c")
        try:
            return store.counts()["job"]
        finally:
            store.close()

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(opened, range(60))) == [0] * 60


def test_a_newer_store_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "store.db") as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="newer"):
        Store(tmp_path / "store.db", "lab")


def test_a_folder_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does the folder exist"):
        Store(tmp_path / "nowhere" / "store.db", "lab")


def test_a_locked_store_is_not_called_garbage(store: Store, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store._db.execute("PRAGMA busy_timeout = 50")
    setting = KappaSetting("", "", 1.0, 1.0, "root")
    with pytest.raises(StoreError, match="locked"):
        store.set_kappa(setting)
    other.execute("ROLLBACK")
    store.set_kappa(setting)


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
