"""What the demo's stand-ins leave becomes records that say that they are emulated."""

from __future__ import annotations

from demo import meter

from slurmcast.meter.record import Method, join
from slurmcast.model import Outcome


def test_records_are_whole_and_marked() -> None:
    left = {"job_id": 7, "nodes": 2, "gpus": 2, "energy_j": 1.8e6, "power_w": 250.0}
    records = [meter.record({**left, "node": node}, "lab", 1000, 4600) for node in ("a100-1", "a100-2")]
    assert [record.fault for record in records] == ["", ""]
    assert {use.method for record in records for use in record.used} == {Method.EMULATED}
    outcome = join(Outcome(7, 990, "a100", "a100", 4, "COMPLETED", 1000, 4600, 3600.0), records)
    assert (outcome.energy_kwh, outcome.energy_method) == (1.0, "emulated")
