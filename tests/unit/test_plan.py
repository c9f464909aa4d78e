"""From a snapshot to changes and decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmcast.agent.decisions import PIN_BASE
from slurmcast.agent.plan import Plan
from slurmcast.agent.plan import plan as plan_by
from slurmcast.config import AgentConfig
from slurmcast.model import (
    Change,
    Decision,
    Estimate,
    GpuRequest,
    Interval,
    Job,
    May,
    Node,
    Partition,
    PendingJob,
    RunningJob,
    Snapshot,
    Source,
)
from slurmcast.policy.inputs import Inputs
from slurmcast.policy.kappa import Kappas
from slurmcast.series import read_series

NOW = 1_000_000.0
CONFIG = AgentConfig()


def partition(name: str, *free: int, gpus: int = 4, memory_gb: float = 48.0) -> Partition:
    nodes = tuple(Node(f"{name}-{n}", gpus, f, 32, 32, 64000, 64000) for n, f in enumerate(free))
    return Partition(name, name, nodes, memory_gb, default=name == "a100")


def pending(
    job_id: int,
    a100_s: float | None = 3600.0,
    a6000_s: float | None = 3600.0,
    gpus: int = 1,
    at: str = "a100",
    kwh: tuple[float | None, float | None] = (1.0, 1.0),
    named: bool = False,
    grace: int = 0,
    final: bool = True,
    **job: Any,
) -> PendingJob:
    times = {"a100": (a100_s, kwh[0]), "a6000": (a6000_s, kwh[1])}
    estimates = tuple(
        Estimate(
            name,
            gpus,
            None if t is None else Interval(t / 2, t, t * 2),
            None if e is None else Interval(e / 2, e, e * 2),
            Source.PROBE,
        )
        for name, (t, e) in times.items()
    )
    record = Job(job_id, "alice", 1000, "train", "PENDING", "Priority", tuple(at.split(",")), 900_000 + job_id)
    request = {"time_limit_s": 10**6, "priority": 1000, "gpus": GpuRequest(per_node=gpus), "gpus_total": gpus}
    record = replace(record, **{**request, **job})
    return PendingJob(record, estimates, final, named, original_partitions=("a100",), grace_until=grace)


def snapshot(*jobs: PendingJob, a100: tuple[int, ...] = (0,), a6000: tuple[int, ...] = (0,)) -> Snapshot:
    return Snapshot(NOW, (partition("a100", *a100), partition("a6000", *a6000)), jobs)


def changes(result: Plan) -> dict[int, Change]:
    return {change.job_id: change for change in result.changes}


def decisions(result: Plan) -> dict[int, Decision]:
    return {decision.job_id: decision for decision in result.decisions}


def apply(now: Snapshot, result: Plan) -> Snapshot:
    """The snapshot after Slurm made the changes."""
    made = changes(result)
    jobs = []
    for p in now.pending:
        change = made.get(p.job.job_id, Change(p.job.job_id, p.job.submit_time, ""))
        partitions = tuple(change.partition.split(",")) if change.partition else p.job.partitions
        factor = p.job.site_factor if change.site_factor is None else change.site_factor
        priority = p.job.priority if change.priority is None else change.priority
        begin = int(now.now) if change.lift_grace else p.job.begin_time
        record = replace(p.job, partitions=partitions, site_factor=factor, priority=priority, begin_time=begin)
        jobs.append(replace(p, job=record, pinned_by_us=p.pinned_by_us or change.priority is not None))
    return replace(now, pending=tuple(jobs))


def plan(now: Snapshot, kappa: float, config: AgentConfig) -> Plan:
    """With one kappa for all jobs."""
    return plan_by(now, Kappas(kappa), config)


def order(now: Snapshot) -> list[int]:
    return [p.job.job_id for p in sorted(now.pending, key=lambda p: -p.job.site_factor)]


def test_free_gpus_go_to_the_best_value() -> None:
    result = plan(snapshot(pending(1, 3600, 900), pending(2, 1000, 3600), a100=(1,), a6000=(1,)), 0.0, CONFIG)
    assert decisions(result)[1].partition == "a6000"
    assert decisions(result)[2].partition == "a100"
    assert changes(result)[1].partition == "a6000"
    assert changes(result)[2].partition is None


def test_each_value_shows_its_own_kappa() -> None:
    urgent, other = pending(1, 3600, 900, qos="urgent"), pending(2, 3600, 900, qos="normal")
    now = snapshot(urgent, other, a100=(1,), a6000=(1,))
    found = decisions(plan_by(now, Kappas(1e-3, {"a6000": 2e-3}, {"urgent": 0.0}), CONFIG))
    kappas = {job_id: {v.partition: v.kappa for v in decision.values} for job_id, decision in found.items()}
    assert kappas == {1: {"a100": 0.0, "a6000": 0.0}, 2: {"a100": 1e-3, "a6000": 2e-3}}
    for value in (v for decision in found.values() for v in decision.values):
        assert value.v == pytest.approx(1 / (value.a * value.t_s) - value.kappa * (value.e_kwh or 0))


def test_who_lacks_power_stands_behind_and_keeps_its_grace() -> None:
    late = int(NOW) + 8
    # 0.36 kWh in an hour on a100 are 360 W, 0.1 in two hours on a6000 are 50 W.
    jobs = [pending(n, 3600, 7200, kwh=(0.36, 0.1), begin_time=late, grace=late) for n in (1, 2, 3)]
    now = snapshot(*jobs, a100=(3,))
    free = plan(now, 0.0, CONFIG)
    assert {n: change.lift_grace for n, change in changes(free).items()} == dict.fromkeys((1, 2, 3), True)

    capped = plan_by(now, Kappas(0.0), CONFIG, Inputs(800.0, np.array([300.0, 200.0])))
    made = changes(capped)
    assert made[1].lift_grace and made[2].lift_grace and not made[3].lift_grace
    assert "above the site's cap" in decisions(capped)[3].reason and "cap" not in decisions(capped)[2].reason
    assert order(apply(now, capped)) == [1, 2, 3]

    thrifty = replace(now, partitions=(now.partitions[0], partition("a6000", 1)))
    moved = plan_by(thrifty, Kappas(0.0), CONFIG, Inputs(800.0, np.array([300.0, 200.0])))
    assert decisions(moved)[3].partition == "a6000" and changes(moved)[3].lift_grace, "50 W are left for it there"

    runs = Job(9, "alice", 1000, "train", "RUNNING", "", ("a100",), 0, start_time=int(NOW) - 60, gpus_total=1)
    thrifty_one = pending(9, 3600, kwh=(0.05, 0.05)).estimates[0]
    for expected, lifted in ((None, [1]), (thrifty_one, [1, 2])):  # 300 W by its type, or 50 W
        busy = replace(now, running=(RunningJob(runs, expected),))
        result = plan_by(busy, Kappas(0.0), CONFIG, Inputs(800.0, np.array([300.0, 200.0])))
        assert [n for n, change in changes(result).items() if change.lift_grace] == lifted


def test_energy_counts_by_its_price() -> None:
    step = int(NOW) // 3600 * 3600
    dear = read_series(f"time,g_per_kwh\n{step},190\n{step + 7200},10\n{step + 14400},10\n")
    now = snapshot(pending(1, 3600, 7200), a100=(1,), a6000=(1,))
    result = plan_by(now, Kappas(1e-4), CONFIG, Inputs(price=dear))
    for v in decisions(result)[1].values:
        assert v.energy_weight != 1 and v.e_kwh is not None
        assert v.v == pytest.approx(1 / (v.a * v.t_s) - v.kappa * v.energy_weight * v.e_kwh)
    later = plan_by(replace(now, now=now.now // 900 * 900 + 899), Kappas(1e-4), CONFIG, Inputs(price=dear))
    assert decisions(later)[1].values == decisions(result)[1].values, "no news in each cycle"


def running(job_id: int, until_s: int, gpus: int = 1) -> RunningJob:
    """On a100, since half an hour."""
    job = Job(job_id, "alice", 1000, "train", "RUNNING", "", ("a100",), 0, start_time=int(NOW) - 1800, gpus_total=gpus)
    time_s = Interval(until_s + 1000, until_s + 1800, until_s + 2000)
    return RunningJob(replace(job, time_limit_s=10**5), replace(pending(job_id).estimates[0], time_s=time_s))


def test_a_job_waits_for_the_better_partition_and_is_told_so() -> None:
    """Under lookahead: 9,000 s are saved on a100, which comes free in half an hour; for 900 s nobody waits."""
    jobs = (pending(1, 3600, 12600, at="a6000"), pending(2, 3600, 4500))
    now = replace(snapshot(*jobs, a100=(0,), a6000=(2,)), running=(running(9, 1800, 4),))
    ahead = plan(now, 0.0, replace(CONFIG, policy="lookahead"))
    assert {n: decision.partition for n, decision in decisions(ahead).items()} == {1: "a100", 2: "a6000"}
    assert decisions(ahead)[1].reason == "It waits for a100, which is better for it than a6000 now."
    assert changes(ahead)[1].partition == "a100"
    at_once = plan(now, 0.0, replace(CONFIG, policy="lookahead", patience=0.0))
    assert decisions(at_once)[1].partition == "a6000"


def test_nobody_passes_a_job_that_has_waited_too_long() -> None:
    wide, later = pending(1, 3600, 5400, gpus=4), pending(2, 600, 900)
    now = replace(snapshot(wide, later, a100=(2,)), running=(running(9, 1800, 2),))
    assert order(apply(now, plan(now, 0.0, replace(CONFIG, policy="lookahead")))) == [2, 1]
    late = plan(now, 0.0, replace(CONFIG, policy="lookahead", longest_wait_h=0.0))
    assert order(apply(now, late)) == [1, 2]
    assert decisions(late)[2].reason == "It waits on a6000; on a100, GPUs are kept for a job that has waited too long."


def test_kappa_turns_the_choice_to_the_thriftier_partition() -> None:
    now = snapshot(pending(1, 3600, 4000, kwh=(1.0, 0.5)), a100=(1,), a6000=(1,))
    assert decisions(plan(now, 0.0, CONFIG))[1].partition == "a100"
    assert decisions(plan(now, 1e-3, CONFIG))[1].partition == "a6000"


def test_jobs_that_fit_now_stand_above_those_that_do_not() -> None:
    """The wide job has the best value, but would block the partition: Slurm's top job reserves."""
    wide, small = pending(1, 10, None, gpus=4), pending(2, 9000, None)
    now = snapshot(wide, small, a100=(1,))
    assert order(apply(now, plan(now, 0.0, CONFIG))) == [2, 1]
    full = snapshot(wide, small)
    assert order(apply(full, plan(full, 0.0, CONFIG))) == [1, 2]


