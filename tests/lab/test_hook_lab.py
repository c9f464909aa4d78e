"""The hook inside a real slurmctld. Neither daemon nor agent runs: what the hook leaves in the spool stays there."""

from __future__ import annotations

import pwd
import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.lab.conftest import Services, Slurm, eventually, run
from tests.unit.hook_harness import read_spool_file

pytestmark = pytest.mark.lab

SPOOL = Path("/run/slurmcast/spool")
ETC = Path("/etc/slurm")
LOG = Path("/var/log/slurm/slurmctld.log")
DOCS = Path(__file__).parents[2] / "docs" / "hook.md"
GRACE = 8
FREE, BOUND, NOTHING = "forwarded, grace", "forwarded", "nothing"


@pytest.fixture
def hook(slurm: Slurm, services: Services) -> Slurm:
    """The lab's Slurm with the hook under a fresh lease."""
    services.lease(f"on {int(time.time()) + 600} {GRACE}\n")
    return slurm


@pytest.fixture(autouse=True)
def no_complaint() -> Iterator[None]:
    """Fails where slurmctld's Lua plugin, or the hook about itself, complained in the log."""
    before = LOG.stat().st_size
    yield
    with LOG.open("rb") as log:
        log.seek(before)
        new = log.read().decode(errors="replace")
    assert not re.search(r"unrecognized field|error: .*job_submit/lua|slurmcast: .*lua:", new), new


@pytest.fixture
def site() -> Iterator[Path]:
    """The folder of slurmctld's scripts, put back as it was afterwards."""
    scripts = {path: path.read_bytes() for path in ETC.glob("*.lua")}
    yield ETC
    for path, content in scripts.items():
        path.write_bytes(content)
    reload()


def reload() -> None:
    """Make slurmctld load its script again, in a process of its own, as it does when it starts."""
    run("scontrol", "reconfigure")
    eventually(lambda: "is UP" in run("scontrol", "ping", check=False), "slurmctld is up again")


def spooled() -> list[dict[str, bytes]]:
    return [read_spool_file(path.read_bytes()) for path in sorted(SPOOL.glob("*.job"))]


def grace_of(job: dict[str, str]) -> float:
    submitted, eligible = (datetime.fromisoformat(job[f"{name}Time"]) for name in ("Submit", "Eligible"))
    return (eligible - submitted).total_seconds()


def fate(slurm: Slurm, job_id: int) -> str:
    files = spooled()
    assert not list(SPOOL.glob(".*")), "half a file is left"
    if not files:
        return NOTHING
    begin = files[0].get("begin_time")
    if begin is None:
        return BOUND
    job = slurm.job(job_id)
    assert GRACE - 1 <= grace_of(job) <= GRACE
    assert int(begin) == datetime.fromisoformat(job["EligibleTime"]).timestamp()
    return FREE


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--gres=gpu:1", FREE),
        ("--gpus=2", FREE),
        ("--gpus-per-node=1", FREE),
        ("--gpus-per-task=1 -n2", FREE),
        ("--gpus-per-socket=1 --sockets-per-node=1", FREE),
        ("--tres-per-task=cpu:2,gres/gpu:1 -n1", FREE),
        ("-n2 --ntasks-per-gpu=1", FREE),
        ("--gres=gpu:1 -p a100,a6000", FREE),
        ("--gres=gpu:1 -a 1-4%2", FREE),
        ("--gres=gpu:1 --comment=slurmcast:offline", FREE),
        ("--gres=gpu:1 -p a100 --comment=x;slurmcast:move", FREE),
        ("--gpus=a100:1", BOUND),
        ("--gres=gpu:1 -p a100", BOUND),
        ("--gres=gpu:1 --begin=now+1hour", BOUND),
        ("--gres=gpu:1 -w a100-1", BOUND),
        ("--gres=gpu:1 --hold", BOUND),
        ("--gres=gpu:1 --dependency=singleton", BOUND),
        ("--gres=gpu:1 : --gres=gpu:1", BOUND),
        ("--gres=gpu:1 --comment=x,slurmcast:off", NOTHING),
        ("--gres=gpu:0", NOTHING),
        ("-n2", NOTHING),
    ],
)
def test_kinds_of_jobs(hook: Slurm, options: str, expected: str) -> None:
    assert fate(hook, hook.sbatch(*options.split())) == expected


