"""The main job on a real Slurm: sbatch, estimate, reordered queue, explain, release."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.conftest import LAB, Services, Slurm, eventually, run

pytestmark = pytest.mark.lab


def script(epochs: int) -> str:
    return f"#!/bin/bash\n#SBATCH --gres=gpu:1\n#SBATCH -t 30\nsleep 60 # python train.py --epochs {epochs}\n"


def explain(job_id: int, user: str) -> dict[str, object]:
    answer: dict[str, object] = json.loads(run("slurmcast", "explain", str(job_id), "--json", user=user))
    return answer


def refused(*command: str, user: str) -> str:
    done = subprocess.run(["runuser", "-u", user, "--", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done
    return done.stderr


@pytest.fixture
def full(slurm: Slurm) -> Slurm:
    """A cluster on which both partitions are full."""
    slurm.fill("a100")
    slurm.fill("a6000")
    return slurm


def test_submitted_job_is_estimated_and_explained(full: Slurm, services: Services) -> None:
    services.start()
    job_id = full.sbatch(script=script(3))
    answer = eventually(lambda: decided(job_id), f"job {job_id} is decided")
    assert {e["partition"] for e in answer["estimates"]} == {"a100", "a6000"}
    assert {v["may"] for v in answer["eligibility"]} == {"move"}
    assert all(v["v"] > 0 or v["kappa"] > 0 for v in answer["values"])
    assert answer["decision"]["partition"] in full.job(job_id)["Partition"].split(",")


def decided(job_id: int) -> dict[str, object] | None:
    done = subprocess.run(["slurmcast", "explain", str(job_id), "--json"], capture_output=True, check=False)
    answer = json.loads(done.stdout) if done.returncode == 0 else {}
    return answer if answer.get("decision") else None


def test_users_see_only_their_own_jobs(full: Slurm, services: Services) -> None:
    services.start()
    job_id = full.sbatch(user="alice", script=script(3))
    eventually(lambda: decided(job_id), f"job {job_id} is decided")
    assert explain(job_id, "alice")["job_id"] == job_id
    assert explain(job_id, "slurmcast-agent")["job_id"] == job_id
    strangers = refused("slurmcast", "explain", str(job_id), user="bob")
    nobodys = refused("slurmcast", "explain", "999999", user="bob")
    assert strangers == nobodys.replace("999999", str(job_id))
    assert [job["job_id"] for job in json.loads(run("slurmcast", "queue", "--json", user="alice"))["jobs"]] == [job_id]
    assert json.loads(run("slurmcast", "queue", "--json", user="bob"))["jobs"] == []


def test_arguments_make_another_estimate(full: Slurm, services: Services, tmp_path: Path) -> None:
    services.start()
    home = Path("/home/alice/job.sh")
    home.write_text('#!/bin/bash\n#SBATCH --gres=gpu:1 -t 30\necho "$@"; sleep 60\n')
    jobs = [
        int(run("sbatch", "--parsable", "-o", "/dev/null", str(home), "--epochs", n, user="alice")) for n in ("1", "90")
    ]
    first, second = (eventually(lambda j=j: decided(j), f"job {j} is decided") for j in jobs)
    assert first["key"] != second["key"]


def test_a_name_that_is_no_utf_8_stops_nobody(full: Slurm, services: Services) -> None:
    services.start()
    odd = full.sbatch("-J", "caf\udce9", "--comment=\udcff", script=script(3))
    plain = full.sbatch(script=script(4))
    for job_id in (odd, plain):
        eventually(lambda job_id=job_id: decided(job_id), f"job {job_id} is decided")


def test_an_idle_cluster_is_decided_before_the_start(slurm: Slurm, services: Services) -> None:
    services.start()
    eventually(lambda: Path("/run/slurmcast/lease").exists(), "the agent writes its lease")
    job_id = slurm.sbatch(script=script(2))
    eventually(lambda: slurm.job(job_id)["JobState"] == "RUNNING", f"job {job_id} runs", 20)
    answer = explain(job_id, "alice")
    assert answer["decision"]["at"] <= time.time()
    assert answer["decision"]["partition"] == slurm.job(job_id)["Partition"]


def test_a_dead_agent_costs_at_most_the_grace(slurm: Slurm, services: Services) -> None:
    services.start("daemon")
    services.lease(f"on {int(time.time()) + 60} 6\n")
    fresh = slurm.sbatch(script=script(2))
    services.lease(f"on {int(time.time()) - 60} 6\n")
    stale = slurm.sbatch(script=script(2))
    eventually(lambda: slurm.job(stale)["JobState"] == "RUNNING", "the job under a stale lease starts at once", 4)
    assert slurm.job(fresh)["JobState"] == "PENDING"
    eventually(lambda: slurm.job(fresh)["JobState"] == "RUNNING", "the job under a fresh lease starts by itself", 15)


def test_release_gives_everything_back(full: Slurm, services: Services) -> None:
    services.start()
    jobs = [full.sbatch(script=script(n)) for n in range(1, 7)]
    before = dict.fromkeys(jobs, ("a100", 0))
    for job_id in jobs:
        eventually(lambda job_id=job_id: decided(job_id), f"job {job_id} is decided")
    eventually(lambda: any(full.site_factor(j) for j in jobs), "site factors are set")
    services.stop()
    for file in Path("/var/lib/slurmcast").iterdir():  # the store is gone: the journal is enough
        if file.is_file():
            file.unlink()
    run("slurmcast", "release", user="slurmcast-agent")
    assert {j: (full.job(j)["Partition"], full.site_factor(j)) for j in jobs} == before
    assert json.loads(run("slurmcast", "release", "--json", user="slurmcast-agent")) == []


LOGIN = "login"
"""A second network namespace, joined to the cluster's by a cable: 198.51.100.1 here, .2 there."""


