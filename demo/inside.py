"""What the demo does inside a lab: prepare the cluster, run the history, run one arm. Started by ``demo/run``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from demo import meter, workload
from demo.workload import DemoJob

LAB = Path(os.environ.get("LAB_DIR", ""))
STANDIN = Path("/opt/standin")
STATE = (Path("/var/lib/slurmcast"), Path("/var/lib/slurmcast-agent"))
NAMES = ("python", "python3", "torchrun", "accelerate", "deepspeed")
FINISHED = ("COMPLETED", "TIMEOUT", "FAILED", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY")
GIVE_UP_S = 240.0
"""Real seconds that the history or an arm may take."""


def prepare(works: dict[str, workload.Work]) -> None:
    """Install the stand-ins, and the jobs in the users' home folders."""
    STANDIN.mkdir(parents=True)
    shutil.copy(workload.HERE / "standin" / "standin.py", STANDIN)
    (STANDIN / "work.json").write_text(workload.standin_table(works))
    for name in NAMES:
        program = Path("/usr/local/bin") / name  # of the lab's own root
        program.write_text(f'#!/bin/sh\nexec {os.path.realpath(sys.executable)} -I -S {STANDIN}/standin.py "$@"\n')
        program.chmod(0o755)
    meter.FOLDER.mkdir(parents=True, exist_ok=True)
    meter.FOLDER.chmod(0o1777)  # the stand-ins write here, as the users
    for user in workload.USERS:
        shutil.copytree(workload.HERE / "jobs", f"/home/{user}/jobs")
        subprocess.run(["chown", "-R", f"{user}:", f"/home/{user}/jobs"], check=True)
        Path(f"/home/{user}").chmod(0o755)


def submit(job: DemoJob, works: dict[str, workload.Work], partition: str | None) -> int:
    """Type ``sbatch`` as the job's user does; the job id."""
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": f"/home/{job.user}",
        "USER": job.user,
        **{name: os.environ[name] for name in os.environ if name.startswith(("FAKETIME", "LD_PRELOAD"))},
        **job.environment,
    }
    options = ["--parsable", "-o", "/dev/null", "-J", job.name, "-t", str(job.time_limit_min)]
    if partition is not None:
        options += ["-p", partition]
    command = ["/usr/bin/sbatch", *options, works[job.work]["script"], *job.arguments]
    done = subprocess.run(
        ["/usr/sbin/runuser", "-u", job.user, "--", *command],
        env=environment,
        cwd=f"/home/{job.user}/jobs/{job.work}",
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"sbatch of {job.work} failed: {done.stderr.strip()}")
    return int(done.stdout.split(";")[0])


def slurmcast(action: str, *names: str) -> None:
    subprocess.run(["bash", str(LAB / "slurmcast.sh"), action, *names], check=True)


