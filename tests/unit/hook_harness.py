"""Runs slurmcast.lua under a plain Lua interpreter, and reads what it leaves in the spool.

The job descriptions are those that slurmctld 26.05 showed to its Lua plugin; spool files are read by a reader of the
tests' own, written from docs/architecture.md.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

HOOK = Path(__file__).parents[2] / "job_submit_lua"
NOW = 1764425000
# How slurmctld spells "not given", 16, 32 and 64 bits wide, and "infinite".
NO_VAL16, NO_VAL, INFINITE, NO_VAL64 = 65534, 4294967294, 4294967295, 18446744073709551614
SCRIPT = b"#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py --epochs 3\n"
BARE: dict[str, Any] = {  # what `sbatch train.sh` looks like
    "argc": 1,
    "argv": ["/home/alice/train.sh"],
    "begin_time": 0,
    "cpus_per_task": NO_VAL16,
    "environment": {"HOME": "/home/alice"},
    "end_time": 0,
    "het_job_offset": NO_VAL,
    "max_nodes": NO_VAL,
    "min_cpus": 1,
    "min_nodes": NO_VAL,
    "name": "train.sh",
    "ntasks_per_gpu": NO_VAL16,
    "ntasks_per_node": NO_VAL16,
    "num_tasks": NO_VAL,
    "pn_min_memory": NO_VAL64,
    "priority": NO_VAL,
    "time_limit": NO_VAL,
    "user_id": 1000,
    "work_dir": "/home/alice",
}
GPU = {**BARE, "tres_per_node": "gres/gpu:1"}
PARTITIONS = {"a100": {"flag_default": 1}, "a6000": {"flag_default": 0}}

DRIVER = """
local out, write = {}, print
slurm = { SUCCESS = 0, log_info = function(form, ...) out[#out + 1] = "log " .. string.format(form, ...) end }
os.time = function() return NOW end
local before = {}
for name in pairs(_G) do before[name] = true end
local hook = assert(loadfile(FRAGMENT))()
for name, value in pairs(SETTINGS) do hook[name] = value end
if SCRIPT_FILE then
  local file = io.open(SCRIPT_FILE, "rb")
  JOB.script = file:read("*a")
  file:close()
end
PRELUDE()
for _ = 1, TIMES do assert(select("#", hook.submit(JOB, PARTITIONS, UID)) == 0, "it returns something") end
for name in pairs(_G) do
  if not before[name] then out[#out + 1] = "global " .. tostring(name) end
end
out[#out + 1] = string.format("begin %.0f", JOB and rawget(JOB, "begin_time") or 0)
write(table.concat(out, "\\n"))
"""


def literal(value: Any) -> str:
    """A Python value as Lua source; numbers as floats, as slurmctld pushes them, lists from 0 as Slurm's argv."""
    match value:
        case None:
            return "nil"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"{value:.1f}"
        case str() | bytes():
            raw = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
            return '"' + "".join(f"\\{byte:03d}" for byte in raw) + '"'
        case list():
            return "{" + ",".join(f"[{n}]={literal(item)}" for n, item in enumerate(value)) + "}"
        case tuple():
            return "{" + ",".join(literal(item) for item in value) + "}"
        case dict():
            return "{" + ",".join(f"[{literal(name)}]={literal(item)}" for name, item in value.items()) + "}"
    raise TypeError(value)


@dataclass
class Result:
    """What one run of the hook left behind."""

    begin_time: int
    files: list[Path]
    lines: list[str]

    @property
    def log(self) -> list[str]:
        return [line[4:] for line in self.lines if line.startswith("log ")]

    @property
    def fields(self) -> dict[str, bytes]:
        (file,) = self.files
        return read_spool_file(file.read_bytes())


def read_spool_file(content: bytes) -> dict[str, bytes]:
    head, rest = content.split(b"\n", 1)
    assert head == b"slurmcast-spool 1"
    fields: dict[str, bytes] = {}
    while rest != b"end\n":
        header, rest = rest.split(b"\n", 1)
        name, length = header.decode().split(" ")
        value, rest = rest[: int(length)], rest[int(length) :]
        assert rest[:1] == b"\n"
        assert name not in fields
        rest = rest[1:]
        fields[name] = value
    assert list(fields)[-1] == "script"
    return fields


@dataclass
class Hook:
    """Runs the fragment in a fresh interpreter, with the lease and the spool in a folder of the test's own."""

    lua: str
    folder: Path

    def __post_init__(self) -> None:
        self.spool.mkdir(exist_ok=True)
        self.set_lease(f"on {NOW + 60} 8\n")

    @property
    def spool(self) -> Path:
        return self.folder / "spool"

    @property
    def lease(self) -> Path:
        return self.folder / "lease"

    def set_lease(self, content: str | bytes) -> None:
        self.lease.write_bytes(content.encode() if isinstance(content, str) else content)

    def execute(self, source: str) -> str:
        limited = ["sh", "-c", 'ulimit -n 32 && exec "$0" -', self.lua]  # so that a file left open is noticed
        done = subprocess.run(limited, input=source.encode(), capture_output=True, timeout=30, check=False)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout.decode("utf-8", "surrogateescape")

    def __call__(
        self,
        job: Mapping[str, Any] | None = None,
        script: bytes | None = SCRIPT,
        *,
        uid: int = 1000,
        times: int = 1,
        prelude: str = "",
        partitions: Mapping[str, Any] | None = PARTITIONS,
        options: Mapping[str, Any] = MappingProxyType({}),
    ) -> Result:
        """Submit ``job`` (default: one GPU); ``options``: the hook's settings; ``prelude``: Lua run before."""
        script_file = self.folder / "script"
        if script is not None:
            script_file.write_bytes(script)
        values = {
            "FRAGMENT": str(HOOK / "slurmcast.lua"),
            "NOW": NOW,
            "UID": uid,
            "TIMES": times,
            "JOB": dict(GPU if job is None else job),
            "PARTITIONS": partitions,
            "SCRIPT_FILE": None if script is None else str(script_file),
            "SETTINGS": {"spool": str(self.spool), "lease": str(self.lease), **options},
        }
        assignments = "".join(f"{name} = {literal(value)}\n" for name, value in values.items())
        lines = self.execute(f"{assignments}PRELUDE = function() {prelude} end\n{DRIVER}").splitlines()
        begin_time = int(lines.pop().removeprefix("begin "))
        found = sorted(self.spool.iterdir()) if self.spool.is_dir() else []
        return Result(begin_time, found, lines)


FREE, BOUND, NOTHING = "forwarded, grace", "forwarded", "nothing"


def fate(result: Result) -> str:
    assert not result.lines
    granted = result.begin_time == NOW + 8
    if not result.files:
        assert not granted
        return NOTHING
    assert result.fields.get("begin_time") == (b"%d" % (NOW + 8) if granted else None)
    return FREE if granted else BOUND
