"""What a policy sees of a snapshot."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args, get_type_hints

import numpy as np
import pytest

from slurmcast.agent.moment import moment_of, queue_of
from slurmcast.config import AgentConfig
from slurmcast.model import Estimate, Interval, RunningJob, Source
from slurmcast.policy.base import Moment
from slurmcast.policy.registry import POLICIES
from tests.unit.plan_world import NOW, pending, snapshot

NAN = float("nan")


def seen(*jobs: object, running: tuple[RunningJob, ...] = ()) -> Moment:
    now = replace(snapshot(*jobs, a100=(1, 2), a6000=(4,)), running=running)  # type: ignore[arg-type]
    return moment_of(queue_of(now.pending, np.ones((len(jobs), 2), bool), now.partitions), now)


def running(time_s: Interval | None, limit_s: int | None = 9000, at: str = "a6000", **fields: object) -> RunningJob:
    energy_kwh = None if time_s is None else Interval(0.1, 1.0, 2.0)
    job = replace(pending(9, at=at, gpus=2).job, state="RUNNING", start_time=int(NOW) - 100, time_limit_s=limit_s)
    estimate = Estimate(at, 2, time_s, energy_kwh, Source.PROBE)
    return RunningJob(replace(job, **fields), estimate)  # type: ignore[arg-type]


def test_the_waiting_jobs() -> None:
    free = pending(1, 3600.0, None, gpus=2, kwh=(None, 1.0), time_limit_s=None)
    short = replace(pending(2, 0.1, 50.0, kwh=(0.5, 0.25)), estimates=pending(2, 0.1, 50.0).estimates[:1])
    found = seen(free, short)
    assert (found.now_s, found.free.tolist(), found.total.tolist()) == (NOW, [3, 4], [8, 4])
    queue = found.queue
    assert queue.submit_s.tolist() == [900_001, 900_002]
    assert queue.limit_s.tolist() == [np.inf, 10**6]
    np.testing.assert_equal(queue.gpus, [[2, 2], [1, 1]])
    np.testing.assert_equal(queue.time_s, [[3600, NAN], [1, NAN]])
    np.testing.assert_equal(queue.high_s, [[7200, NAN], [1, NAN]])
    np.testing.assert_equal(queue.energy_kwh, [[NAN, NAN], [1, NAN]])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"gpus_total": 3}, [3, 3]),
        ({"gpus_total": 0}, [1, 1]),
        ({"exclusive": True}, [4, 4]),
        ({"exclusive": True, "nodes": 2}, [8, 8]),
    ],
)
def test_the_gpus_that_a_job_occupies(fields: dict[str, int], expected: list[int]) -> None:
    assert seen(pending(1, **fields)).queue.gpus.tolist() == [expected]  # type: ignore[arg-type]


def test_the_running_jobs() -> None:
    known = running(Interval(500, 1000, 2000))
    others = running(None, None), replace(running(None, exclusive=True), estimate=None), running(None, at="elsewhere")
    found = seen(running=(known, *others)).running
    start = NOW - 100
    assert found.type.tolist() == [1, 1, 1]
    assert found.gpus.tolist() == [2, 2, 4]
    np.testing.assert_equal(found.end_s, [start + 1000, NAN, NAN])
    np.testing.assert_equal(found.high_s, [start + 2000, NAN, NAN])
    assert found.limit_s.tolist() == [start + 9000, np.inf, start + 9000]
    np.testing.assert_equal(found.power_w, [3600, NAN, NAN])


def test_nobody_waits_nothing_is_managed() -> None:
    assert len(seen().queue) == 0
    nothing = replace(snapshot(), partitions=())
    assert moment_of(queue_of((), np.ones((0, 0), bool), ()), nothing).free.shape == (0,)


def test_the_agents_policies_have_names_in_the_registry() -> None:
    assert set(get_args(get_type_hints(AgentConfig)["policy"])) <= set(POLICIES)
