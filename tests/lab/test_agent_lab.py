"""What the agent does with each kind of job, on a real Slurm: every line of the table in docs/eligibility.md that a
submission can bring about. One crowd of jobs waits for a full a100 while a6000 is free; then the agent comes."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import Services, Slurm, eventually, run

pytestmark = pytest.mark.lab

LONG = ("-t", "20")
ONE_GPU = ("--gres=gpu:1",)
ON_A100 = ("-p", "a100", *LONG)


@dataclass
class Crowd:
    """The jobs by kind, and what Slurm says of each: before the agent came, with it, and after a release."""

    slurm: Slurm
    ids: dict[str, int] = field(default_factory=dict)
    before: dict[str, dict[str, str]] = field(default_factory=dict)
    after: dict[str, dict[str, str]] = field(default_factory=dict)
    explained: dict[str, dict[str, Any]] = field(default_factory=dict)
    released: dict[str, dict[str, str]] = field(default_factory=dict)

    def submit(self, kind: str, *options: str, gres: str | None = "gpu:1") -> None:
        wanted = [] if gres is None else [f"--gres={gres}"]
        self.ids[kind] = self.slurm.sbatch("-J", kind.replace(" ", "-"), *wanted, *options)

    def look(self) -> dict[str, dict[str, str]]:
        factors = {}
        for line in run("sprio", "-h", "-o", "%i %S").splitlines():
            job_id, factor = line.split()
            factors[int(job_id)] = factor
        records = {kind: self.slurm.job(job_id) for kind, job_id in self.ids.items()}
        return {kind: {**record, "Site": factors.get(self.ids[kind], "none")} for kind, record in records.items()}


def submit_all(crowd: Crowd) -> None:
    crowd.submit("no partition named", *LONG)
    crowd.submit("opted in", *ON_A100, "--comment=slurmcast:move")
    crowd.submit("array", "--array=1-2", *LONG)
    crowd.submit("one partition named", *ON_A100)
    crowd.submit("typed GPUs", *LONG, gres="gpu:a100:1")
    crowd.submit("typed total", *LONG, "--gpus=a100:1", gres=None)
    crowd.submit("nodes named", *LONG, "-w", "a100-1")
    crowd.submit("deadline", *LONG, "--deadline=now+5hours")
    crowd.submit("opted out", *LONG, "--comment=slurmcast:off")
    crowd.submit("no GPU", *LONG, "--exclusive", gres=None)
    crowd.submit("held", *LONG, "-H")
    crowd.submit("dependent", *LONG, f"--dependency=afterok:{crowd.ids['one partition named']}")
    crowd.submit("begin time", *LONG, "--begin=now+1hour")
    crowd.submit("reservation", *LONG, "--reservation=later")
    crowd.submit("pinned by an admin", *LONG)
    run("scontrol", "update", f"JobId={crowd.ids['pinned by an admin']}", "Priority=5000")
    crowd.submit("too many GPUs a node", *LONG, "-N2", gres="gpu:2")
    crowd.submit("feature missing", *LONG, "-C", "a100")
    het = ["sbatch", "--parsable", "-o", "/dev/null", "--gres=gpu:1", *LONG, ":", "--gres=gpu:1", *LONG]
    crowd.ids["heterogeneous"] = int(run(*het, user="alice", stdin="#!/bin/bash\nsleep 60\n"))


@pytest.fixture(scope="module")
def crowd() -> Iterator[Crowd]:
    services, found = Services(), Crowd(Slurm())
    services.clean()
    found.slurm.cancel_all()
    found.slurm.fill("a100")
    start = ["reservationname=later", "users=alice", "nodes=a100-2", "starttime=now+2hours", "duration=60"]
    run("scontrol", "create", "reservation", *start)
    srun = ["runuser", "-u", "alice", "--", "srun", "-J", "srun", "-t", "20", "--gres=gpu:1", "true"]
    waiting = subprocess.Popen(srun, cwd="/home/alice", stderr=subprocess.DEVNULL)
    try:
        # With an agent in shadow mode the hook hands over every script but gives no grace: all wait as they are.
        services.lease(f"shadow {int(time.time()) + 600} 8\n")
        submit_all(found)
        found.ids["srun"] = int(eventually(lambda: run("squeue", "-h", "-n", "srun", "-o", "%A"), "srun waits"))
        found.before = found.look()
        services.start()
        plain = found.ids["no partition named"]
        eventually(lambda: found.slurm.job(plain)["JobState"] == "RUNNING", "the plain job runs on a6000", 40)
        time.sleep(5)  # two more cycles: what is left alone must stay so
        found.after = found.look()
        for kind, job_id in found.ids.items():
            answer = subprocess.run(["slurmcast", "explain", str(job_id), "--json"], capture_output=True, check=False)
            found.explained[kind] = json.loads(answer.stdout) if answer.returncode == 0 else {}
        services.stop()
        run("slurmcast", "release", user="slurmcast-agent")
        found.released = found.look()
        yield found
    finally:
        waiting.kill()
        found.slurm.cancel_all()
        run("scontrol", "delete", "reservationname=later", check=False)
        services.clean()


MOVED = ["no partition named", "opted in", "array"]
ORDERED = [
    "one partition named",
    "typed GPUs",
    "typed total",
    "nodes named",
    "deadline",
    "too many GPUs a node",
    "feature missing",
]
LEFT_ALONE = [
    "opted out",
    "no GPU",
    "held",
    "dependent",
    "begin time",
    "reservation",
    "pinned by an admin",
    "heterogeneous",
    "srun",
]
# kind -> (what explain says of a100, of a6000, a word of the reasons); no entry: the daemon knows nothing of the job
EXPLAINED = {
    "no partition named": ("move", "move", "fits here"),
    "opted in": ("move", "move", "fits here"),
    "array": ("move", "move", "fits here"),
    "one partition named": ("order only", "leave alone", "named partition a100"),
    "typed GPUs": ("order only", "leave alone", "GPUs of one type"),
    "typed total": ("order only", "leave alone", "GPUs of one type"),
    "nodes named": ("order only", "leave alone", "named nodes"),
    "deadline": ("order only", "leave alone", "deadline"),
    "too many GPUs a node": ("move", "move", "fits here"),
    "feature missing": ("move", "leave alone", "feature a100"),
    "held": ("leave alone", "leave alone", "held"),
    "dependent": ("leave alone", "leave alone", "other jobs"),
    "begin time": ("leave alone", "leave alone", "begin time"),
    "reservation": ("leave alone", "leave alone", "reservation later"),
    "pinned by an admin": ("leave alone", "leave alone", "by hand"),
    "heterogeneous": ("leave alone", "leave alone", "heterogeneous"),
    "srun": ("leave alone", "leave alone", "no batch script"),
}


@pytest.mark.parametrize("kind", MOVED)
def test_moved(crowd: Crowd, kind: str) -> None:
    assert crowd.after[kind]["JobState"] == "RUNNING"
    assert crowd.after[kind]["Partition"] == "a6000"


@pytest.mark.parametrize("kind", ORDERED)
def test_only_ordered(crowd: Crowd, kind: str) -> None:
    before, after = crowd.before[kind], crowd.after[kind]
    assert (after["JobState"], after["Partition"]) == ("PENDING", "a100")
    assert (before["Site"], int(after["Site"]) > 0) == ("0", True)


@pytest.mark.parametrize("kind", LEFT_ALONE)
def test_left_alone(crowd: Crowd, kind: str) -> None:
    same = ("JobState", "Partition", "Priority", "Nice", "Site", "EligibleTime", "TresPerNode")
    before, after = crowd.before[kind], crowd.after[kind]
    assert {name: after.get(name) for name in same} == {name: before.get(name) for name in same}


@pytest.mark.parametrize("kind", EXPLAINED)
def test_explained(crowd: Crowd, kind: str) -> None:
    a100, a6000, word = EXPLAINED[kind]
    verdicts = {verdict["partition"]: verdict for verdict in crowd.explained[kind]["eligibility"]}
    assert (verdicts["a100"]["may"], verdicts["a6000"]["may"]) == (a100, a6000)
    assert word in " ".join(verdict["reason"] for verdict in verdicts.values())


@pytest.mark.parametrize("kind", [*ORDERED, *LEFT_ALONE])
def test_released(crowd: Crowd, kind: str) -> None:
    same = ("JobState", "Partition", "Nice", "Site", "EligibleTime", "TresPerNode")
    before, after = crowd.before[kind], crowd.released[kind]
    assert {name: after.get(name) for name in same} == {name: before.get(name) for name in same}


def test_a_test_only_submission_leaves_nothing(slurm: Slurm, services: Services) -> None:
    services.start()
    run("sbatch", "--test-only", "--gres=gpu:1", "-t", "5", user="alice", stdin="#!/bin/bash\nsleep 1\n")
    job_id = slurm.sbatch(*ONE_GPU, "-t", "5")
    eventually(lambda: slurm.job(job_id)["JobState"] == "RUNNING", "the next job runs")
    assert [job["job_id"] for job in slurm.jobs()] == [job_id]


def set_times(job_id: int, a100_s: float, a6000_s: float) -> None:
    """Give the daemon an estimate as a probe would have made it."""
    with sqlite3.connect("/var/lib/slurmcast/store.db", timeout=20) as store:
        (submission,) = store.execute("SELECT submission FROM job WHERE job_id = ?", (job_id,)).fetchone()
        store.execute("UPDATE submission SET estimated_at = ? WHERE id = ?", (time.time(), submission))
        for partition, upper in (("a100", a100_s), ("a6000", a6000_s)):
            interval = json.dumps({"p10": upper / 2, "p50": upper / 1.5, "p90": upper})
            store.execute(
                "UPDATE estimate SET estimate = json_set(estimate, '$.time_s', json(?)) WHERE submission = ? AND "
                "partition = ?",
                (interval, submission, partition),
            )


def known(job_id: int) -> dict[str, Any]:
    done = subprocess.run(["slurmcast", "explain", str(job_id), "--json"], capture_output=True, check=False)
    answer: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
    return answer if answer.get("decision") else {}


def test_time_limit_too_short_for_the_other_type(slurm: Slurm, services: Services) -> None:
    slurm.fill("a100")
    slurm.fill("a6000")
    services.start()
    slow, quick = slurm.sbatch(*ONE_GPU, "-t", "20"), slurm.sbatch(*ONE_GPU, "-t", "20")
    for job_id in (slow, quick):
        eventually(lambda job_id=job_id: known(job_id), f"job {job_id} is decided")
    set_times(slow, 1000.0, 1300.0)
    set_times(quick, 1000.0, 1100.0)
    eventually(
        lambda: "longer" in known(slow)["reason"] or "22 min" in known(slow)["reason"], "the new estimate counts"
    )
    run("scancel", *run("squeue", "-h", "-p", "a6000", "-n", "fill", "-o", "%A").split())
    eventually(lambda: slurm.job(quick)["JobState"] == "RUNNING", "the quick job runs on a6000")
    time.sleep(4)
    assert slurm.job(quick)["Partition"] == "a6000"
    assert (slurm.job(slow)["JobState"], slurm.job(slow)["Partition"]) == ("PENDING", "a100")


def test_short_jobs_first_and_long_ones_not_forgotten(slurm: Slurm, services: Services) -> None:
    slurm.fill("a100")
    slurm.fill("a6000")
    services.start()
    minutes = {slurm.sbatch(*ONE_GPU, "-p", "a100", "-t", str(limit)): limit for limit in (50, 10, 30, 20, 40)}
    eventually(lambda: all(known(job_id) for job_id in minutes), "all are decided")
    eventually(lambda: all(slurm.site_factor(job_id) for job_id in minutes), "all have site factors")
    order = sorted(minutes, key=lambda job_id: -slurm.site_factor(job_id))
    assert [minutes[job_id] for job_id in order] == [10, 20, 30, 40, 50]
    assert [known(job_id)["rank"] for job_id in order] == [0, 1, 2, 3, 4]


def test_pin_and_release(slurm: Slurm, services: Services) -> None:
    slurm.fill("a100")
    slurm.fill("a6000")
    services.configure(priority_mode="pin")
    services.start()
    nice, plain = (
        slurm.sbatch(*ONE_GPU, "-p", "a100", "-t", "10", "--nice=7"),
        slurm.sbatch(*ONE_GPU, "-p", "a100", "-t", "20"),
    )
    eventually(lambda: int(slurm.job(nice)["Priority"]) > int(slurm.job(plain)["Priority"]) > 10**6, "both are pinned")
    time.sleep(3)  # our own pin isn't taken for an admin's
    assert "by hand" not in json.dumps(known(plain))
    services.stop()
    run("slurmcast", "release", user="slurmcast-agent")
    assert (slurm.job(nice)["Nice"], slurm.job(plain)["Nice"]) == ("7", "0")
    assert int(slurm.job(nice)["Priority"]) + 7 == int(slurm.job(plain)["Priority"]) < 10**5


def test_a_requeued_job_is_given_back_too(slurm: Slurm, services: Services) -> None:
    slurm.fill("a100")
    services.start()
    job_id = slurm.sbatch(*ONE_GPU, "-t", "10", "--requeue")
    eventually(lambda: slurm.job(job_id)["Partition"] == "a6000", "the job is moved")
    eventually(lambda: slurm.job(job_id)["JobState"] == "RUNNING", "the job runs")
    run("scontrol", "requeue", str(job_id))
    eventually(lambda: slurm.job(job_id)["JobState"] == "PENDING", "the job is requeued")
    services.stop()
    run("slurmcast", "release", user="slurmcast-agent")
    assert slurm.job(job_id)["Partition"] == "a100"


def test_a_list_of_partitions_is_narrowed_within_itself(slurm: Slurm, services: Services) -> None:
    slurm.fill("a100")
    slurm.fill("a6000")
    services.start()
    job_id = slurm.sbatch(*ONE_GPU, "-p", "a100,a6000", "-t", "10")
    eventually(lambda: slurm.job(job_id)["Partition"] in ("a100", "a6000"), "the list is narrowed")
    assert {verdict["may"] for verdict in known(job_id)["eligibility"]} == {"move"}
    services.stop()
    run("slurmcast", "release", user="slurmcast-agent")
    assert slurm.job(job_id)["Partition"] == "a100,a6000"


def test_the_admin_has_the_last_word(slurm: Slurm, services: Services) -> None:
    """A job that somebody moves after the agent did is not moved again, nor by a release."""
    slurm.fill("a100")
    slurm.fill("a6000")
    run("scontrol", "create", "partitionname=extra", "nodes=a100-[1-2]", "maxtime=7-0", "state=up")
    try:
        services.configure((services.config.read_text()) + '\n[[partition]]\nname = "extra"\ngpu_memory_gb = 40.0\n')
        services.start()
        job_id = slurm.sbatch(*ONE_GPU, "-p", "a100,a6000", "-t", "10")
        eventually(lambda: slurm.job(job_id)["Partition"] in ("a100", "a6000"), "the list is narrowed")
        run("scontrol", "update", f"JobId={job_id}", "Partition=extra")
        time.sleep(5)
        assert slurm.job(job_id)["Partition"] == "extra"
        assert known(job_id)["eligibility"][-1]["may"] == "order only"
        services.stop()
        run("slurmcast", "release", user="slurmcast-agent")
        assert slurm.job(job_id)["Partition"] == "extra"
        assert slurm.site_factor(job_id) == 0
        slurm.cancel_all()
    finally:
        run("scontrol", "delete", "partitionname=extra", check=False)


def test_lost_and_found(slurm: Slurm, services: Services) -> None:
    """slurmctld goes away and comes back: the agent lives on and its lease runs out meanwhile."""
    services.configure(lease_s=3)
    services.start()
    run("scontrol", "shutdown", "slurmctld")
    eventually(lambda: int(Path("/run/slurmcast/lease").read_text().split()[1]) < time.time(), "the lease runs out", 30)
    run("slurmctld", user="slurm")
    eventually(lambda: "UP" in run("scontrol", "ping", check=False), "slurmctld is back")
    eventually(lambda: int(Path("/run/slurmcast/lease").read_text().split()[1]) >= time.time(), "the agent is back", 60)
