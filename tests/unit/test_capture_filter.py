"""The cli_filter under plain Lua interpreters: for which jobs it starts the command, and how that then runs."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.unit.hook_harness import literal

FILTER = Path(__file__).parents[2] / "slurm" / "cli_filter"
DOCS = Path(__file__).parents[2] / "docs" / "capture.md"
# What sbatch 26.05 shows of a job that asks for nothing: options that weren't given are nil.
BARE = {"type": "sbatch", "ntasks-per-gpu": "-2", "argv": ("/home/alice/train.sh",), "chdir": "/home/alice"}
GPU = {**BARE, "gres": "gres/gpu:1"}

NONE: Mapping[str, Any] = MappingProxyType({})

DRIVER = """
slurm = { SUCCESS = 0 }
local before, run = {}, os.execute
for name in pairs(_G) do before[name] = true end
local capture = assert(loadfile(FRAGMENT))()
capture.command, capture.seconds = COMMAND, SECONDS
local executed = 0
os.execute = function(...) executed = executed + 1 return run(...) end
PRELUDE(capture)
for n = 1, TIMES do
  assert(select("#", capture.pre_submit(OPTIONS, 0)) == 0)
  assert(select("#", capture.post_submit(0, FIRST + n - 1, 0)) == 0)
end
for name in pairs(_G) do assert(before[name], "a global: " .. tostring(name)) end
io.write(executed)
"""


@dataclass
class Filter:
    """Runs the fragment in a fresh interpreter; the command that it starts is a script of the test's."""

    lua: str
    folder: Path
    seconds: int = 120

    @property
    def command(self) -> Path:
        return self.folder / "it's slurmcast"

    def install(self, script: str) -> None:
        self.command.write_text(
            f"#!/bin/bash\nexec > /dev/null 2>> '{self.folder}/errors'\ncd '{self.folder}'\n{script}\n"
        )
        self.command.chmod(0o755)

    def program(self, options: Any = GPU, times: int = 1, first: int = 7, prelude: str = "") -> list[str]:
        """What submits so many jobs, with ids from ``first`` up."""
        values = {
            "FRAGMENT": str(FILTER / "slurmcast_capture.lua"),
            "COMMAND": str(self.command),
            "SECONDS": self.seconds,
            "TIMES": times,
            "FIRST": first,
            "OPTIONS": options,
        }
        assignments = "".join(f"{name} = {literal(value)}\n" for name, value in values.items())
        return [self.lua, "-e", f"{assignments}PRELUDE = function(capture) {prelude} end\n{DRIVER}"]

    def __call__(self, options: Any = GPU, *, env: Mapping[str, str] = NONE, run: Any = NONE, **submit: Any) -> int:
        """Submit; how many programs were executed."""
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(self.folder), **env}
        program = self.program(options, **submit)
        done = subprocess.run(program, capture_output=True, timeout=60, check=False, env=environment, **run)
        assert done.returncode == 0 and not done.stderr, done.stderr.decode(errors="replace")
        return int(done.stdout)

    def lines(self, name: str = "done") -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def running(self) -> list[str]:
        """What runs in the background because of the filter, and hasn't ended yet."""
        words = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if _readable(path))
        return [text.decode() for text in words if str(self.command).encode() in text]


def _readable(path: Path) -> bool:
    try:
        return bool(path.read_bytes())
    except OSError:
        return False


@pytest.fixture
def cli_filter(lua: str, tmp_path: Path) -> Filter:
    return Filter(lua, tmp_path)


def until(check: Callable[[], Any]) -> Any:
    end = time.monotonic() + 30
    while not (answer := check()):
        assert time.monotonic() < end, "not within 30 s"
        time.sleep(0.02)
    return answer


@pytest.mark.parametrize(
    ("options", "started"),
    [
        ({"gres": "gres/gpu:1"}, 1),
        ({"gres": "gres/gpu:a100:2,gres/fs:1"}, 1),
        ({"gpus": "2"}, 1),
        ({"gpus-per-node": "a100:1"}, 1),
        ({"gpus-per-socket": "1"}, 1),
        ({"gpus-per-task": "1"}, 1),
        ({"ntasks-per-gpu": "1"}, 1),
        ({"tres-per-task": "cpu:2,gres/gpu:1"}, 1),
        ({"gpus": "1", "comment": "slurmcast:offline"}, 1),
        ({}, 0),
        ({"gres": "gres/fs:1"}, 0),
        ({"tres-per-task": "cpu:2"}, 0),
        ({"gpus": "1", "comment": "x,slurmcast:off"}, 0),
        ({"gpus": "1", "type": "srun"}, 0),
        ({"gpus": "1", "type": "salloc"}, 0),
        ({"gpus": "1", "type": "scrontab"}, 0),
    ],
)
def test_which_jobs(cli_filter: Filter, options: dict[str, str], started: int) -> None:
    cli_filter.install("echo >> done")
    assert cli_filter({**BARE, **options}) == started
    if started:
        until(cli_filter.lines)


