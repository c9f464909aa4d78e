"""What a run was promised stays as it was when the run was first heard of, whatever becomes of the estimates."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from slurmcast.codec import to_json
from slurmcast.model import Estimate, GpuRequest, Interval, Job, Outcome, Reading, Source
from slurmcast.store.promises import Promises
from slurmcast.store.store import Store
from tests.unit.daemon_harness import SUBMITTED, Daemon, daemon_in, record, submission
from tests.unit.store_world import submitted

NOW = int(time.time())
READING = Reading("key", "", {}, GpuRequest(per_job=1), 1)


def job(number: int, array: int = 0) -> Job:
    """A running one."""
    return Job(
        number, "u", 1000, "n", "RUNNING", "", ("a100",), NOW - 100, start_time=NOW - 50 + number, array_job_id=array
    )


def outcome(number: int, ended: int = NOW + 100, array: int = 0, state: str = "COMPLETED") -> Outcome:
    start = job(number).start_time
    return Outcome(number, NOW - 100, "a100", "a100", 1, state, start, ended, 60.0, array_job_id=array)


def estimated(store: Store, submission: int, seconds: float, model: str | None = "m1") -> None:
    """Expect so many seconds on either partition."""
    time_s = Interval(seconds / 2, seconds, seconds * 2)
    estimates = [Estimate(name, 1, time_s, None, Source.PROBE) for name in ("a100", "a6000")]
    store.set_estimates(submission, estimates, model)


def kept(store: Promises, model: str = "m1") -> list[tuple[int, float]]:
    """Jobs and the seconds that were promised of them."""
    found = store.promises(model)
    assert all(p.key == "key" and p.estimate.partition == "a100" for p in found)
    return [(p.outcome.job_id, p.estimate.time_s.p50) for p in found if p.estimate.time_s]


def test_what_a_started_job_had_stays(store: Store) -> None:
    made = submitted(store, job(1), READING)
    estimated(store, made, 100)
    store.promise_started([job(1)])
    estimated(store, made, 60)
    store.promise_started([job(1)])  # after a restart of the agent it is told again
    store.promise_ended([outcome(1)])
    store.add_outcomes([outcome(1)])
    assert kept(store) == [(1, 100)]
    assert [p.estimate.time_s and p.estimate.time_s.p50 for p in store.last_promises(5)] == [100]


def test_an_arrays_tasks_have_each_what_was_expected_at_their_start(store: Store) -> None:
    made = submitted(store, job(7), READING)  # waits as 7, its tasks run as 8, 9 and, the last one, 7
    for number, seconds in ((8, 100), (9, 61), (7, 62)):
        estimated(store, made, seconds)
        store.promise_started([job(number, array=7)])
        store.add_outcomes([outcome(number, ended=NOW + number, array=7)])
    assert kept(store) == [(7, 62), (8, 100), (9, 61)]


@pytest.mark.parametrize(("ended", "promises"), [(NOW + 86400, [(1, 100)]), (NOW - 10, [])], ids=["later", "earlier"])
def test_a_run_that_was_never_seen_to_run_had_what_was_made_before_its_end(
    store: Store, ended: int, promises: list[tuple[int, float]]
) -> None:
    estimated(store, submitted(store, job(1), READING), 100)
    store.promise_ended([outcome(1, ended)])
    store.add_outcomes([outcome(1, ended)])
    assert kept(store) == promises


def test_only_completed_runs_tell_whether_a_promise_was_kept(store: Store) -> None:
    estimated(store, submitted(store, job(1), READING), 100)
    store.promise_started([job(1)])
    store.add_outcomes([outcome(1, state="TIMEOUT")])
    assert kept(store) == []


def test_models_are_told_apart_and_what_was_preliminary_too(store: Store) -> None:
    for number, model in ((1, "m1"), (2, "m2"), (3, None), (4, "")):
        estimated(store, submitted(store, job(number), READING), 100, model)
        store.promise_started([job(number)])
        store.add_outcomes([outcome(number)])
    assert kept(store) == [(1, 100)] and kept(store, "m2") == [(2, 100)]
    assert [p.model for p in store.last_promises(10)] == ["m1", "m2", None, ""]
    assert len(store.last_promises(2)) == 2


def test_a_job_whose_submission_is_not_known_was_promised_nothing(store: Store) -> None:
    store.promise_started([job(1)])
    store.add_outcomes([outcome(1)])
    assert store.last_promises(5) == []


def test_the_daemon_keeps_them(tmp_path: Path) -> None:
    with daemon_in(tmp_path) as daemon:
        _keeps(daemon)


def _keeps(daemon: Daemon) -> None:
    daemon.start()
    for number in range(3):
        daemon.spool(f"{number}.job", submission(5, name=b"n%d" % number))
    daemon.eventually(lambda: daemon.settled(3))
    ran, waits, unseen = (record(7 + number, name=f"n{number}") for number in range(3))
    daemon.look(ran, waits, unseen)
    daemon.look(waits, unseen, running=[replace(ran, state="RUNNING", start_time=SUBMITTED + 10)])

    def end(of: Job, seconds: int) -> None:
        start = SUBMITTED + 10
        ended = Outcome(of.job_id, SUBMITTED, "a100", "a100", 1, "COMPLETED", start, start + seconds, float(seconds))
        daemon.ask("POST", "/v1/agent/outcomes", {"outcomes": [to_json(ended)]})
        daemon.eventually(lambda: not daemon.ask("GET", "/v1/health")["waiting"])

    end(ran, 300)
    daemon.look(unseen, running=[replace(waits, state="RUNNING", start_time=SUBMITTED + 10)])
    end(waits, 310)
    end(unseen, 320)  # its estimate is younger than its end, long ago
    daemon.end()
    store = Promises(daemon.config.paths.store, daemon.config.cluster)
    sources = {p.outcome.job_id: p.estimate.source for p in store.last_promises(10)}
    store.close()
    assert sources == {7: Source.PRIOR, 8: Source.HISTORY}, "the first run didn't know of itself, the second of it"
