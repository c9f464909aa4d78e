"""The import from a real slurmdbd: what its records, scripts and environments become."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import Services, Slurm, eventually, run

pytestmark = pytest.mark.lab

STORE = Path("/var/lib/slurmcast/store.db")
RUNNER = ("runuser", "-u", "slurmcast-agent", "--")
PLAIN = "#!/bin/bash\n#SBATCH --gres=gpu:1\n:\n"
FULL = """#!/bin/bash
#SBATCH -p a100 --gpus=2 -N 2 -t 0:30:00 --array=0-1
#SBATCH --cpus-per-task=2 --mem=4G --constraint="a100" --comment="some words"
:
"""
NONE = "#!/bin/bash\n:\n"
FORGED = PLAIN + "Batch Script for {}\n" + "-" * 80 + "\n#!/bin/bash\nnot this job's\n"


def bring(*words: str) -> dict[str, Any]:
    """``slurmcast import`` of all that has ended so far, for the newest runs are else the agent's."""
    until = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 60))
    answer: dict[str, Any] = json.loads(
        run("slurmcast", "import", "--json", "--until", until, *words, user="slurmcast-agent")
    )
    return answer


def rows(query: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(f"file:{STORE}?mode=ro", uri=True) as store:
        return store.execute(query).fetchall()


def all_ended() -> None:
    eventually(lambda: not run("squeue", "-h", "-o", "%i").split(), "all jobs have ended", timeout=90)
    time.sleep(1)  # until slurmdbd has heard of it


@pytest.mark.usefixtures("slurm")
def test_past_and_new_submissions_of_the_same_work_have_the_same_key(services: Services, tmp_path: Path) -> None:
    services.start("daemon")
    services.lease(f"shadow {int(time.time()) + 600} 0\n")  # no agent, so that no job is matched with its submission
    for name, text in (("plain", PLAIN), ("full", FULL), ("none", NONE)):
        (tmp_path / name).write_text(text)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    began = int(time.time())
    cases: dict[str, tuple[str, ...]] = {
        "plain": ("plain",),
        "arguments": ("plain", "--epochs", "3"),
        "all in the script": ("full", "x"),
        "line over script": ("-t", "10", "--gpus=1", "-N", "1", "full"),
        "gpus": ("--gpus=1", "none"),
        "per node, typed": ("--gpus-per-node=a100:2", "-n", "2", "none"),
        "per task": ("--gpus-per-task=1", "-n2", "--ntasks-per-node=2", "none"),
        "tasks per gpu": ("--ntasks-per-gpu=2", "--gpus=1", "none"),
        "a range of nodes": ("-N", "1-2", "--gres=gpu:a100:1", "--mem-per-cpu=100", "-c", "3", "none"),
        "array": ("--array=0,2%1", "--gres=gpu:1", "none"),
        "features": ("--gres=gpu:1", "-C", "a100|a6000", "none"),
        "blanks": ("--gpus=1", "--comment", "with two blanks", "none", "a"),
        "days": ("--gpus=1", "-t", "1-2", "none"),
        "partitions": ("--gpus=1", "-p", "a100,a6000", "none"),
        "exclusive": ("--gpus=1", "--exclusive", "-n1", "none"),
        "wrap": ("--gpus=1", "-t", "1:00", "--wrap", "true --epochs 5"),
    }
    for name, words in cases.items():
        last = [str(tmp_path / word) if word in ("plain", "full", "none") else word for word in words]
        options = ["sbatch", "-Q", "-o", "/dev/null", "-J", name, *last]
        run(*options, user="alice", EPOCHS="7", SECRET="x")
    all_ended()
    eventually(lambda: len(rows("SELECT 1 FROM submission")) == len(cases), "the hook's submissions are in the store")
    bring("--since", time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(began)))
    query = "SELECT name, key || text_key || named, submission FROM submission WHERE (spool_name IS NULL) = {}"
    hook = {name: (facts, json.loads(text)["request"]) for name, facts, text in rows(query.format(0))}
    past = {name: (facts, json.loads(text)["request"]) for name, facts, text in rows(query.format(1))}
    assert past.keys() == hook.keys() == cases.keys()
    different = {name: (hook[name][1], past[name][1]) for name in cases if hook[name][0] != past[name][0]}
    assert different == {}
    assert {json.loads(text)["environment"].get("EPOCHS") for (text,) in rows("SELECT submission FROM submission")} == {
        "7"
    }


def contents() -> list[tuple[Any, ...]]:
    """What an import leaves, but for the numbers that SQLite gave."""
    joined = "job LEFT JOIN submission ON submission.id = job.submission"
    links = rows(f"SELECT job_id, job.submit_time, job.uid, user, key, text_key FROM {joined} ORDER BY 1, 2")
    return links + rows("SELECT * FROM outcome ORDER BY job_id, start_time")


