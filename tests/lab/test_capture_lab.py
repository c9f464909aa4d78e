"""Source capture on a real Slurm: sbatch's own process hands over what a job starts, out of a home that is closed."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import LAB, Services, Slurm, eventually, run
from tests.lab.test_end_to_end import login_node  # noqa: F401  (a fixture)

pytestmark = pytest.mark.lab

HOME = Path("/home/alice/project")
COMMAND = Path("/usr/bin/slurmcast")
ETC = Path("/etc/slurm")
ALICE = pwd.getpwnam("alice").pw_uid if "SLURMCAST_LAB" in os.environ else 0
QUEUE = Path(f"/tmp/slurmcast-capture-{ALICE}")
"""What a process in the background leaves: the sign that one was started."""
SCRIPT = "#!/bin/bash\n#SBATCH --gres=gpu:1 -t 30\npython train.py --lr 3\n"


@pytest.fixture
def project(slurm: Slurm) -> Iterator[Slurm]:
    """A cluster whose jobs wait, and alice's programs in a home that nobody else may enter."""
    HOME.mkdir()
    (HOME / "job.sh").write_text(SCRIPT)
    (HOME / "train.py").write_text("import model\nEPOCHS = 77\n")
    (HOME / "model.py").write_text("BATCH_SIZE = 8\n")
    run("chown", "-R", "alice:", str(HOME))
    HOME.parent.chmod(0o700)
    shutil.rmtree(QUEUE, ignore_errors=True)
    yield slurm
    slurm.cancel_all()
    eventually(lambda: not captures(), "what runs in the background has ended", 90)
    shutil.rmtree(QUEUE, ignore_errors=True)
    shutil.rmtree(HOME)
    HOME.parent.chmod(0o755)


@pytest.fixture
def site() -> Iterator[None]:
    """Puts Slurm's scripts and the command back as they were."""
    scripts = {path: path.read_bytes() for path in ETC.glob("*.lua")}
    target = COMMAND.readlink()
    yield
    for path, content in scripts.items():
        path.write_bytes(content)
    COMMAND.unlink(missing_ok=True)
    COMMAND.symlink_to(target)


def captures() -> list[str]:
    """What runs in the background for alice because of her submissions."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if folder.stat().st_uid == ALICE and str(COMMAND) in words:
                found.append(words)
    return found


def sbatch(*options: str, stdin: str = "", **env: str) -> int:
    """Submit from the project's folder; the job id, which is all that sbatch says."""
    command = ["sbatch", "--parsable", "--hold", "-o", "/dev/null", "-D", str(HOME), *options]
    done = subprocess.run(
        ["runuser", "-u", "alice", "--", *command],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "HOME": "/home/alice", **env},
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return int(done.stdout)