def test_settings_and_the_variable(cli_filter: Filter) -> None:
    cli_filter.install("")
    assert cli_filter(BARE, prelude="capture.gpu_jobs_only = false") == 1
    assert cli_filter(GPU, env={"SLURMCAST_CAPTURE": "0"}) == 0
    assert cli_filter(GPU, env={"SLURMCAST_CAPTURE": "1"}) == 1


def test_nothing_is_executed_where_slurmcast_is_not_installed(cli_filter: Filter) -> None:
    assert cli_filter() == 0


@pytest.mark.parametrize(
    ("options", "prelude"),
    [
        (None, ""),
        ({**GPU, "gres": 7}, ""),
        ({**GPU, "comment": {"a": 1}}, ""),
        (GPU, "OPTIONS = setmetatable({}, { __index = function() error('no such option') end })"),
        (GPU, "os.execute = function() error('no shell') end"),
        (GPU, "os.execute = nil"),
        (GPU, "io.open = nil"),
        (GPU, "capture.command = nil"),
        (GPU, "capture.seconds = 'x'"),
    ],
)
def test_whatever_goes_wrong_stays_inside(cli_filter: Filter, options: Any, prelude: str) -> None:
    cli_filter.install("")
    cli_filter(options, prelude=prelude)


def test_a_heterogeneous_job_is_one(cli_filter: Filter) -> None:
    cli_filter.install("")
    more = "capture.pre_submit(OPTIONS, 0) capture.pre_submit(OPTIONS, 1) capture.post_submit(0, 8, 0)"
    assert cli_filter(BARE, prelude=f"OPTIONS.gpus = '1' {more} capture.post_submit(1, 8, 0) OPTIONS.gpus = nil") == 1


PROBE = """
{
  echo "words $*"
  read -r _ _ _ session terminal _ <<< "$(sed 's/.*) //' /proc/$$/stat)"
  echo "session $session"
  echo "terminal $terminal"
  echo "nice $(nice)"
  echo "umask $(umask)"
  for fd in /proc/$PPID/fd/*; do echo "fd ${fd##*/} $(readlink "$fd")"; done
  env | grep -E '^(PATH|HOME|PYTHONPATH|BASH_ENV|LD_LIBRARY_PATH|SECRET)=' | sort
} > draft
mv draft done
"""


def test_how_the_command_runs(cli_filter: Filter) -> None:
    cli_filter.install(PROBE)
    reading, writing = os.pipe()
    os.dup2(writing, 77)  # as bash's {name}>&1 leaves one
    spoiled = {"PYTHONPATH": "/nowhere", "BASH_ENV": "/nowhere", "LD_LIBRARY_PATH": "/nowhere", "SECRET": "x"}
    cli_filter(env=spoiled, run={"pass_fds": (writing, 77)})
    os.close(writing)
    os.close(77)
    lines = until(cli_filter.lines)
    until(lambda: not cli_filter.running())
    os.set_blocking(reading, False)
    assert os.read(reading, 1) == b""  # nobody has it open for writing any more
    os.close(reading)
    assert [line for line in lines if line.startswith("fd ")] == [f"fd {n} /dev/null" for n in range(3)]
    facts = dict(line.split(" ", 1) for line in lines if not line.startswith(("fd ", "PATH")))
    session = int(facts.pop("session"))
    assert session != os.getsid(0)
    nice = min(os.getpriority(os.PRIO_PROCESS, 0) + 10, 19)
    assert facts == {"words": "capture 7", "terminal": "0", "nice": str(nice), "umask": "0077"}
    assert lines[-1] == "PATH=/usr/bin:/bin"
    assert not cli_filter.lines("errors")


def test_the_terminal_may_go_with_sbatch(cli_filter: Filter) -> None:
    """``ssh -t host sbatch job.sh``: whatever still belongs to the terminal's session is hung up."""
    cli_filter.install("echo $* >> done")
    for job_id in range(7, 17):
        child, terminal = os.forkpty()
        if child == 0:
            program = cli_filter.program(first=job_id)
            os.execve(program[0], program, {"XDG_RUNTIME_DIR": str(cli_filter.folder)})
        os.waitpid(child, 0)
        os.close(terminal)
    until(lambda: sum(len(line.split()) - 1 for line in cli_filter.lines()) == 10)
    until(lambda: not cli_filter.running())


