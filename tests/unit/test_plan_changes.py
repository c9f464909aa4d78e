"""What a plan sends to Slurm: little, the most urgent first, and nothing twice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmcast.agent.decisions import PIN_BASE
from slurmcast.agent.plan import Plan
from slurmcast.config import AgentConfig
from tests.unit.plan_world import (
    CONFIG,
    CONFIGS,
    NOW,
    apply,
    changes,
    decisions,
    order,
    pending,
    plan,
    running,
    snapshot,
)


def test_most_urgent_first_and_not_too_many() -> None:
    grace = int(NOW) + 5
    jobs = [pending(n, 100.0 * n, 100.0 * n) for n in range(1, 8)]
    fresh = pending(9, 99_000, 99_000, begin_time=grace, grace=grace)
    result = plan(snapshot(*jobs, fresh, a100=(2,)), 0.0, replace(CONFIG, max_updates=4))
    assert [change.job_id for change in result.changes] == [9, 1, 2, 3]
    assert [d.job_id for d in result.decisions if d.changed] == [1, 2, 3, 9]


def test_nothing_is_sent_twice() -> None:
    now = snapshot(*(pending(n, 100.0 * n, 150.0 * n) for n in range(1, 30)), a100=(2, 1), a6000=(3,))
    first = plan(now, 1e-4, CONFIG)
    assert first.changes
    assert plan(apply(now, first), 1e-4, CONFIG).changes == ()


def test_an_arrival_sends_one_update() -> None:
    jobs = [pending(n, 100.0 * n, None) for n in range(1, 30)]
    settled = apply(snapshot(*jobs), plan(snapshot(*jobs), 0.0, CONFIG))
    with_new = replace(settled, pending=(*settled.pending, pending(50, 1550, None)))
    result = plan(with_new, 0.0, CONFIG)
    assert [change.job_id for change in result.changes] == [50]
    assert order(apply(with_new, result)).index(50) == 15


def test_pin_sets_the_priority_itself() -> None:
    pin = replace(CONFIG, priority_mode="pin")
    now = snapshot(pending(1, 900, None), pending(2, 100, None))
    result = plan(now, 0.0, pin)
    made = changes(result)
    assert made[1].site_factor is None
    assert PIN_BASE < (made[1].priority or 0) < (made[2].priority or 0) <= PIN_BASE + pin.band
    assert decisions(result)[1].priority == made[1].priority
    assert plan(apply(now, result), 0.0, pin).changes == ()


@pytest.mark.parametrize("config", CONFIGS)
def test_nothing_to_plan(config: AgentConfig) -> None:
    assert plan(snapshot(), 0.0, config) == Plan((), ())
    nowhere = replace(snapshot(pending(1)), partitions=())
    assert plan(nowhere, 0.0, config).changes == ()


JOBS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.floats(1, 1e5)),
        st.one_of(st.none(), st.floats(1, 1e5)),
        st.integers(1, 4),
        st.booleans(),
    ),
    max_size=12,
)


@given(
    JOBS,
    st.lists(st.integers(0, 4), min_size=1, max_size=3),
    st.sampled_from([0.0, 1e-4, 1e-2]),
    st.sampled_from(CONFIGS),
)
def test_any_queue_settles_in_one_step(
    jobs: list[tuple[float | None, float | None, int, bool]], free: list[int], kappa: float, config: AgentConfig
) -> None:
    queue = (pending(n, a, b, gpus, named=named) for n, (a, b, gpus, named) in enumerate(jobs, 1))
    now = snapshot(*queue, a100=tuple(free), a6000=tuple(free))
    busy = 4 * len(free) - sum(free)
    now = replace(now, running=(running(999, 3000, busy),) if busy else ())
    result = plan(now, kappa, config)
    assert all(0 < (change.site_factor or 1) <= config.band for change in result.changes)
    assert {d.job_id for d in result.decisions} == {p.job.job_id for p in now.pending}
    assert plan(apply(now, result), kappa, config).changes == ()