def test_a_past_is_learned_from_and_a_killed_import_goes_on(slurm: Slurm, services: Services) -> None:
    began = time.strftime("%Y-%m-%dT%H:%M:%S")
    work = [slurm.sbatch("-J", f"work{n}", script=f"{PLAIN}true --epochs {n}\n") for n in range(20)]
    array = slurm.sbatch("--array=0-2", script=PLAIN)
    failed = slurm.sbatch(script=PLAIN + "exit 3\n")
    requeued = slurm.sbatch("--requeue", script=PLAIN + "sleep 30\n")
    interactive = int(run("srun", "--gpus=1", "printenv", "SLURM_JOB_ID", user="bob"))
    forger = slurm.sbatch(script=FORGED.format(interactive))
    latin = slurm.sbatch("-J", "caf\udce9", script=PLAIN.encode() + b"# caf\xe9\n")
    several = slurm.sbatch("--gpus=1", "--wrap", "true", ":", "--gpus=1", script="")
    without = int(run("sbatch", "--parsable", "-o", "/dev/null", "--wrap", "true", user="alice"))
    eventually(lambda: slurm.job(requeued)["JobState"] == "RUNNING", "the job that is to be requeued runs")
    run("scontrol", "requeue", str(requeued))
    eventually(lambda: slurm.job(requeued)["JobState"] == "PENDING", "it waits again")
    run("scancel", str(requeued))
    all_ended()

    services.start("daemon")
    bring("--since", began)
    states: dict[int, list[str]] = {}
    for job_id, state in rows("SELECT submitted_id, state FROM outcome ORDER BY start_time"):
        states.setdefault(job_id, []).append(state)
    assert states == {
        **{job_id: ["COMPLETED"] for job_id in work},
        array: ["COMPLETED"] * 3,
        failed: ["FAILED"],
        requeued: ["REQUEUED"],  # what was cancelled while it waited never ran
        interactive: ["COMPLETED"],
        forger: ["FAILED"],
        latin: ["COMPLETED"],
        several: ["COMPLETED"],
        several + 1: ["COMPLETED"],
    }
    assert without not in states
    scripts = {job_id for (job_id,) in rows("SELECT job_id FROM job WHERE submission IS NOT NULL")}
    assert scripts == {*work, array, failed, requeued, forger, latin}
    eventually(lambda: rows("SELECT count(*) FROM unencoded") == [(0,)], "all scripts are encoded", timeout=60)
    answer = json.loads(run("slurmcast", "train", "--json", user="slurmcast"))
    assert answer["examples"] == len(work) + 3 + 1  # with the array and the one that is no UTF-8
    whole = contents()

    services.clean()
    services.start("daemon")
    command = [*RUNNER, sys.executable, "-m", "slurmcast.cli", "import", "--since", began, "--until"]
    for pause_s in (0.3, 0.5, 0.7, 0.9, 1.1):
        importing = subprocess.Popen([*command, time.strftime("%Y-%m-%dT%H:%M:%S")], stderr=subprocess.DEVNULL)
        time.sleep(pause_s)
        subprocess.run(["pkill", "-KILL", "-P", str(importing.pid)], check=False)
        importing.wait()
    services.kill("daemon")
    services.start("daemon")
    bring("--since", began)
    assert contents() == whole


def test_only_the_agents_user_imports(services: Services) -> None:
    services.start("daemon")
    refused = subprocess.run(["slurmcast", "import"], capture_output=True, text=True, check=False)
    assert (refused.returncode, "runuser -u slurmcast-agent" in refused.stderr) == (1, True)
    services.kill("daemon")
    alone = subprocess.run([*RUNNER, "slurmcast", "import"], capture_output=True, text=True, check=False)
    assert (alone.returncode, "slurmcastd doesn't run here" in alone.stderr) == (1, True)


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_one_that_is_stopped_says_how_far_it_came(services: Services, stop: signal.Signals) -> None:
    services.start("daemon")
    began = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - 3600))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)  # its user is another one
        slow = Path(folder) / "sacct"
        slow.write_text('#!/bin/sh\ntouch "$0.began"; sleep 1; exec /usr/bin/sacct "$@"\n')
        slow.chmod(0o755)
        path = f"PATH={folder}:{os.environ['PATH']}"
        # Whoever starts the tests in the background may have them ignore SIGINT, and with them all that they start.
        heeding = ["env", "--default-signal=INT", path]
        words = [*RUNNER, *heeding, sys.executable, "-m", "slurmcast.cli", "import", "--restart", "--since", began]
        importing = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        eventually(slow.with_name("sacct.began").exists, "sacct is at work")
        subprocess.run(["pkill", f"-{stop.name[3:]}", "-P", str(importing.pid)], check=True)
        _, said = importing.communicate(timeout=30)
    told = f"Error: stopped at {began.replace('T', ' ')}; what is stored stays, the next import goes on from there"
    assert (importing.returncode, said.splitlines()[-1]) == (1, told)


def test_a_slurmdbd_that_is_away_is_told(services: Services) -> None:
    services.start("daemon")
    (pid,) = run("pgrep", "-x", "slurmdbd").split()
    try:
        run("kill", f"-{signal.SIGKILL.value}", pid)
        away = subprocess.run([*RUNNER, "slurmcast", "import"], capture_output=True, text=True, check=False)
        assert away.returncode == 1
        assert "the next import goes on from there" in away.stderr
        assert len(away.stderr.strip().splitlines()) <= 3
    finally:
        run("runuser", "-u", "slurm", "--", "slurmdbd")
        eventually(lambda: run("sacctmgr", "-n", "show", "cluster", check=False), "slurmdbd is back")
