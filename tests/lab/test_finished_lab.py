"""Finished runs as the agent has them from the real accounting: each run of a job that ran several times."""

from __future__ import annotations

import time

import pytest

from slurmcast.config import PartitionConfig
from slurmcast.model import Outcome
from tests.lab.conftest import Slurm, eventually, run

pytestmark = pytest.mark.lab

SHORT = ("-p", "a100", "--gres=gpu:1", "-t", "5")
LONG_S = 4
"""How long the runs last that are ended from outside; the others take less."""
QUICK = "#!/bin/bash\nsleep 1\n"
THIRD_TIME = '#!/bin/bash\n[ "${SLURM_RESTART_COUNT:-0}" -lt 2 ] && sleep 60\nsleep 1\n'
COMES_BACK = '#!/bin/bash\n[ "${SLURM_RESTART_COUNT:-0}" -lt 1 ] && sleep 4 || sleep 1\n'


def finished(*ids: int, usage_from: tuple[str, ...] = ()) -> dict[int, list[Outcome]]:
    """The runs of these jobs in the last minutes, by job, in the order in which they began."""
    from slurmcast.cluster.pyslurm_cluster import PyslurmCluster

    outcomes = PyslurmCluster([PartitionConfig("a100")], usage_from).finished(int(time.time()) - 300)
    outcomes = sorted(outcomes, key=lambda outcome: outcome.start_time)
    return {number: [outcome for outcome in outcomes if outcome.job_id == number] for number in ids}


def runs(slurm: Slurm, job_id: int) -> None:
    eventually(lambda: slurm.job(job_id)["JobState"] == "RUNNING", f"job {job_id} runs")


def requeue(slurm: Slurm, job_id: int) -> None:
    """Put the job back into the queue, and let its next run begin without Slurm's pause of minutes."""
    run("scontrol", "requeue", str(job_id))
    eventually(lambda: slurm.job(job_id)["JobState"] == "PENDING", f"job {job_id} is requeued")
    run("scontrol", "update", f"JobId={job_id}", "StartTime=now")


def test_each_run_of_a_job_is_one(slurm: Slurm) -> None:
    shrunk = slurm.sbatch("-N2", *SHORT, script="#!/bin/bash\nsleep 4\n")
    runs(slurm, shrunk)
    time.sleep(1.5)  # Slurm makes no record of a part that ended in the second in which it began
    run("scontrol", "update", f"JobId={shrunk}", "NumNodes=1")
    again = slurm.sbatch(*SHORT, "--requeue", script=THIRD_TIME)
    task = slurm.sbatch(*SHORT, "--requeue", "--array=5", script=THIRD_TIME)
    done_twice = slurm.sbatch(*SHORT, "--requeue", script=COMES_BACK)
    never = slurm.sbatch(*SHORT, "--begin=now+1hour")
    run("scancel", str(never))
    for _ in range(2):
        runs(slurm, again)
        runs(slurm, task)
        time.sleep(LONG_S)
        requeue(slurm, again)
        requeue(slurm, task)
    eventually(lambda: slurm.job(done_twice)["JobState"] == "COMPLETED", "the first run of the job is complete")
    requeue(slurm, done_twice)
    without_gpus = slurm.sbatch("-p", "a100", "-t", "5", script=QUICK)

    states = {
        again: ["REQUEUED", "REQUEUED", "COMPLETED"],
        task: ["REQUEUED", "REQUEUED", "COMPLETED"],
        done_twice: ["COMPLETED", "COMPLETED"],
        shrunk: ["RESIZING", "COMPLETED"],
        never: [],
        without_gpus: [],
    }

    def all_of_them() -> dict[int, list[Outcome]] | None:
        found = finished(*states)
        return found if {n: [outcome.state for outcome in found[n]] for n in states} == states else None

    eventually(lambda: slurm.job(without_gpus)["JobState"] == "COMPLETED", "the job without GPUs is over")
    found = eventually(all_of_them, "all runs are in accounting", 40)
    assert finished(*states, usage_from=("slurm", "jobstats")) == found, "what nobody measured changes nothing"
    for number in (again, task, done_twice):
        times_s = [outcome.elapsed_s for outcome in found[number]]
        assert [time_s >= LONG_S for time_s in times_s] == [True] * (len(times_s) - 1) + [False], (
            "each has its own time"
        )
        assert times_s == [outcome.end_time - outcome.start_time for outcome in found[number]]
        assert len({outcome.submit_time for outcome in found[number]}) == len(times_s)
    assert {outcome.array_job_id for outcome in found[task]} == {task}
    assert [(outcome.gpus, outcome.nodes) for outcome in found[shrunk]] == [(2, 2), (1, 1)]