def await_all(what: str, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Wait until the queue is empty, ``GIVE_UP_S`` real seconds at most, and do something again and again."""
    end = _real() + GIVE_UP_S
    while subprocess.run(["squeue", "-h", "-o", "%i"], capture_output=True, text=True, check=True).stdout.strip():
        if _real() > end:
            left = subprocess.run(["squeue"], capture_output=True, text=True, check=False).stdout
            raise SystemExit(f"{what}: not finished after {GIVE_UP_S:g} s\n{left}\n{_logs()}")
        meanwhile()
        time.sleep(60)  # emulated


def _real() -> float:
    """The kernel's clock, whatever the lab's is."""
    return float(Path("/proc/uptime").read_text().split()[0])


def _logs() -> str:
    logs = [Path("/var/log/slurm/slurmctld.log"), *Path("/var/log/slurmcast").glob("*.log")]
    return "\n".join(f"== {log}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-15:]) for log in logs)


@dataclass(frozen=True)
class Run:
    """One job of an arm, as sacct has it; energy as the stand-ins left it, None where a node is missing."""

    job_id: int
    work: str
    partition: str
    submit: int
    start: int
    end: int
    state: str
    gpus: int
    energy_kwh: float | None


def account(jobs: dict[int, DemoJob], works: dict[str, workload.Work]) -> list[Run]:
    """The arm's jobs from Slurm's accounting."""
    fields = "jobid,partition,submit,start,end,state"
    text = subprocess.run(
        ["sacct", "-X", "-n", "-P", "-a", "-S", "now-30days", "-o", fields],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "SLURM_TIME_FORMAT": "%s"},
    ).stdout
    runs = []
    for line in text.splitlines():
        job_id, partition, submitted, start, end, state = line.split("|")
        if not job_id.isdigit() or int(job_id) not in jobs:
            continue
        job = jobs[int(job_id)]
        nodes, gpus = int(works[job.work].get("nodes", 1)), int(works[job.work]["gpus"])
        records = [json.loads(path.read_text()) for path in meter.FOLDER.glob(f"{job_id}-*.json")]
        energy = sum(r["energy_j"] for r in records) / 3.6e6 if len(records) == nodes else None
        times = (int(submitted), int(start), int(end))
        runs.append(Run(int(job_id), job.work, partition, *times, state.split()[0], gpus, energy))
    return runs


def run_history(seed: int, out: Path) -> None:
    """Phase 1: the history runs, slurmcast watches in shadow mode, a probe is trained; its state goes to ``out``."""
    works = workload.load_works()
    prepare(works)
    slurmcast("start")
    while not Path("/run/slurmcast/lease").exists():
        time.sleep(5)
    jobs = workload.history(works, seed)
    for job in jobs:
        submit(job, works, job.partition)
    energy = meter.StandInMeter()
    await_all("history", energy.hand_in)
    time.sleep(200)  # the agent's next look at accounting
    energy.hand_in()
    slurmcast("stop")
    done = subprocess.run(
        ["runuser", "-u", "slurmcast", "--", sys.executable, "-m", "slurmcast.cli", "train", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"training failed: {done.stderr.strip()}\n{_logs()}")
    trained = json.loads(done.stdout)
    if not trained["promoted"]:
        raise SystemExit(f"the model was not put to use: {trained['reason']}")
    (out / "train.json").write_text(done.stdout)
    shutil.copytree(STATE[0], out / "state", ignore=shutil.ignore_patterns("rejected", "lock"), symlinks=True)
    print(f"  {len(jobs)} runs of {len({job.work for job in jobs})} works", flush=True)


def run_arm(arm: str, seed: int, history: Path, out: Path) -> None:
    """Phase 2: the list of new jobs on one arm; its runs go to ``out``/ARM.json."""
    works = workload.load_works()
    prepare(works)
    if arm == "slurmcast":
        shutil.copytree(history / "state", STATE[0], dirs_exist_ok=True, symlinks=True)
        subprocess.run(["chown", "-R", "slurmcast:", str(STATE[0])], check=True)
        slurmcast("start")
        while not Path("/run/slurmcast/lease").exists():
            time.sleep(5)
    spec = json.loads(os.environ["DEMO_NEW_JOBS"])
    planned = workload.new_jobs(works, seed, **spec)
    partition = {"default": None, "listed": ",".join(workload.PARTITIONS), "slurmcast": None}[arm]
    began = time.time()
    jobs: dict[int, DemoJob] = {}
    hand_in = meter.StandInMeter().hand_in if arm == "slurmcast" else lambda: None
    explained = None
    for n, job in enumerate(planned):
        time.sleep(max(began + job.at_s - time.time(), 0))
        jobs[submit(job, works, partition)] = job
        hand_in()
        if arm == "slurmcast" and explained is None and n > len(planned) // 2:
            explained = explain_waiting()
    await_all(f"arm {arm}", hand_in)
    time.sleep(10)  # slurmdbd writes in batches
    runs = account(jobs, works)
    result = {"runs": [run.__dict__ for run in runs], "jobs": len(planned), "explain": explained}
    (out / f"{arm}.json").write_text(json.dumps(result))
    if arm == "slurmcast":
        shutil.copytree("/var/log/slurmcast", out / "log", dirs_exist_ok=True)
        slurmcast("stop")


def explain_waiting() -> str | None:
    """What ``slurmcast explain`` says of a waiting job that was moved, or of any waiting one; None where none waits."""
    answer = subprocess.run(["slurmcast", "queue", "--json"], capture_output=True, text=True, check=False).stdout
    waiting = [job for job in json.loads(answer or '{"jobs": []}')["jobs"] if job["decision"]]
    waiting.sort(key=lambda job: job["partition"] == workload.DEFAULT)
    if not waiting:
        return None
    command = ["runuser", "-u", waiting[0]["user"], "--", "env", "COLUMNS=120", "slurmcast", "explain"]
    shown = subprocess.run([*command, str(waiting[0]["job_id"])], capture_output=True, text=True, check=False)
    return shown.stdout if shown.returncode == 0 else None


def main() -> None:
    kind, seed, history, out = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])
    if kind == "history":
        run_history(seed, out)
    else:
        run_arm(kind, seed, history, out)


if __name__ == "__main__":
    main()
