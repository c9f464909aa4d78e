"""Which runs a report's query finds, and with what."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurmcast.model import (
    Decision,
    Estimate,
    GpuRequest,
    Interval,
    Job,
    May,
    Outcome,
    Reading,
    Source,
    Verdict,
)
from slurmcast.store import reports
from slurmcast.store.columns import Runs
from slurmcast.store.promises import Promises
from slurmcast.store.reports import Reports, Scope
from slurmcast.store.store import Store, StoreError
from tests.unit.store_world import submitted

ALL = Scope(0, 2e9)
AT = 1_800_000_000
"""When jobs are submitted: later than their estimates are made, which is now."""


class Site:
    """A store to fill, and what a report finds in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = Store(path, "test")

    def job(self, job_id: int, user: str = "alice", uid: int = 1000, shared: bool = False) -> int:
        """A pending job with its submission and estimates; the submission."""
        reading = Reading(f"key-{job_id}", "", {}, GpuRequest(per_job=1, shared=shared), 1, time_limit_s=7200)
        known = Job(job_id, user, uid, "job", "PENDING", "", ("a100",), AT)
        return submitted(self.store, known, reading, [estimate(60.0)])

    def ends(self, *outcomes: Outcome) -> None:
        self.store.add_outcomes(outcomes)

    def promise(self, *outcomes: Outcome) -> None:
        promises = Promises(self.path, "test")
        promises.promise_ended(outcomes)
        promises.close()

    def runs(self, scope: Scope = ALL) -> list[dict[str, Any]]:
        """Each run's facts."""
        read = Reports(self.path, "test")
        found = [one(runs, n) for runs in read.runs(scope) for n in range(len(runs))]
        read.close()
        return found


def one(runs: Runs, n: int) -> dict[str, Any]:
    return {name: getattr(runs, name)[n] for name in Runs.__dataclass_fields__}


def estimate(seconds: float, source: Source = Source.PROBE) -> Estimate:
    time_s = Interval(seconds / 2, seconds, seconds * 2)
    return Estimate("a100", 1, time_s, Interval(0.1, 0.2, 0.3), source)


def outcome(job_id: int, **fields: Any) -> Outcome:
    times = {"submit_time": AT, "start_time": AT + 60, "end_time": AT + 160, "elapsed_s": 100.0}
    facts = {"partition": "a100", "gpu_type": "a100", "gpus": 1, "state": "COMPLETED", "user": "alice"}
    return Outcome(job_id, **{**times, **facts, **fields})


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "store.db")
    yield made
    made.store.close()


def test_a_run_with_all_that_is_known(site: Site) -> None:
    site.job(1)
    ended = outcome(1, energy_kwh=0.5, account="lab")
    site.ends(ended)
    site.promise(ended)
    (run,) = site.runs()
    assert (run["user"], run["account"], run["state"], run["source"]) == ("alice", "lab", "COMPLETED", "probe")
    assert (run["submit_s"], run["start_s"], run["end_s"], run["limit_s"]) == (AT, AT + 60, AT + 160, 7200)
    assert run["time_s"].tolist() == [30.0, 60.0, 120.0] and run["kwh"].tolist() == [0.1, 0.2, 0.3]
    assert (run["energy_kwh"], run["changes"], run["placed"]) == (0.5, 0, False)


def test_the_estimate_is_that_of_the_start(site: Site) -> None:
    submission = site.job(1)
    first, second = outcome(8, array_job_id=1), outcome(9, array_job_id=1, start_time=AT + 200, end_time=AT + 300)
    site.ends(first)
    site.promise(first)
    site.store.set_estimates(submission, [estimate(100.0, Source.HISTORY)], "m1")  # made of how the first task ended
    site.ends(second)
    site.promise(second)
    assert [(run["source"], run["time_s"][1]) for run in site.runs()] == [("probe", 60.0), ("history", 100.0)]


def test_a_run_of_which_little_is_known(site: Site) -> None:
    site.ends(outcome(1, user=""))
    (run,) = site.runs()
    assert (run["user"], run["source"]) == ("", "")
    assert all(math.isnan(run[name]) for name in ("energy_kwh", "limit_s")) and math.isnan(run["time_s"][1])


def test_shared_gpus_measure_nobody(site: Site) -> None:
    site.job(1, shared=True)
    site.ends(outcome(1, energy_kwh=0.5))
    assert math.isnan(site.runs()[0]["energy_kwh"])


def test_what_is_left_out(site: Site) -> None:
    site.ends(outcome(1, gpus=0), outcome(2, end_time=AT + 99), outcome(3))
    elsewhere = Store(site.path, "other")
    elsewhere.add_outcomes([outcome(4)])
    elsewhere.close()
    assert len(site.runs()) == 2
    assert len(site.runs(Scope(AT + 100, AT + 160))) == 0, "up to the end, which isn't in it"
    assert len(site.runs(Scope(AT + 100, AT + 161))) == 1
    assert len(site.runs(Scope(AT + 160, AT + 161))) == 1


@pytest.mark.parametrize(
    ("scope", "seen"),
    [
        ({}, [1, 2, 3]),
        ({"user": "bob"}, [2]),
        ({"account": "lab"}, [1, 2]),
        ({"user": "alice", "account": "lab"}, [1]),
        ({"user": "alice", "uid": 1000}, [1, 3]),
        ({"user": "bob", "uid": 1000}, [1]),  # a name that was once somebody else's
        ({"user": "alice", "uid": 1000, "account": "lab"}, [1]),
    ],
)
def test_whose(site: Site, scope: dict[str, Any], seen: list[int]) -> None:
    site.job(1)
    site.job(2, "bob", 1001)
    site.ends(outcome(1, account="lab", gpus=1), outcome(2, user="bob", account="lab", gpus=2), outcome(3, gpus=3))
    assert [run["gpus"] for run in site.runs(replace(ALL, **scope))] == seen


def test_what_slurmcast_changed(site: Site) -> None:
    def decision(job_id: int, *may: May) -> Decision:
        verdicts = tuple(Verdict(f"p{n}", each, "") for n, each in enumerate(may))
        return Decision(job_id, AT, AT + 5.0, "a100", "", verdicts=verdicts, changed=True)

    for job_id in (1, 2, 3):
        site.job(job_id)
        site.ends(outcome(job_id))
    site.store.decide([decision(1, May.MOVE, May.MOVE), decision(2, May.MOVE, May.ORDER_ONLY)])
    site.store.decide([decision(1, May.MOVE, May.MOVE), replace(decision(3, May.MOVE, May.MOVE), changed=False)])
    assert [(run["changes"], run["placed"]) for run in site.runs()] == [(2, True), (1, False), (0, False)]


def test_many_runs_come_in_parts(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "CHUNK", 3)
    site.ends(*(outcome(n) for n in range(1, 8)))
    read = Reports(site.path, "test")
    assert [len(part) for part in read.runs(ALL)] == [3, 3, 1]
    read.close()


def test_it_only_reads(site: Site) -> None:
    read = Reports(site.path, "test")
    with pytest.raises(StoreError, match="readonly"), read.transaction():
        read._db.execute("DELETE FROM outcome")
    read.close()


def test_it_can_be_stopped(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "CHECK_EVERY", 1)
    site.ends(outcome(1))
    read = Reports(site.path, "test")
    read.stop_when(lambda: True)
    with pytest.raises(StoreError, match="interrupted"):
        list(read.runs(ALL))
    read.close()


def test_half_a_character_stops_nothing(site: Site) -> None:
    site.ends(outcome(1, user="alice\udc80"))
    assert site.runs()[0]["user"].startswith("alice")
