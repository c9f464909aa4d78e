"""The hook's work is bounded; whatever fails, the submission goes on, waits for nothing and leaves nothing behind."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurmcast.daemon import spool as daemon_spool
from tests.unit.hook_harness import GPU, HOOK, Hook, literal, read_spool_file


@pytest.mark.parametrize("size", [256 * 1024 - 1, 256 * 1024, 256 * 1024 + 1, 4_000_000])
def test_long_scripts_are_cut(hook: Hook, size: int) -> None:
    script = (b"#!/bin/bash\n" + b"echo 0123456789\n" * 250_000)[:size]
    fields = hook(script=script).fields
    assert fields["script"] == script[: 256 * 1024]
    assert int(fields["script_size"]) == size


def test_everything_else_is_bounded_too(hook: Hook) -> None:
    job = {
        **GPU,
        "argv": ["/x/t.sh", *(f"{n:01000}" for n in range(200))],
        "comment": "c" * 1_000_000,
        "environment": {"EPOCHS": "3", "MODEL": "m" * 1_000_000},
        "work_dir": "w" * 1_000_000,
    }
    result = hook(job, b"x" * 4_000_000)
    assert result.files[0].stat().st_size < 512 * 1024 < daemon_spool.MAX_FILE
    argv = result.fields["argv"].split(b"\0")
    assert argv == [b"/x/t.sh", *(b"%01000d" % n for n in range(32)), b""]
    assert result.fields["environment"] == b"EPOCHS=3\0"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    script=st.binary(min_size=1, max_size=2000),
    name=st.binary(max_size=30),
    argv=st.lists(st.binary(max_size=20).filter(lambda word: b"\0" not in word), max_size=5),
)
def test_any_bytes_arrive(hook: Hook, script: bytes, name: bytes, argv: list[bytes]) -> None:
    result = hook({**GPU, "name": name, "argv": argv}, script)
    fields = result.fields
    result.files[0].unlink()
    assert (fields["script"], fields["name"]) == (script, name)
    assert fields["argv"] == b"".join(word + b"\0" for word in argv)


NUMBERED = """
local n = 0
JOB.name = nil
setmetatable(JOB, { __index = function(_, key) if key == "name" then n = n + 1; return tostring(n) end end })
"""


def test_names_are_unique_and_in_order(hook: Hook) -> None:
    """Two controllers in the same second: nothing is overwritten, and each one's files sort as they were submitted."""
    first = hook(times=150, prelude=NUMBERED).files
    assert [read_spool_file(path.read_bytes())["name"] for path in first] == [b"%d" % n for n in range(1, 151)]
    both = hook(times=150, prelude=NUMBERED).files
    assert len(both) == 300
    assert all(path.suffix == ".job" and not path.name.startswith(".") for path in both)


def test_no_file_stays_open(hook: Hook) -> None:
    result = hook(times=50, prelude='collectgarbage("stop")')
    assert (len(result.files), result.log) == (50, [])


@pytest.fixture
def small_spool(hook: Hook) -> Iterator[Callable[[str], Hook]]:
    """Mounts a tmpfs with the given options as the spool. Needs root, as the lab does."""

    def mount(options: str) -> Hook:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "small", hook.spool], check=True)
        return hook

    yield mount
    subprocess.run(["umount", hook.spool], check=True)


@pytest.mark.parametrize("size", [100, 100_000])
def test_full_spool(small_spool: Callable[[str], Hook], size: int) -> None:
    """The short file fails only when it is closed, the long one in the middle of writing."""
    hook = small_spool("size=64k")
    filler = hook.spool / "filler.job"
    filler.write_bytes(b"x" * 65536 if size == 100 else b"x" * 32768)
    result = hook(script=b"x" * size)
    assert (result.begin_time, result.files) == (0, [filler])
    assert "No space left" in result.log[0]


def test_no_inodes_left(small_spool: Callable[[str], Hook]) -> None:
    result = small_spool("nr_inodes=1")()
    assert (result.begin_time, result.files) == (0, [])
    assert "No space left" in result.log[0]