def test_unknown_jobs_stand_in_the_middle_and_stay() -> None:
    jobs = [pending(1, 100, 100), pending(2, None, None), pending(3, 9000, 9000)]
    now = snapshot(*jobs)
    result = plan(now, 0.0, CONFIG)
    assert order(apply(now, result)) == [1, 2, 3]
    assert "isn't known" in decisions(result)[2].reason
    assert decisions(result)[2].partition == "a100"


def test_a_waiting_job_waits_where_its_value_is_clearly_better() -> None:
    assert changes(plan(snapshot(pending(1, 3600, 3000)), 0.0, CONFIG))[1].partition == "a6000"
    hardly = plan(snapshot(pending(1, 3600, 3400)), 0.0, CONFIG)
    assert changes(hardly)[1].partition is None
    assert "hardly better" in decisions(hardly)[1].reason


def test_a_list_is_narrowed_to_the_chosen_partition() -> None:
    listed = pending(1, 3600, 4000, at="a100,a6000")
    listed = replace(listed, allowed_partitions=("a100", "a6000"), original_partitions=())
    assert changes(plan(snapshot(listed, a6000=(1,)), 0.0, CONFIG))[1].partition == "a6000"
    assert changes(plan(snapshot(listed), 0.0, CONFIG))[1].partition == "a100"


