"""Carbon and water in the answers of a real daemon."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurmcast.codec import to_json
from slurmcast.model import Outcome
from tests.unit.daemon_harness import SUBMITTED, Daemon, daemon_in, record, script, submission

SETTINGS = """readback_after_s = 0
[footprint]
pue = 1.5
{more}
"""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with daemon_in(tmp_path) as unit:
        yield unit


def shares(estimate: dict[str, Any], key: str) -> Any:
    """``key`` per kWh, for each quantile; None where it is unknown."""
    return estimate[key] and [estimate[key][q] / estimate["energy_kwh"][q] for q in ("p10", "p50", "p90")]


def predicted(daemon: Daemon) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = daemon.ask("POST", "/v1/predict", {"script": script(1).decode()})["estimates"]
    return answer


def test_without_figures_they_are_unknown(daemon: Daemon) -> None:
    daemon.start()
    for estimate in predicted(daemon):
        assert estimate["energy_kwh"] and estimate["carbon_kg"] is None and estimate["water_l"] is None


def test_numbers(daemon: Daemon) -> None:
    daemon.settings = SETTINGS.format(more="g_per_kwh = 400\nwue_l_per_kwh = 1.8")
    daemon.start()
    for estimate in predicted(daemon):
        assert shares(estimate, "carbon_kg") == pytest.approx([0.6] * 3)
        assert shares(estimate, "water_l") == pytest.approx([1.8] * 3)


def test_a_file_that_changes_and_the_start_of_a_finished_job(daemon: Daemon) -> None:
    table = daemon.folder / "grid.csv"
    daemon.settings = SETTINGS.format(more=f'g_per_kwh = 400\nintensity_file = "{table}"')
    daemon.start()
    assert "No such file" in daemon.log and "g_per_kwh, where given, stands in" in daemon.log
    assert shares(predicted(daemon)[0], "carbon_kg") == pytest.approx([0.6] * 3)
    assert daemon.log.count("intensity_file") == 1, "told once"

    now = int(time.time())
    table.write_text(f"time,g_per_kwh\n{SUBMITTED},1000\n{SUBMITTED + 86400},1000\n{now - 86400},200\n{now},200\n")
    assert shares(predicted(daemon)[0], "carbon_kg") == pytest.approx([0.3] * 3)
    table.write_text("time,g_per_kwh\nnow,1\n")
    os.utime(table, (now + 5, now + 5))
    assert shares(predicted(daemon)[0], "carbon_kg") == pytest.approx([0.3] * 3), "what it held before goes on"
    assert "line 2: time 'now'" in daemon.log

    daemon.spool("1.job", submission(1))
    daemon.eventually(lambda: daemon.settled(1))
    job = record(7)
    daemon.look(job)

    def explained() -> list[float]:
        shown: list[float] = shares(daemon.ask("GET", "/v1/explain/7")["estimates"][0], "carbon_kg")
        return shown

    assert explained() == pytest.approx([0.3] * 3)
    assert daemon.ask("GET", "/v1/queue")["jobs"][0]["estimates"][0]["carbon_kg"]
    outcome = {"job_id": 7, "submit_time": SUBMITTED, "start_time": SUBMITTED, "partition": "a100", "gpu_type": "a100"}
    ended = Outcome(**outcome, state="COMPLETED", end_time=SUBMITTED + 60, elapsed_s=60.0, energy_kwh=0.01, gpus=1)
    daemon.ask("POST", "/v1/agent/outcomes", {"outcomes": [to_json(ended)]})
    assert explained() == pytest.approx([1.5] * 3), "its run was when the grid had 1000 g/kWh"
