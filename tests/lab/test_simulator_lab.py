"""The simulator against reality: the same jobs on the real Slurm with the real agent (``benchmarks/reality.py``)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from slurmcast import config
from tests.lab.conftest import Services, Slurm

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import reality

pytestmark = pytest.mark.lab


@pytest.mark.timeout(600)
def test_the_simulator_does_what_slurm_and_the_agent_do(slurm: Slurm, services: Services) -> None:
    """The order and the totals, not the second: a busy machine takes longer for each decision and each end."""
    services.start()
    jobs = reality.draw(40, seed=3)
    found = reality.compare(jobs, reality.perform(jobs), config.load().agent)
    lab, quick, near, slow = (found[name] for name in ("lab", "simulator", "with delays", "slow"))
    # Not ranks: one job of low value starts at once or as the last, by a second's difference in another's end.
    assert max(one["kendall"] for one in (quick, near, slow)) > 0.75, found
    assert 0.9 * quick["wait_s"] <= lab["wait_s"] <= 1.25 * slow["wait_s"], found
    assert lab["run_s"] == pytest.approx(near["run_s"], rel=0.15), found
    assert lab["makespan_s"] == pytest.approx(near["makespan_s"], rel=0.25), found
