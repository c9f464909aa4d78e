"""Energy records join outcomes only where all that was measured belongs to that run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slurmcast.agent import energy
from slurmcast.model import Outcome

RUN = Outcome(7, 1, "a100", "a100", 4, "COMPLETED", 1000, 2000, 1000.0)


def record(node: str = "n1", **fields: Any) -> dict[str, Any]:
    plain = {"job_id": 7, "start_time": 1001.5, "end_time": 1999.0, "node": node, "nodes": 2, "gpus": 2}
    return {**plain, "energy_j": 1.8e6, **fields}


def joined(folder: Path, *records: dict[str, Any]) -> float | None:
    for entry in records:
        (folder / f"{entry['job_id']}-{entry['node']}.json").write_text(json.dumps(entry))
    return energy.join(RUN, energy.read(folder, {7})).energy_kwh


def test_nodes_are_summed(tmp_path: Path) -> None:
    assert joined(tmp_path, record("n1"), record("n2")) == pytest.approx(1.0)


# case: (records, why there is no energy)
GAPS: dict[str, list[dict[str, Any]]] = {
    "no record": [],
    "a node is missing": [record("n1")],
    "another run of the same job": [record("n1", start_time=100.0), record("n2", start_time=100.0)],
    "fewer GPUs than allocated": [record("n1"), record("n2", gpus=1)],
    "another job": [record("n1", job_id=8), record("n2", job_id=8)],
    "negative": [record("n1", energy_j=-1.0), record("n2")],
    "not a number": [record("n1", energy_j=float("nan")), record("n2")],
}


@pytest.mark.parametrize("case", GAPS)
def test_a_gap_is_no_energy(tmp_path: Path, case: str) -> None:
    assert joined(tmp_path, *GAPS[case]) is None


def test_rubbish_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "7-n3.json").write_text('{"job_id": 7')
    (tmp_path / "7-n4.json").write_text("[]")
    (tmp_path / "x-n4.json").write_text("{}")
    (tmp_path / "7-n5.json").mkdir()
    assert joined(tmp_path, record("n1"), record("n2")) == pytest.approx(1.0)


def test_no_folder(tmp_path: Path) -> None:
    assert energy.read(tmp_path / "none", {7}) == []


def test_memory_is_that_of_the_gpu_that_used_most_on_any_node(tmp_path: Path) -> None:
    records = [record("n1", gpu_memory_gb=11.5), record("n2", gpu_memory_gb=17.0)]
    for entry in records:
        (tmp_path / f"{entry['job_id']}-{entry['node']}.json").write_text(json.dumps(entry))
    assert energy.join(RUN, energy.read(tmp_path, {7})).gpu_memory_gb == 17.0


def test_memory_that_one_node_did_not_measure_is_not_known(tmp_path: Path) -> None:
    for entry in [record("n1", gpu_memory_gb=11.5), record("n2")]:
        (tmp_path / f"{entry['job_id']}-{entry['node']}.json").write_text(json.dumps(entry))
    outcome = energy.join(RUN, energy.read(tmp_path, {7}))
    assert (outcome.gpu_memory_gb, outcome.energy_kwh) == (None, pytest.approx(1.0))
