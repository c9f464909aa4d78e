"""Kappa by partition and QOS, set while everything runs, on a real Slurm."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.lab.conftest import Services, Slurm, eventually, run

pytestmark = pytest.mark.lab


def kappas(job_id: int) -> dict[str, float]:
    """Those that the job's values were made with, by partition; empty as long as there are none."""
    done = subprocess.run(["slurmcast", "explain", str(job_id), "--json"], capture_output=True, check=False)
    values = json.loads(done.stdout)["values"] if done.returncode == 0 else []
    return {value["partition"]: value["kappa"] for value in values}


def test_each_kappa_reaches_its_jobs_without_a_restart(slurm: Slurm, services: Services) -> None:
    slurm.fill("a100")
    slurm.fill("a6000")
    services.start()
    job_id = slurm.sbatch("--gres=gpu:1", "-t", "30", "--qos=normal")
    general = json.loads(run("slurmcast", "kappa", "--json"))["kappa"]
    for words, expected in (
        ([], {"a100": general, "a6000": general}),
        (["0.25", "--partition", "a6000"], {"a100": general, "a6000": 0.25}),
        (["0.5", "--qos", "normal"], {"a100": 0.5, "a6000": 0.5}),
        (["--reset", "--qos", "normal"], {"a100": general, "a6000": 0.25}),
    ):
        run("slurmcast", "kappa", *words, user="slurmcast")  # the daemon's own user, as which tune runs
        eventually(lambda expected=expected: kappas(job_id) == expected, f"{words}: {expected}")  # type: ignore[misc]


def test_a_job_above_the_cap_keeps_its_grace_and_then_slurm_starts_it(slurm: Slurm, services: Services) -> None:
    services.configure(power_cap_w=10.0)
    services.start()
    job_id = slurm.sbatch("--gres=gpu:1", "-t", "30")
    begin = slurm.job(job_id)["EligibleTime"]
    eventually(lambda: "above the site's cap" in reason(job_id), "the agent says why the job waits")
    waiting = slurm.job(job_id)
    assert (waiting["JobState"], waiting["EligibleTime"]) == ("PENDING", begin)
    eventually(lambda: slurm.job(job_id)["JobState"] == "RUNNING", "Slurm starts it when the grace is over")
    assert slurm.job(job_id)["StartTime"] >= begin


def reason(job_id: int) -> str:
    done = subprocess.run(["slurmcast", "explain", str(job_id), "--json"], capture_output=True, check=False)
    return str(json.loads(done.stdout)["reason"]) if done.returncode == 0 else ""