@pytest.mark.parametrize("command", ["srun", "salloc"])
def test_interactive_jobs_are_left_alone(hook: Slurm, command: str) -> None:
    run(command, "--gres=gpu:1", "true", user="alice")
    assert spooled() == []


def test_every_field_arrives(hook: Slurm) -> None:
    script = b"#!/bin/bash\n#SBATCH --gres=gpu:1 -t 5 --mem-per-cpu=100\n# caf\xe9\nsleep 1\n"
    path = Path("/home/alice/a script.sh")
    path.write_bytes(script)
    hook.sbatch(str(path), "--epochs", "10", "a b", EPOCHS="7", TOKEN="secret")
    (fields,) = spooled()
    assert fields["script"] == script
    assert int(fields["script_size"]) == len(script)
    assert int(fields["uid"]) == pwd.getpwnam("alice").pw_uid
    assert abs(int(fields["submit_time"]) - time.time()) < 10
    assert fields["argv"] == b"/home/alice/a script.sh\0--epochs\x0010\0a b\0"
    assert fields["environment"] == b"EPOCHS=7\0"
    assert fields["work_dir"] == b"/home/alice"
    assert fields["name"] == b"a script.sh"
    assert {name: value for name, value in fields.items() if name.startswith("request.")} == {
        "request.tres_per_node": b"gres/gpu:1",
        "request.min_cpus": b"1",
        "request.min_mem_per_cpu": b"100",
        "request.time_limit": b"5",
    }


def test_the_owner_is_the_job_s_user(hook: Slurm) -> None:
    hook.sbatch("--gres=gpu:1", "--uid=alice", user="root")
    assert int(spooled()[0]["uid"]) == pwd.getpwnam("alice").pw_uid


def test_a_long_script_is_cut(hook: Slurm) -> None:
    script = b"#!/bin/bash\n" + b"true 0123456789\n" * 200_000
    hook.sbatch("--gres=gpu:1", script=script)
    (fields,) = spooled()
    assert fields["script"] == script[: 256 * 1024]
    assert int(fields["script_size"]) == len(script)


@pytest.mark.parametrize(
    ("lease", "expected"), [("on -60", BOUND), ("on -3700", NOTHING), ("shadow 60", BOUND), ("off 60", NOTHING)]
)
def test_leases(hook: Slurm, services: Services, lease: str, expected: str) -> None:
    mode, seconds = lease.split()
    services.lease(f"{mode} {int(time.time()) + int(seconds)} {GRACE}\n")
    assert fate(hook, hook.sbatch("--gres=gpu:1")) == expected


def test_an_update_is_not_forwarded(hook: Slurm) -> None:
    job_id = hook.sbatch("--gres=gpu:1")
    run("scontrol", "update", f"jobid={job_id}", "comment=changed")
    assert hook.job(job_id)["Comment"] == "changed"
    assert len(spooled()) == 1


def test_a_full_spool_costs_the_grace_only(hook: Slurm) -> None:
    filler = SPOOL / "filler"
    with pytest.raises(OSError, match="No space left"), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 1048576)
    job_id = hook.sbatch("--gres=gpu:1")
    assert grace_of(hook.job(job_id)) == 0
    assert list(SPOOL.iterdir()) == [filler]
    assert "slurmcast: /run/slurmcast/spool: No space left on device" in LOG.read_text(errors="replace")


@pytest.mark.parametrize("fragment", [None, "return", "nonsense("])
def test_slurmctld_starts_without_a_usable_fragment(hook: Slurm, site: Path, fragment: str | None) -> None:
    path = site / "slurmcast.lua"
    path.unlink() if fragment is None else path.write_text(fragment)
    reload()
    assert fate(hook, hook.sbatch("--gres=gpu:1")) == NOTHING


def test_the_documented_lines_in_a_site_s_own_script(hook: Slurm, site: Path) -> None:
    """docs/hook.md shows a site's script with settings; here it is run as it stands."""
    (script,) = re.findall(r"^```lua\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    (site / "job_submit.lua").write_text(script)
    reload()
    hook.sbatch("--gres=gpu:1", "--qos=normal")
    hook.sbatch("--gres=gpu:1")
    run("sacctmgr", "-i", "modify", "user", "alice", "set", "defaultqos=normal")
    hook.sbatch("--gres=gpu:1")
    run("sacctmgr", "-i", "modify", "user", "alice", "set", "defaultqos=-1")
    assert ["begin_time" in fields for fields in spooled()] == [False, True, False]
