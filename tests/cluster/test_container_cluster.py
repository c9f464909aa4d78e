"""slurmcast on a cluster of containers: a user's view from the login container, and what dies comes back."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cluster.conftest import Login, compose, eventually, manage

KEY = "/etc/munge/munge.key"
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]


def test_the_overlay_fits_on_slurm_docker_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Docker Compose makes of it beside a file in another folder, with nothing set but where slurmcast is."""
    files = os.environ["COMPOSE_FILE"].split(":")[:2]
    for name in ("COMPOSE_FILE", "SLURM_VERSION", "SLURM_UID", "SLURMCAST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("SLURM_IMAGE")
    base = tmp_path / "docker-compose.yml"
    base.write_text(Path(files[0]).read_text().replace("${SLURM_IMAGE}", "slurm-docker-cluster:25.11.4"))
    forgotten = compose("-f", str(base), "-f", files[1], "config", "--quiet")
    assert forgotten.returncode != 0 and "set SLURMCAST to the folder of slurmcast" in forgotten.stderr
    monkeypatch.setenv("SLURMCAST", "/srv/slurmcast")
    done = compose("-f", str(base), "-f", files[1], "config", "--format", "json")
    assert done.returncode == 0, done.stderr
    services, volumes = (json.loads(done.stdout)[part] for part in ("services", "volumes"))
    for name, target in (("slurmctld", "node"), ("slurmcastd", "service"), ("login", "login")):
        build = services[name]["build"]
        assert (build["context"], build["target"]) == ("/srv/slurmcast", target)
        assert build["args"] == {"SLURM_IMAGE": "slurm-docker-cluster:25.11.4"}
        assert services[name]["image"] == f"slurmcast-{target}:25.11.4"
    assert services["slurmctld"]["depends_on"].keys() == {"slurmdbd", "slurmcast-setup"}
    assert "uid=990," in volumes["slurmcast_spool"]["driver_opts"]["o"]


@pytest.mark.parametrize("service", ["munge", "slurmcastd", "slurmcast-agent", "login"])
def test_services_of_the_overlay_run_without_root(service: str) -> None:
    status = compose("exec", "-T", service, "cat", "/proc/1/status").stdout
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert facts["Uid"].split()[0] != "0"
    assert int(facts["CapEff"], 16) == int(facts["CapBnd"], 16) == 0 and facts["NoNewPrivs"] == "1"
    assert "Read-only" in compose("exec", "-T", service, "touch", "/etc/new").stderr


@pytest.mark.parametrize("path", ["/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged", KEY])
def test_the_login_container_has_neither_daemons_nor_the_key(path: str) -> None:
    assert compose("exec", "-T", "slurmctld", "test", "-e", path).returncode == 0
    assert compose("exec", "-T", "login", "test", "-e", path).returncode == 1


def test_doctor_finds_nothing_wrong(login: Login) -> None:
    done = compose("exec", "-T", "slurmcast-agent", "slurmcast", "doctor")
    assert done.returncode == 0 and "FAIL" not in done.stdout, done.stdout


def test_a_demo_job_is_explained(login: Login) -> None:
    shown = login.run("first-job", "vit-cifar")
    job_id = int(shown.split()[3])
    login.reaches(job_id, "COMPLETED", 60)
    assert "start" in login.run("cat", f"/data/alice/{job_id}.out")


def test_a_job_is_moved_where_there_is_room(login: Login) -> None:
    login.fill("a100")
    job_id = login.sbatch()
    answer = eventually(lambda: login.decided(job_id), f"job {job_id} is decided", 20)
    assert {verdict["may"] for verdict in answer["eligibility"]} == {"move"}
    login.reaches(job_id, "RUNNING", 20)
    assert login.partition(job_id) == answer["decision"]["partition"] == "a6000"


def test_others_jobs_are_refused_as_if_they_did_not_exist(login: Login) -> None:
    job_id = login.sbatch("--hold")
    eventually(lambda: login.attempt("slurmcast", "explain", str(job_id)).returncode == 0, "alice sees her job", 20)
    strangers = login.attempt("slurmcast", "explain", str(job_id), user="bob")
    nobodys = login.attempt("slurmcast", "explain", "999999", user="bob")
    assert strangers.returncode == nobodys.returncode == 1
    assert strangers.stderr == nobodys.stderr.replace("999999", str(job_id))
    assert str(job_id) not in login.run("slurmcast", "queue", "--json", user="bob")


def test_a_killed_controller_loses_nothing(login: Login) -> None:
    fillers = login.fill("a100") + login.fill("a6000")
    waiting = [login.sbatch("-J", f"waiting-{seconds}", seconds=seconds) for seconds in (1, 2)]
    for job_id in waiting:
        eventually(lambda job_id=job_id: login.decided(job_id), f"job {job_id} is decided", 20)
    eventually(lambda: saved("waiting-1") and saved("waiting-2"), "slurmctld has saved its state", 20)
    manage("kill", "slurmctld")
    assert login.decided(waiting[0]), "explain needs no slurmctld"
    manage("start", "slurmctld")
    eventually(lambda: {login.state(job_id) for job_id in waiting} == {"PENDING"}, "the queue is back", 60)
    assert {login.state(job_id) for job_id in fillers} == {"RUNNING"}
    compose("exec", "-T", "slurmctld", "scancel", *map(str, fillers))
    late = login.sbatch(seconds=1)
    eventually(lambda: login.decided(late), f"job {late} is decided: the hook and the agent are back", 60)
    for job_id in (*waiting, late):
        login.reaches(job_id, "COMPLETED", 60)


def saved(name: str) -> bool:
    """Whether slurmctld has the job of that name on disk, which it writes some seconds after it told sbatch."""
    return compose("exec", "-T", "slurmctld", "grep", "-q", name, "/var/lib/slurm/job_state").returncode == 0


def test_a_job_on_a_killed_worker_runs_again(login: Login) -> None:
    job_id = login.sbatch("-p", "a6000", seconds=8)
    login.reaches(job_id, "RUNNING", 30)
    manage("kill", "a6000-1")
    login.reaches(job_id, "PENDING", 90)
    manage("start", "a6000-1")
    login.reaches(job_id, "COMPLETED", 90)


def lease() -> str:
    return compose("exec", "-T", "slurmctld", "cat", "/run/slurmcast/lease").stdout


def test_jobs_start_without_the_agent(login: Login) -> None:
    manage("stop", "slurmcast-agent")
    assert lease().startswith("off ")
    job_id = login.sbatch(seconds=1)
    login.reaches(job_id, "COMPLETED", 40)
    manage("start", "slurmcast-agent")
    eventually(lambda: lease().startswith("on "), "the agent is back", 30)
    late = login.sbatch(seconds=1)
    eventually(lambda: login.decided(late), f"job {late} is decided", 30)


def test_a_killed_daemon_loses_no_submission(login: Login) -> None:
    login.fill("a100")
    login.fill("a6000")
    manage("kill", "slurmcastd")
    job_id = login.sbatch(seconds=1)
    manage("start", "slurmcastd")
    eventually(lambda: login.decided(job_id), f"job {job_id} is decided", 60)