def test_read_only_spool(small_spool: Callable[[str], Hook]) -> None:
    result = small_spool("ro")()
    assert (result.begin_time, result.files) == (0, [])
    assert "Read-only" in result.log[0]


NO_RANDOM = """
local open = io.open
io.open = function(path, mode)
  if path == "/dev/urandom" then return nil, "no /dev/urandom" end
  return open(path, mode)
end
"""


def test_no_random_names_no_file(hook: Hook) -> None:
    result = hook(prelude=NO_RANDOM)
    assert (result.begin_time, result.files, result.log) == (0, [], ["slurmcast: no /dev/urandom"])


def test_failing_rename_leaves_nothing(hook: Hook) -> None:
    result = hook(prelude='os.rename = function() return nil, "x" end')
    assert (result.begin_time, result.files) == (0, [])
    assert result.log


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.write_text("")])
def test_no_spool_folder(hook: Hook, make: Callable[[Path], object]) -> None:
    hook.spool.rmdir()
    make(hook.spool)
    result = hook(times=50)
    assert result.begin_time == 0
    assert len(result.log) == 1, "the same trouble fills slurmctld's log"


@pytest.mark.parametrize(
    "prelude",
    [
        "JOB = nil",
        "JOB = setmetatable({}, { __index = function() error('no') end })",
        "JOB = setmetatable({}, { __index = function() error() end })",
        "JOB = setmetatable({}, { __index = function() return {} end })",
        "io = nil",
        "os = nil",
        "slurm = nil; JOB = nil",
        "slurm.log_info = nil; JOB = nil",
        "os.rename = function() error({}) end",
        "JOB = setmetatable({}, { __index = JOB, __newindex = function() error('read only') end }); JOB.x = nil",
    ],
)
def test_no_error_gets_out(hook: Hook, prelude: str) -> None:
    hook(prelude=f"pcall(function() {prelude} end)")


@pytest.mark.parametrize("name", ["environment", "max_script", "lease", "no_grace_qos", "stale_after"])
def test_broken_settings_get_no_error_out(hook: Hook, name: str) -> None:
    assert hook(options={name: True}).begin_time == 0


def test_no_global_is_made(hook: Hook) -> None:
    assert not [line for line in hook().lines if line.startswith("global")]


SITE = """
slurm = { SUCCESS = 0, log_info = function(form, ...) io.stdout:write(string.format(form, ...), "\\n") end }
local real = dofile
dofile = function(path)
  assert(path == "/etc/slurm/slurmcast.lua")
  return real(FRAGMENT)
end
assert(real(SCRIPT) == 0)
assert(slurm_job_submit({}, {}, 1000) == 0)
assert(slurm_job_modify({}, {}, {}, 1000) == 0)
io.stdout:write(CALLED or "", "\\n")
"""


@pytest.mark.parametrize(
    ("fragment", "called", "complaint"),
    [
        ("return { submit = function(job, parts, uid) CALLED = 'with ' .. uid end }", "with 1000", ""),
        ("return { submit = function() error('no') end }", "", ""),
        ("return {}", "", ""),
        ("return", "", "slurmcast is off: nil"),
        ("return nonsense(", "", "slurmcast is off"),
        ("error('no')", "", "slurmcast is off"),
        (None, "", "slurmcast is off"),
    ],
)
def test_job_submit_lua_survives_any_fragment(
    hook: Hook, tmp_path: Path, fragment: str | None, called: str, complaint: str
) -> None:
    file = tmp_path / "slurmcast.lua"
    if fragment is not None:
        file.write_text(fragment)
    names = {"FRAGMENT": str(file), "SCRIPT": str(HOOK / "job_submit.lua")}
    out = hook.execute("".join(f"{name} = {literal(value)}\n" for name, value in names.items()) + SITE)
    assert called in out
    assert complaint in out
    assert bool(complaint) == ("slurmcast is off" in out)


def test_job_submit_lua_with_the_real_fragment(hook: Hook) -> None:
    names = {"FRAGMENT": str(HOOK / "slurmcast.lua"), "SCRIPT": str(HOOK / "job_submit.lua")}
    assert hook.execute("".join(f"{name} = {literal(value)}\n" for name, value in names.items()) + SITE) == "\n"