def explain(job_id: int) -> dict[str, Any]:
    done = subprocess.run(["slurmcast", "explain", str(job_id), "--json"], capture_output=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def read_with_sources(job_id: int) -> dict[str, Any] | None:
    answer = explain(job_id)
    return answer if answer.get("made_from") == "script and sources" else None


@pytest.mark.parametrize(
    ("options", "stdin"),
    [
        ([str(HOME / "job.sh")], ""),
        ([], SCRIPT),
        (["--gres=gpu:1", "--wrap", "python train.py --lr 3"], ""),
        (["--array=1-4%2", str(HOME / "job.sh")], ""),
    ],
    ids=["file", "stdin", "wrap", "array"],
)
def test_out_of_a_closed_home(project: Slurm, services: Services, options: list[str], stdin: str) -> None:
    services.start()
    job_id = sbatch(*options, stdin=stdin)
    answer = eventually(lambda: read_with_sources(job_id), "the estimate is made from the sources too")
    assert answer["sources"] == [str(HOME / "train.py"), str(HOME / "model.py")]
    assert (answer["numbers"]["epochs"], answer["numbers"]["batch_size"]) == (77, 8)
    assert {estimate["partition"] for estimate in answer["estimates"]} == {"a100", "a6000"}
    shown = run("slurmcast", "explain", str(job_id), user="alice")
    assert "Made from: script and sources (train.py, model.py)" in shown


def test_a_loop_of_submissions(project: Slurm, services: Services) -> None:
    services.start()
    jobs = [sbatch("-J", f"job{n}", str(HOME / "job.sh")) for n in range(30)]
    others = [sbatch("-J", f"other{n}", str(HOME / "job.sh"), SLURMCAST_CAPTURE="0") for n in range(3)]
    assert len([words for words in captures() if words.startswith("timeout")]) <= 1
    eventually(lambda: all(read_with_sources(job_id) for job_id in jobs), "all of them have their sources", 60)
    assert {explain(job_id)["made_from"] for job_id in others} == {"script only"}


def test_off_by_one_variable(project: Slurm, services: Services) -> None:
    services.start()
    job_id = sbatch(str(HOME / "job.sh"), SLURMCAST_CAPTURE="0")
    assert eventually(lambda: explain(job_id).get("estimates"), "it is estimated")
    assert explain(job_id)["made_from"] == "script only"
    assert not QUEUE.exists() and captures() == []
    assert "Made from: script only" in run("slurmcast", "explain", str(job_id), user="alice")


def test_only_batch_jobs_with_gpus(project: Slurm, services: Services) -> None:
    services.start()
    assert run("srun", "--gres=gpu:1", "echo", "hello", user="alice") == "hello\n"
    assert run("salloc", "-Q", "--gres=gpu:1", "echo", "hello", user="alice") == "hello\n"
    sbatch("--wrap", "python train.py")
    sbatch("--gres=gpu:1", "--comment=slurmcast:off", "--wrap", "python train.py")
    assert not QUEUE.exists() and captures() == []


@pytest.mark.parametrize(
    "command", [None, "#!/bin/sh\necho noise; echo noise >&2; exit 3", "\x7fELF", "#!/nowhere", "#!/bin/sh\nsleep 3600"]
)
def test_a_broken_command_is_nobody_s_trouble(project: Slurm, site: None, command: str | None) -> None:
    COMMAND.unlink()
    if command is not None:
        COMMAND.write_text(command)
        COMMAND.chmod(0o755)
    sbatch(str(HOME / "job.sh"))  # its pipes are closed, though what it started may run on
    if command is not None and "sleep" in command:
        kill = ["pkill", "-u", "alice", "sleep"]
        eventually(lambda: subprocess.run(kill, check=False).returncode == 0, "the command hangs")
    eventually(lambda: not captures(), "nothing is left")


@pytest.mark.parametrize("fragment", [None, "", "nonsense("])
def test_a_broken_fragment_is_nobody_s_trouble(project: Slurm, site: None, fragment: str | None) -> None:
    path = ETC / "slurmcast_capture.lua"
    path.unlink() if fragment is None else path.write_text(fragment)
    sbatch(str(HOME / "job.sh"))
    assert run("srun", "echo", "hello", user="alice") == "hello\n"
    assert not QUEUE.exists()


def test_without_a_daemon_nothing_happens(project: Slurm, services: Services) -> None:
    sbatch(str(HOME / "job.sh"))
    eventually(QUEUE.exists, "the command is started")
    eventually(lambda: not captures(), "it has ended")


def test_from_a_login_node(project: Slurm, services: Services, login_node: tuple[str, ...]) -> None:  # noqa: F811
    text = (LAB / "slurmcast.toml").read_text()
    services.configure(text.replace("127.0.0.1:6990", "0.0.0.0:6990"))
    services.start()
    job_id = sbatch(str(HOME / "job.sh"), SLURMCAST_CAPTURE="0")
    client = Path("/tmp/login.toml")
    client.write_text('[client]\nserver = "198.51.100.1:6990"\n')
    command = ["slurmcast", "--config", str(client), "capture"]
    taken = [f"{job_id}: {HOME / name}" for name in ("train.py", "model.py")]
    assert run(*login_node, "bob", *command, str(job_id)) == ""
    assert run(*login_node, "alice", *command, str(job_id)).splitlines() == taken
    eventually(lambda: read_with_sources(job_id), "the estimate is made from the sources too")


def test_predict_says_the_same_as_explain(project: Slurm, services: Services) -> None:
    services.start()
    job_id = sbatch(str(HOME / "job.sh"))
    explained = eventually(lambda: read_with_sources(job_id), "the estimate is made from the sources too")
    predicted = json.loads(run("bash", "-c", f"cd {HOME} && slurmcast predict job.sh --json", user="alice"))
    assert predicted["made_from"] == "script and sources"
    assert predicted["sources"] == explained["sources"]
    assert [e["time_s"] for e in predicted["estimates"]] == [e["time_s"] for e in explained["estimates"]]
