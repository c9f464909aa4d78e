"""What Slurm itself measures and keeps: its pm_counters plugin on files that a thread advances, and AdminComment."""

from __future__ import annotations

import base64
import gzip
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmcast.config import PartitionConfig
from slurmcast.model import Outcome
from tests.lab.conftest import Slurm, eventually, run

pytestmark = pytest.mark.lab

CONF = Path("/etc/slurm/slurm.conf")
COUNTERS = Path("/sys/cray/pm_counters")
POWER_W = 300.0
"""Of each node. All nodes of the lab are one host, so all read the same counter."""
PLUGIN = """
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1,energy=1
AcctGatherEnergyType=acct_gather_energy/pm_counters
AcctGatherNodeFreq=1
PrologFlags={flags}
"""
LAG_S = 2.5
"""Slurm reads the counter once a second, from a little after a step's begin on."""


@pytest.fixture(params=["Alloc", "Contain"])
def plugin(request: pytest.FixtureRequest) -> Iterator[None]:
    """Slurm with its plugin for HPE Cray's counters, with and without the extern step."""
    run("mount", "-t", "tmpfs", "none", "/sys")
    COUNTERS.mkdir(parents=True)
    stop = threading.Event()
    began = time.monotonic()

    def advance() -> None:
        while not stop.wait(0.05):
            joules = 1_000_000 + POWER_W * (time.monotonic() - began)
            stamp = int(time.time() * 1e6)
            for name, text in (("energy", f"{joules:.0f} J {stamp} us"), ("power", f"{POWER_W:.0f} W {stamp} us")):
                draft = COUNTERS / f".{name}"
                draft.write_text(f"{text}\n")
                draft.replace(COUNTERS / name)

    feeder = threading.Thread(target=advance)
    feeder.start()
    before = CONF.read_text()
    CONF.write_text(before + PLUGIN.format(flags=request.param))
    run("scontrol", "reconfigure")
    eventually(lambda: "pm_counters" in run("scontrol", "show", "config"), "Slurm knows the plugin")
    eventually(lambda: len(set(run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split())) == 4, "all nodes are there")
    yield
    CONF.write_text(before)
    run("scontrol", "reconfigure")
    stop.set()
    feeder.join()
    run("umount", "/sys")


def finished(*ids: int) -> dict[int, Outcome]:
    """Those runs as the agent sees them with both readers."""
    from slurmcast.cluster.pyslurm_cluster import PyslurmCluster

    cluster = PyslurmCluster([PartitionConfig("a100"), PartitionConfig("a6000")], ("slurm", "jobstats"))

    def all_of_them() -> dict[int, Outcome] | None:
        outcomes = {outcome.job_id: outcome for outcome in cluster.finished(int(time.time()) - 300)}
        return {number: outcomes[number] for number in ids} if set(ids) <= set(outcomes) else None

    found: dict[int, Outcome] = eventually(all_of_them, "the jobs are over", 60)
    return found


def test_consumed_energy_is_of_whole_nodes_and_counted_once(slurm: Slurm, plugin: None) -> None:
    within = "#!/bin/bash\nsleep 6\nsrun sleep 4\n"
    options = ("--gres=gpu:1", "-t", "2")
    alone = slurm.sbatch("-p", "a100", "-w", "a100-1", "--exclusive", *options, script=within)
    both = slurm.sbatch("-p", "a6000", "-N", "2", "--exclusive", *options, script="#!/bin/bash\nsrun sleep 10\n")
    shared = slurm.sbatch("-p", "a100", "-w", "a100-2", *options, script=within)
    found = finished(alone, both, shared)
    for number, nodes in ((alone, 1), (both, 2)):
        outcome = found[number]
        assert outcome.energy_kwh is not None and outcome.energy_method == "slurm"
        assert abs(outcome.energy_kwh * 3.6e6 / (nodes * POWER_W) - outcome.elapsed_s) < LAG_S, outcome
    assert found[shared].energy_kwh is None, "others could have run there"


def test_a_summary_of_jobstats_in_admin_comment(slurm: Slurm) -> None:
    number = slurm.sbatch("-p", "a100", "--gres=gpu:1", "-t", "2", script="#!/bin/bash\nsleep 1\n")
    finished(number)
    summary = {"nodes": {"a100-1": {"gpu_used_memory": {"0": 3 * 2**30}, "gpu_utilization": {"0": 80.5}}}}
    comment = "JS1:" + base64.b64encode(gzip.compress(json.dumps(summary).encode())).decode()
    run("sacctmgr", "-i", "modify", "job", "where", f"jobid={number}", "set", f"AdminComment={comment}")
    outcome = finished(number)[number]
    assert (outcome.gpu_memory_gb, outcome.gpu_utilisation) == (3, pytest.approx(0.805))
    assert outcome.energy_kwh is None


def energies(*jobs: str) -> dict[str, str]:
    """What sacct shows as energy of jobs and array tasks, by their names."""
    lines = run("sacct", "-X", "-n", "-P", "-j", ",".join(jobs), "-o", "jobid,consumedenergyraw").splitlines()
    return dict(line.split("|") for line in lines)


def test_energy_is_written_to_the_run_that_it_is_of(slurm: Slurm) -> None:
    from slurmcast.cluster.base import Refused
    from slurmcast.cluster.pyslurm_cluster import PyslurmCluster

    cluster = PyslurmCluster([PartitionConfig("a100")])
    options = ("-p", "a100", "--gres=gpu:1", "-t", "2")
    alone = slurm.sbatch(*options, script="#!/bin/bash\nsleep 1\n")
    array = slurm.sbatch(*options, "--array=1-3", script="#!/bin/bash\nsleep 1\n")
    again = slurm.sbatch(*options, "--requeue", script="#!/bin/bash\nsleep 30\n")
    eventually(lambda: slurm.job(again)["JobState"] == "RUNNING", "the job runs")
    tasks = {outcome.array_job_id: outcome for outcome in finished(alone, array).values()}
    ended = finished(alone)[alone]
    cluster.write_energy(alone, ended.submit_time, ended.start_time, 1234)
    last_task = tasks[array]  # the one that has the array's own id
    cluster.write_energy(last_task.job_id, last_task.submit_time, last_task.start_time, 99)
    assert energies(str(alone)) == {str(alone): "1234"}
    assert sorted(energies(str(array)).values()) == ["", "", "99"], "no other task of the array"
    # Of a requeued job Slurm would change the last run, whatever run one means.
    run("scontrol", "requeue", str(again))
    requeued = eventually(lambda: _first_run(again), "both runs are in accounting")
    with pytest.raises(Refused, match="requeued"):
        cluster.write_energy(again, *requeued, 5)
    with pytest.raises(Refused):
        cluster.write_energy(999_999, 1, 1, 5)
    assert "5" not in energies(str(again)).values()


def _first_run(job_id: int) -> tuple[int, int] | None:
    """Submit and start time of the run that was ended by the requeue, once the next one is there too: slurmdbd may hear
    of it some time later, and until then the first is the last one."""
    command = ("sacct", "-X", "-n", "-P", "-D", "-j", str(job_id), "-o", "state,submit,start")
    runs = [line.split("|") for line in run(*command, SLURM_TIME_FORMAT="%s").splitlines()]
    ended = [(int(submitted), int(started)) for state, submitted, started in runs if state == "REQUEUED"]
    return ended[0] if ended and len(runs) > 1 else None
