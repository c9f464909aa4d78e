"""``slurmcast label`` as alice on the real Slurm: what is run, how often, within which budget, and after a kill."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slurmcast.client import Client
from slurmcast.codec import to_json
from slurmcast.config import load
from slurmcast.label.slurm import MARK
from slurmcast.meter.record import Ending, EnergyRecord, GpuUse, Method
from tests.lab.conftest import Services, Slurm, eventually, run

pytestmark = pytest.mark.lab

PARTITIONS = ("a100", "a6000")
NOISY = """#!/bin/bash
#SBATCH --gpus=1 -t 2
n=$(cat runs-$SLURM_JOB_PARTITION 2> /dev/null || echo 0)
echo $((n + 1)) > runs-$SLURM_JOB_PARTITION
[ $n = 0 ] && sleep 8 || sleep 2
"""


def marked() -> dict[str, int]:
    """All of alice's job arrays that Slurm knows, by the mark of their batch; one that is there twice fails."""
    text = run("sacct", "-X", "-n", "-P", "-S", "now-1hours", "-u", "alice", "-o", "JobID,SubmitLine")
    text += run("squeue", "-h", "-u", "alice", "-t", "all", "-o", "%F|%k")
    found: dict[str, set[int]] = {}
    for line in text.splitlines():
        job_id, _, words = line.partition("|")
        if MARK in words:
            found.setdefault(words.split(MARK)[1][:12], set()).add(int(job_id.split("_")[0]))
    assert all(len(ids) == 1 for ids in found.values()), found
    return {mark: ids.pop() for mark, ids in found.items()}


