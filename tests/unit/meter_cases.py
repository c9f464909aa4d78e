"""What happens to jobs on GPU nodes, each case with the energy that was truly used. Tests and benchmark share it."""

from __future__ import annotations

from functools import partial

from tests.unit.meter_base import Case
from tests.unit.meter_cards import SINGLE, single
from tests.unit.meter_jobs import (
    cancelled,
    epilog_lost,
    epilog_lost_and_idle,
    late_epilog,
    mig,
    mps,
    node_failure,
    requeued,
    requeued_without_epilog,
    several_nodes,
    shard,
    two_jobs,
)
from tests.unit.meter_outages import daemon_away, meter_broken, meter_down_at_an_end, meter_down_long, meter_killed

CASES: dict[str, Case] = {name: partial(single, case) for name, case in SINGLE.items()} | {
    "several nodes": several_nodes,
    "two jobs on one node": two_jobs,
    "MIG": mig,
    "MPS": mps,
    "shard": shard,
    "requeued": requeued,
    "requeued, epilog lost": requeued_without_epilog,
    "cancelled": cancelled,
    "epilog seen late": late_epilog,
    "node failure": node_failure,
    "epilog lost": epilog_lost,
    "epilog lost, GPU idle": epilog_lost_and_idle,
    "daemon away": daemon_away,
    "meter killed": meter_killed,
    "meter down for long": meter_down_long,
    "meter down at an end": meter_down_at_an_end,
    "meter broken": meter_broken,
}