def test_a_named_partition_is_kept_and_its_queue_ordered() -> None:
    now = snapshot(pending(1, 9000, 10, named=True), pending(2, 100, 10, named=True), a6000=(4,))
    result = plan(now, 0.0, CONFIG)
    assert all(change.partition is None for change in result.changes)
    assert order(apply(now, result)) == [2, 1]
    assert "named partition a100" in decisions(result)[1].reason


def test_a_typed_request_never_moves() -> None:
    typed = pending(1, 9000, 10, gpus=1)
    typed = replace(typed, job=replace(typed.job, gpus=GpuRequest(per_node=1, type="a100")))
    result = plan(snapshot(typed, a6000=(4,)), 0.0, CONFIG)
    assert changes(result)[1].partition is None


def test_a_job_is_not_left_where_its_time_limit_is_too_short() -> None:
    """At home the upper end of its time, 7200 s, is over the limit; on the other type it isn't."""
    result = plan(snapshot(pending(1, 3600, 3300, time_limit_s=6700)), 0.0, CONFIG)
    assert changes(result)[1].partition == "a6000"
    slow = plan(snapshot(pending(1, 3600, 3500, time_limit_s=6700), a6000=(4,)), 0.0, CONFIG)
    assert changes(slow)[1].partition is None
    assert changes(slow)[1].site_factor is not None


def test_left_alone_is_left_alone() -> None:
    kinds = {
        "held": {"priority": 0, "reason": "JobHeldUser"},
        "dependent": {"dependency": "afterok:3"},
        "pinned": {"pinned": True},
        "begin": {"begin_time": 2_000_000},
    }
    jobs = [pending(n, **fields) for n, fields in enumerate(kinds.values(), 1)]
    result = plan(snapshot(*jobs, a100=(4,), a6000=(4,)), 0.0, CONFIG)
    assert result.changes == ()
    assert all(d.reason.startswith("Left alone: ") and d.rank is None for d in result.decisions)