@dataclass
class Desk:
    """Alice's folder of scripts, and the command in it."""

    folder: Path
    before: set[str]
    """The marks of earlier tests."""

    def arrays(self) -> dict[str, int]:
        """This test's job arrays by their marks."""
        return {mark: job_id for mark, job_id in marked().items() if mark not in self.before}

    def script(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        os.chown(self.folder / name, self.folder.stat().st_uid, self.folder.stat().st_gid)

    def plain(self, name: str, seconds: float, request: str = "--gpus=1", minutes: int = 2) -> None:
        self.script(name, f"#!/bin/bash\n#SBATCH {request} -t {minutes}\nsleep {seconds}\n")

    def start(self, *options: str, path: str = "", scripts: str = ".") -> subprocess.Popen[str]:
        """The command under way, in a session of its own."""
        environment = {**os.environ, "HOME": "/home/alice", "PATH": f"{path}:{os.environ['PATH']}"}
        return subprocess.Popen(
            ["setpriv", "--reuid=alice", "--regid=alice", "--init-groups", "slurmcast", "label", scripts, *options],
            cwd=self.folder, env=environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def label(self, *options: str, fails: int | None = None, scripts: str = ".") -> tuple[dict[str, Any], str]:
        """The command's JSON (empty where it has none) and what it said."""
        call = self.start(*options, "--json", scripts=scripts)
        out, err = call.communicate(timeout=150)
        assert fails is None or call.returncode == fails, err
        return json.loads(out) if out else {}, err

    def batches(self) -> dict[str, int]:
        """The job arrays that the command has written down, by their marks; 0 for one of which it hasn't heard."""
        path = self.folder / "slurmcast-label.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return {line["batch"]["id"]: line["batch"]["job_id"] for line in lines if "batch" in line}

    def unanswered(self) -> bool:
        return 0 in self.batches().values()


@pytest.fixture
def desk() -> Iterator[Desk]:
    folder = Path("/home/alice/label")
    run("mkdir", str(folder), user="alice")
    yield Desk(folder, set(marked()))
    shutil.rmtree(folder)


def cells(answer: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(Path(cell["script"]).name, cell["partition"]): cell for cell in answer["cells"]}


def measured(job_id: int, start_time: int, partition: str, gpus: int) -> EnergyRecord:
    """What a node's meter would report: 100 W on each GPU."""
    used = tuple(GpuUse(f"GPU-{n}", 400.0, Method.SAMPLED, 0, 4, 0, 100.0, None, None, None) for n in range(gpus))
    node = run("sacct", "-X", "-n", "-P", "-j", str(job_id), "-o", "NodeList").split()[0]
    return EnergyRecord("lab", job_id, start_time, node, 1, start_time, start_time + 4, Ending.EPILOG, gpus, "", used)


def test_scripts_become_labels(desk: Desk, slurm: Slurm, services: Services) -> None:
    services.configure()
    services.config.write_text(services.config.read_text() + '\n[meter]\nnodes = ["a100-*", "a6000-*"]\n')
    services.start()
    desk.plain("typed.sh", 4, "--gres=gpu:a100:2 --comment=mine,slurmcast:off")
    desk.script("noisy.sh", NOISY)
    desk.script("fails.sh", "#!/bin/bash\n#SBATCH --gpus=1 -t 2\necho no data\nexit 3\n")
    desk.plain("cpu.sh", 1, "--cpus-per-task=1")
    desk.plain("large.sh", 1, "--gres=gpu:3")
    desk.script("list", "typed.sh\nnoisy.sh\nfails.sh\ncpu.sh\nlarge.sh\ntyped.sh\n")
    answer, said = desk.label("--gpu-hours", "5", fails=1, scripts="list")
    found = cells(answer)
    for partition in PARTITIONS:
        typed, noisy, fails = (found[f"{name}.sh", partition] for name in ("typed", "noisy", "fails"))
        assert (typed["stage"], typed["accepted"], typed["resolved"]) == ("done", True, False)
        assert [one["gpus"] for one in typed["runs"]] == [2, 2]
        assert (noisy["stage"], noisy["accepted"], len(noisy["runs"])) == ("done", True, 3)
        assert noisy["time_s"] < 5
        assert (fails["stage"], fails["reason"], fails["runs"]) == ("failed", "exit code 3", [])
        log = next((desk.folder / "slurmcast-label.logs").glob(f"fails.sh-{fails['failed_run']['array']}_*.out"))
        assert log.read_text() == "no data\n"
    assert found["large.sh", "a100"]["stage"] == "failed"
    assert "not available" in found["large.sh", "a100"]["reason"]
    assert found["large.sh", "a6000"]["stage"] == "done"
    assert {(Path(one["script"]).name, one["reason"].partition(" as ")[0]) for one in answer["left_out"]} == {
        ("cpu.sh", "it asks for no GPUs"),
        ("typed.sh", "it is the same work"),
    }
    assert "fails.sh on a100: job" in said and "exit code 3:0" in said
    assert 0 < answer["spent"]["gpu_hours"] < 0.1
    # Not moved, GPUs of the right type, no other user's job beside it.
    lines = run(
        "sacct", "-X", "-n", "-P", "-S", "now-1hours", "-u", "alice", "-o", "JobName,Partition,AllocTRES,Comment"
    )
    typed = [line for line in lines.splitlines() if line.startswith("typed.sh|")]
    assert len(typed) == 4 and all("gres/gpu:" + line.split("|")[1] + "=2" in line for line in typed)
    assert all("mine," in line and "slurmcast:off" not in line for line in typed)
    assert all(
        "--exclusive=user" in one
        for one in run("sacct", "-X", "-n", "-P", "-o", "SubmitLine").splitlines()
        if MARK in one
    )

    def labels() -> list[tuple[str, int]]:
        with sqlite3.connect("file:/var/lib/slurmcast/store.db?mode=ro", uri=True) as db:
            return list(
                db.execute(
                    "SELECT submission.key, outcome.job_id FROM outcome JOIN job ON job.job_id = submitted_id "
                    "JOIN submission ON submission.id = job.submission "
                    "WHERE state = 'COMPLETED' AND submission.name = 'typed.sh'"
                )
            )

    eventually(lambda: len(labels()) == 4, "each run is a label", 30)
    counted = [(one, partition) for partition in PARTITIONS for one in found["typed.sh", partition]["runs"]]
    assert {job for _, job in labels()} == {one["job_id"] for one, _ in counted}
    records = [measured(one["job_id"], one["start"], partition, 2) for one, partition in counted]
    Client(load()).request("POST", "/v1/energy", {"records": to_json(records)})
    before = desk.arrays()
    answer, _ = desk.label("--yes", fails=1, scripts="list")
    assert desk.arrays() == before, "nothing was left to run"
    typed = cells(answer)["typed.sh", "a100"]
    assert all(one["is_label"] for one in typed["runs"])
    assert typed["energy_kwh"] == pytest.approx(800 / 3.6e6)
    # What failed is tried again only when asked for; a changed script is another work.
    desk.script("fails.sh", "#!/bin/bash\n#SBATCH --gpus=1 -t 2\nsleep 1\n")
    desk.script("list", "fails.sh\n")
    answer, _ = desk.label("--yes", fails=0, scripts="list")
    assert {cell["stage"] for cell in answer["cells"]} == {"done"}
    assert len(desk.arrays()) == len(before) + 2


def test_killed_again_and_again_it_submits_nothing_twice(desk: Desk, slurm: Slurm) -> None:
    for name in ("a", "b", "c"):
        desk.plain(f"{name}.sh", 1 + ord(name) / 1000)
    desk.script("noisy.sh", NOISY)
    # An sbatch that answers late is killed in the middle most of the time, and lives on.
    slow = desk.folder / "slow"
    slow.mkdir()
    (slow / "sbatch").write_text('#!/bin/bash\n/usr/bin/sbatch "$@"; code=$?; sleep 0.7; exit $code\n')
    (slow / "sbatch").chmod(0o755)
    heard = []
    for middle in (True, True, False, True, False, True):
        call = desk.start("--yes", path=str(slow))
        if middle:
            eventually(desk.unanswered, "a job array is written down, and sbatch under way")
        else:
            time.sleep(3)
        call.kill()
        heard.append(call.communicate()[1])
    answer, said = desk.label("--yes", fails=0)
    assert "found again as job array" in "".join([*heard, said])
    known = desk.batches()
    assert desk.arrays() == known
    assert {key: len(cell["runs"]) for key, cell in cells(answer).items()} == {
        (f"{name}.sh", partition): count
        for name, count in {"a": 2, "b": 2, "c": 2, "noisy": 3}.items()
        for partition in PARTITIONS
    }
    tasks = run("sacct", "-X", "-n", "-P", "-S", "now-1hours", "-j", ",".join(map(str, known.values())), "-o", "JobID")
    assert len(set(tasks.split())) == 2 * (2 + 2 + 2 + 3)


def test_the_budget(desk: Desk, slurm: Slurm) -> None:
    desk.plain("a.sh", 1, "--gpus=1", minutes=3)
    desk.plain("b.sh", 1.1, "--gpus=2", minutes=30)
    assert "give a budget" in desk.label(fails=2)[1]
    said = desk.label("--yes", "--partition", "nope", fails=2)[1]
    assert "Slurm has no partition nope that you may see; it has " in said
    _, said = desk.label("--gpu-hours", "0.05", fails=1)
    assert "not enough" in said and "0.1 GPU h" in said
    assert not desk.arrays()
    # Two runs of three minutes on each partition fit; of the runs of half an hour not even two.
    answer, _ = desk.label("--gpu-hours", "0.21", fails=1)
    stages = Counter((Path(cell["script"]).name, cell["stage"]) for cell in answer["cells"])
    assert stages == {("a.sh", "done"): 2, ("b.sh", "beyond the budget"): 2}
    assert len(desk.arrays()) == 2
    assert answer["spent"]["gpu_hours"] <= 0.21
    # A budget of energy is kept by the GPUs' highest power for two hours of a GPU: 310 W on A100s, 300 W on A6000s.
    answer, _ = desk.label("--kwh", "0.605", fails=1)
    assert cells(answer)["b.sh", "a6000"]["stage"] == "done"
    assert cells(answer)["b.sh", "a100"]["stage"] == "beyond the budget"


def test_a_full_cluster_an_interrupt_and_a_cancelled_run(desk: Desk, slurm: Slurm) -> None:
    for partition in PARTITIONS:
        slurm.fill(partition)
    for name in ("a", "b", "c"):
        desk.plain(f"{name}.sh", 1 + ord(name) / 1000)
    call = desk.start("--yes", "--in-flight", "3", "--nice=50")
    eventually(lambda: len(desk.arrays()) == 1, "one array waits")
    time.sleep(3)
    (array,) = desk.arrays().values()
    assert slurm.job(array)["Nice"] == "50"
    call.send_signal(signal.SIGINT)
    _, err = call.communicate(timeout=30)
    assert call.returncode == 1 and "2 runs stay in Slurm" in err and "same command again" in err
    call = desk.start("--yes", "--in-flight", "6", "--on-interrupt=cancel")
    eventually(lambda: len(desk.arrays()) == 3, "three arrays wait")
    run("scancel", f"{array}_0")
    call.send_signal(signal.SIGTERM)
    _, err = call.communicate(timeout=30)
    assert "runs cancelled" in err
    eventually(lambda: not run("squeue", "-h", "-u", "alice").strip(), "nothing is left in the queue")
    slurm.cancel_all()
    answer, _ = desk.label("--yes", fails=0)
    assert {cell["stage"] for cell in answer["cells"]} == {"done"}
    assert len(desk.arrays()) == 9


def test_a_node_that_fails_isnt_the_scripts_fault(desk: Desk, slurm: Slurm) -> None:
    desk.plain("a.sh", 6)
    call = desk.start("--yes", "--json", "-p", "a100")
    node = eventually(
        lambda: run("squeue", "-h", "-u", "alice", "-t", "R", "-o", "%N").strip(), "the first run is there"
    )
    run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    run("scontrol", "update", f"nodename={node}", "state=resume")
    out, err = call.communicate(timeout=120)
    assert call.returncode == 0, err
    assert "NODE_FAIL, which doesn't count" in err
    (cell,) = json.loads(out)["cells"]
    assert len(cell["runs"]) == 2 and cell["accepted"]


def test_where_partitions_give_whole_nodes_all_their_gpus_are_planned_for(desk: Desk, slurm: Slurm) -> None:
    desk.plain("a.sh", 1, minutes=3)
    run("scontrol", "update", "partitionname=a6000", "oversubscribe=exclusive")
    try:
        assert "can cost 0.4 GPU h" in desk.label("--gpu-hours", "0.39", "-p", "a6000", fails=1, scripts="a.sh")[1]
        answer, _ = desk.label("--gpu-hours", "0.4", "-p", "a6000", fails=0, scripts="a.sh")
    finally:
        run("scontrol", "update", "partitionname=a6000", "oversubscribe=no")
    assert [one["gpus"] for one in answer["cells"][0]["runs"]] == [4, 4]
