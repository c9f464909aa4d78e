"""What goes away and comes back while slurmcast runs: the agent is back by itself and soon, and says little of it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.lab.conftest import Services, Slurm, eventually, run

pytestmark = pytest.mark.lab

AGENT_LOG = Path("/var/log/slurmcast/agent.log")
LEASE = Path("/run/slurmcast/lease")
PERIOD_S = 30.0


def test_an_agent_that_was_there_before_the_daemon(slurm: Slurm, services: Services) -> None:
    services.configure(period_s=PERIOD_S)
    services.script("start", "agent")
    eventually(lambda: "slurmcastd doesn't run here" in AGENT_LOG.read_text(), "the agent finds no daemon")
    time.sleep(2)
    services.start("daemon")
    eventually(LEASE.exists, "the agent has ordered the queue", PERIOD_S / 2)
    lines = AGENT_LOG.read_text().splitlines()
    assert len([line for line in lines if line.startswith("WARNING")]) == 1, lines


def test_accounting_that_is_away_stops_no_cycle(slurm: Slurm, services: Services) -> None:
    services.start()
    run("pkill", "-x", "slurmdbd")
    try:
        job_id = slurm.sbatch("--gres=gpu:1", "-t", "5", script="#!/bin/bash\nsleep 1\n")
        eventually(lambda: "handing over finished runs fails" in AGENT_LOG.read_text(), "the agent finds none", 40)
        until = LEASE.read_text()
        eventually(lambda: LEASE.read_text() > until, "the lease is renewed meanwhile")
        eventually(lambda: slurm.job(job_id)["JobState"] == "COMPLETED", "the job is over")
    finally:
        run("slurmdbd", user="slurm")
    explained = ("slurmcast", "explain", str(job_id), "--json")
    eventually(lambda: "ended as COMPLETED" in run(*explained, check=False), "the run is told afterwards", 60)