@pytest.fixture
def nobody(cli_filter: Filter) -> Iterator[dict[str, Any]]:
    """How to run as a user without a folder of his own, for whom there is /tmp."""
    for folder in [cli_filter.folder, *cli_filter.folder.parents]:
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    cli_filter.folder.chmod(0o777)
    user = pwd.getpwnam("nobody")
    yield {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": ()}
    queue = Path(f"/tmp/slurmcast-capture-{user.pw_uid}")
    if queue.is_symlink():
        queue.unlink()
    else:
        shutil.rmtree(queue, ignore_errors=True)


def test_without_a_folder_of_the_users_own_the_queue_lies_in_tmp(cli_filter: Filter, nobody: dict[str, Any]) -> None:
    cli_filter.install("echo $* >> done")
    cli_filter(run=nobody)
    assert until(cli_filter.lines) == ["capture 7"]
    until(lambda: not cli_filter.running())
    queue = Path(f"/tmp/slurmcast-capture-{nobody['user']}")
    assert stat.S_IMODE(queue.stat().st_mode) == 0o700
    assert sorted(path.name for path in queue.iterdir()) == ["next", "turn"]


def test_what_somebody_else_put_there_is_left_alone(cli_filter: Filter, nobody: dict[str, Any]) -> None:
    """A link in /tmp to a folder of the user's own must not lead to his files; another's folder isn't used."""
    cli_filter.install("echo $* >> done")
    precious = cli_filter.folder / "precious"
    precious.mkdir()
    (precious / "7").write_text("data")
    (precious / "2024-results").write_text("data")
    for path in (precious, *precious.iterdir()):
        os.chown(path, nobody["user"], nobody["group"])
    queue = Path(f"/tmp/slurmcast-capture-{nobody['user']}")
    queue.symlink_to(precious)
    cli_filter(run=nobody)
    until(lambda: not cli_filter.running())
    assert {path.name: path.read_text() for path in precious.iterdir()} == {"7": "data", "2024-results": "data"}
    queue.unlink()
    queue.mkdir(mode=0o777)
    queue.chmod(0o777)
    cli_filter(run=nobody)
    until(lambda: not cli_filter.running())
    assert list(queue.iterdir()) == [] and not cli_filter.lines()


QUEUED = """
[ ! -e busy ] || echo two at a time >> errors
touch busy
shift
printf '%s\\n' "$@" >> begun
while [ ! -e go ]; do sleep 0.05; done
rm busy
echo >> done
"""


def test_a_loop_of_submissions_is_one_process_at_a_time(cli_filter: Filter) -> None:
    """What comes while one is at work is the next one's, all of it at once."""
    cli_filter.install(QUEUED)
    assert cli_filter(times=20) == 20
    until(lambda: cli_filter.lines("begun"))
    assert cli_filter(times=20, first=100) == 20
    queue = cli_filter.folder / f"slurmcast-capture-{os.geteuid()}"
    until(lambda: len(cli_filter.lines("begun")) + len(list(queue.glob("[0-9]*"))) == 40)
    (cli_filter.folder / "go").touch()
    until(lambda: not cli_filter.running())
    assert sorted(map(int, cli_filter.lines("begun"))) == [*range(7, 27), *range(100, 120)]
    assert not cli_filter.lines("errors")
    assert len(cli_filter.lines()) <= 3


def test_a_command_that_hangs_is_ended(cli_filter: Filter) -> None:
    cli_filter.install("trap '' HUP; echo >> done; sleep 600")
    cli_filter.seconds = 1
    cli_filter()
    until(cli_filter.lines)
    until(lambda: not cli_filter.running())


@pytest.mark.parametrize("documented", [False, True])
def test_the_site_s_script(lua: str, tmp_path: Path, documented: bool) -> None:
    """Ours and the one that docs/capture.md shows: they return SUCCESS whether or not the fragment is there."""
    text = (FILTER / "cli_filter.lua").read_text()
    if documented:
        (text,) = re.findall(r"^```lua\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    fragment = tmp_path / "slurmcast_capture.lua"
    assert text.count("/etc/slurm/slurmcast_capture.lua") == 1
    script = tmp_path / "cli_filter.lua"
    script.write_text(text.replace("/etc/slurm", str(tmp_path)))
    calls = "io.write(slurm_cli_setup_defaults({}, false), slurm_cli_pre_submit({}, 0), slurm_cli_post_submit(0, 7, 0))"
    for content in (None, "return", "nonsense(", "return { pre_submit = error }", (FILTER / fragment.name).read_text()):
        if content is not None:
            fragment.write_text(content)
        code = f"slurm = {{ SUCCESS = 0 }} dofile('{script}') {calls}"
        done = subprocess.run([lua, "-e", code], capture_output=True, text=True, timeout=30, check=False)
        assert (done.stdout.replace(".0", ""), done.stderr, done.returncode) == ("000", "", 0)