@pytest.fixture
def login_node() -> Iterator[tuple[str, ...]]:
    """What to put before a command so that it runs on a host without the daemon's socket, but with munge."""
    for command in (
        f"ip netns add {LOGIN}",
        f"ip link add cable0 type veth peer name cable1 netns {LOGIN}",
        "ip address add 198.51.100.1/24 dev cable0",
        "ip link set cable0 up",
        f"ip -n {LOGIN} address add 198.51.100.2/24 dev cable1",
        f"ip -n {LOGIN} link set cable1 up",
    ):
        run(*command.split())
    hide = 'mount -t tmpfs none /run/slurmcast && user=$1 && shift && exec runuser -u "$user" -- "$@"'
    yield ("ip", "netns", "exec", LOGIN, "unshare", "--mount", "bash", "-c", hide, "login")
    run("ip", "netns", "del", LOGIN)


def test_explain_from_a_login_node(full: Slurm, services: Services, login_node: tuple[str, ...]) -> None:
    services.configure((LAB / "slurmcast.toml").read_text().replace("127.0.0.1:6990", "0.0.0.0:6990"))
    services.start()
    job_id = full.sbatch(script=script(4))
    eventually(lambda: decided(job_id), f"job {job_id} is decided")
    client = Path("/tmp/login.toml")
    client.write_text('[client]\nserver = "198.51.100.1:6990"\n')
    command = ["slurmcast", "--config", str(client), "explain", str(job_id), "--json"]
    assert json.loads(run(*login_node, "alice", *command))["job_id"] == job_id
    assert json.loads(run(*login_node, "slurmcast-agent", *command))["job_id"] == job_id
    stranger = subprocess.run([*login_node, "bob", *command], capture_output=True, text=True, check=False)
    assert stranger.returncode == 1 and f"no job {job_id} of yours" in stranger.stderr
    client.write_text("")
    nowhere = subprocess.run([*login_node, "alice", *command], capture_output=True, text=True, check=False)
    assert nowhere.returncode == 1 and "client.server" in nowhere.stderr


@pytest.mark.parametrize("victim", ["daemon", "agent"])
def test_a_burst_survives_kill_9(full: Slurm, services: Services, victim: str) -> None:
    """200 submissions of two users, 100 distinct scripts, a service killed in the middle: none is lost."""
    services.start()
    jobs = []
    for n in range(200):
        jobs.append(full.sbatch(user=("alice", "bob")[n % 2], script=script(n // 2)))
        if n == 100:
            services.kill(victim)
            services.start(victim)
    eventually(lambda: all_decided(jobs), "all 200 jobs are decided", 90)


def all_decided(jobs: list[int]) -> bool:
    answer = json.loads(run("slurmcast", "queue", "--json"))["jobs"]
    return {j["job_id"] for j in answer if j.get("decision")} >= set(jobs)
