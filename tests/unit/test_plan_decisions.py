"""What a plan says of each job: values, reason, rank."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slurmcast.agent.plan import plan as plan_by
from slurmcast.model import May
from slurmcast.policy.inputs import Inputs
from slurmcast.policy.kappa import Kappas
from slurmcast.series import read_series
from tests.unit.plan_world import CONFIG, NOW, decisions, pending, plan, snapshot


def test_each_value_shows_its_own_kappa() -> None:
    urgent, other = pending(1, 3600, 900, qos="urgent"), pending(2, 3600, 900, qos="normal")
    now = snapshot(urgent, other, a100=(1,), a6000=(1,))
    found = decisions(plan_by(now, Kappas(1e-3, {"a6000": 2e-3}, {"urgent": 0.0}), CONFIG))
    kappas = {job_id: {v.partition: v.kappa for v in decision.values} for job_id, decision in found.items()}
    assert kappas == {1: {"a100": 0.0, "a6000": 0.0}, 2: {"a100": 1e-3, "a6000": 2e-3}}
    for value in (v for decision in found.values() for v in decision.values):
        assert value.v == pytest.approx(1 / (value.a * value.t_s) - value.kappa * (value.e_kwh or 0))


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
