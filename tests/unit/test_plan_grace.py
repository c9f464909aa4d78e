"""When a plan lifts the grace that the hook gave a job."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slurmcast.agent.plan import Plan
from slurmcast.agent.plan import plan as plan_by
from slurmcast.model import Change, Job, RunningJob
from slurmcast.policy.inputs import Inputs
from slurmcast.policy.kappa import Kappas
from tests.unit.plan_world import CONFIG, NOW, apply, changes, decisions, order, partition, pending, plan, snapshot


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