def test_the_grace_is_lifted_once_a_job_is_decided() -> None:
    grace = int(NOW) + 5
    jobs = [pending(n, begin_time=grace, grace=grace) for n in (1, 2)]
    result = plan(snapshot(*jobs, a100=(1,)), 0.0, CONFIG)
    assert [change.lift_grace for change in result.changes] == [True, True]
    again = plan(apply(snapshot(*jobs, a100=(1,)), result), 0.0, CONFIG)
    assert again.changes == ()


def test_a_begin_time_that_is_not_ours_is_kept() -> None:
    grace = int(NOW) + 5
    result = plan(snapshot(pending(1, begin_time=grace + 60, grace=grace), a100=(1,)), 0.0, CONFIG)
    assert result.changes == ()


def test_the_grace_is_also_lifted_of_jobs_that_are_left_alone() -> None:
    grace = int(NOW) + 5
    out = replace(pending(1, begin_time=grace, grace=grace), opted_out=True)
    (change,) = plan(snapshot(out), 0.0, CONFIG).changes
    assert change == Change(1, 900_001, change.reason, lift_grace=True)


def test_a_job_whose_estimate_is_on_its_way_is_waited_for_during_its_grace() -> None:
    grace = int(NOW) + 5
    early = pending(1, begin_time=grace, grace=grace, final=False)
    assert plan(snapshot(early, a100=(1,)), 0.0, CONFIG) == Plan((), ())
    over = pending(1, begin_time=int(NOW) - 1, grace=int(NOW) - 1, final=False)
    assert decisions(plan(snapshot(over, a100=(1,)), 0.0, CONFIG))[1].partition == "a100"


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


def test_an_exclusive_job_occupies_all_gpus_of_its_nodes() -> None:
    alone = pending(1, 3600, 3600, exclusive=True)
    result = plan(snapshot(alone, a100=(4,)), 0.0, CONFIG)
    assert [value.a for value in decisions(result)[1].values] == [4, 4]
    assert decisions(plan(snapshot(alone, a100=(3,)), 0.0, CONFIG))[1].partition == "a100"
    assert "waits" in decisions(plan(snapshot(alone, a100=(3,)), 0.0, CONFIG))[1].reason


def test_a_decision_explains_itself() -> None:
    result = plan(snapshot(pending(1, 3600, 1800, kwh=(1.0, None)), a6000=(1,)), 1e-4, CONFIG)
    decision = decisions(result)[1]
    assert (decision.rank, decision.partition, decision.at) == (0, "a6000", NOW)
    assert decision.reason == "a6000 has the best value for it, and it fits there now."
    assert [v.may for v in decision.verdicts] == [May.MOVE, May.MOVE]
    assert [(v.partition, v.a, v.t_s, v.e_kwh) for v in decision.values] == [
        ("a100", 1, 3600.0, 1.0),
        ("a6000", 1, 1800.0, None),
    ]
    assert decision.values[0].v == pytest.approx(1 / 3600 - 1e-4)


ONLY_CHOICE = (
    "a100 is the only choice, and it waits there. Not on a6000: How long the job would run there is not known."
)


@pytest.mark.parametrize(
    ("managed", "fields", "expected"),
    [
        (0, {}, "slurmcast manages no partition."),
        (1, {}, "a100 is the only choice, and it waits there."),
        (2, {"a6000_s": None}, ONLY_CHOICE),
        (1, {"dependency": "afterok:3"}, "Left alone: The job waits for other jobs."),
        (2, {"at": "a6000"}, "Left alone: slurmcast doesn't manage partition h100."),
    ],
)
def test_what_a_job_without_a_choice_is_told(managed: int, fields: dict[str, Any], expected: str) -> None:
    own = ("h100",) if "at" in fields else ("a100",)
    now = snapshot(replace(pending(1, **fields), original_partitions=own))
    (decision,) = plan(replace(now, partitions=now.partitions[:managed]), 0.0, CONFIG).decisions
    assert decision.reason == expected


def test_ranks_count_from_zero_on_each_partition() -> None:
    jobs = [pending(1, 100, 9000), pending(2, 9000, 110), pending(3, 120, 9000), pending(4, 9000, 130)]
    found = decisions(plan(snapshot(*jobs), 0.0, CONFIG))
    assert {n: (d.partition, d.rank) for n, d in found.items()} == {
        1: ("a100", 0),
        2: ("a6000", 0),
        3: ("a100", 1),
        4: ("a6000", 1),
    }


CONFIGS = (
    *(replace(CONFIG, policy=name) for name in ("value", "patient", "lookahead")),
    replace(CONFIG, policy="lookahead", longest_wait_h=0.0),
)


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
