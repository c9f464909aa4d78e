"""What the hook adds to a submission, measured under plain Lua interpreters.

For scripts of 4 KB, 64 KB and 4 MB: wall time of one call of ``submit`` under a fresh lease, which writes a spool file
to a tmpfs and gives a grace, and in turn, as the baseline, without a lease. A call is timed from outside, by the round
trip over two pipes, since Lua has no clock for wall time; the baseline contains the same round trip. ``cpu_us`` is
the interpreter's own CPU time, by ``os.clock``. The last line is one JSON object.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from options import parser

FRAGMENT = Path(__file__).parents[1] / "job_submit_lua" / "slurmcast.lua"
SIZES = {"4KB": (4 * 1024, 2000), "64KB": (64 * 1024, 2000), "4MB": (4 * 1024 * 1024, 300)}
"""Bytes of the script, and number of calls."""

# slurmctld hands over a copy of the script whenever the field is read; so does putting two halves together.
DRIVER = """
local folder, fragment, size = arg[1], arg[2], tonumber(arg[3])
slurm = { log_info = function(form, ...) error(string.format(form, ...)) end }
local line = "#SBATCH --gres=gpu:1 # a line as batch scripts have them\\n"
local half = string.sub(string.rep(line, math.ceil(size / #line)), 1, size / 2)
local fields = {
  tres_per_node = "gres/gpu:1", begin_time = 0, priority = 4294967294, het_job_offset = 4294967294,
  min_nodes = 4294967294, ntasks_per_gpu = 65534, min_cpus = 1, time_limit = 60, name = "train.sh", user_id = 1000,
  argc = 3, argv = { [0] = "/home/alice/train.sh", "--epochs", "10" }, work_dir = "/home/alice",
  environment = { EPOCHS = "10" },
}
local function new_job()
  return setmetatable({}, { __index = function(_, name)
    if name == "script" then return half .. half end
    return fields[name]
  end })
end
local hooks = {}
for _, name in ipairs({ "fresh", "none" }) do
  hooks[name] = dofile(fragment)
  hooks[name].spool, hooks[name].lease = folder .. "/spool", folder .. "/" .. name
end
for name in io.lines() do
  local job, began = new_job(), os.clock()
  hooks[name].submit(job, {}, 1000)
  local cpu = os.clock() - began
  io.write(string.format("%.0f %s\\n", cpu * 1e6, job.begin_time > 0 and "grace" or "-"))
  io.flush()
end
"""


@dataclass
class Times:
    """Microseconds of each call."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, float]:
        return {
            "wall_us_p50": percentile(self.wall, 50),
            "wall_us_p99": percentile(self.wall, 99),
            "cpu_us_p50": percentile(self.cpu, 50),
            "cpu_us_p99": percentile(self.cpu, 99),
        }


def percentile(values: list[float], percent: int) -> float:
    return round(statistics.quantiles(values, n=100, method="inclusive")[percent - 1], 1)


def measure(lua: str, size: int, calls: int, folder: Path) -> dict[str, Times]:
    """Times of ``calls`` calls each with (``fresh``) and without (``none``) a lease, in turn."""
    spool = folder / "spool"
    spool.mkdir()
    (folder / "fresh").write_text(f"on {int(time.time()) + 3600} 8\n")
    driver = folder / "driver.lua"
    driver.write_text(DRIVER)
    times = {"fresh": Times(), "none": Times()}
    command = [lua, str(driver), str(folder), str(FRAGMENT), str(size)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(calls):
            for name, kept in times.items():
                began = time.perf_counter_ns()
                process.stdin.write(name + "\n")
                process.stdin.flush()
                cpu, granted = process.stdout.readline().split()
                kept.wall.append((time.perf_counter_ns() - began) / 1000)
                kept.cpu.append(float(cpu))
                files = list(spool.iterdir())
                if (granted == "grace", len(files)) != ((True, 1) if name == "fresh" else (False, 0)):
                    raise RuntimeError(f"lease {name}: {granted}, {len(files)} files")
                for file in files:
                    file.unlink()
        process.stdin.close()
    return times


def figures(times: dict[str, Times]) -> dict[str, float]:
    fresh, base = times["fresh"].summary(), times["none"].summary()
    return {
        **fresh,
        **{f"baseline_{key}": value for key, value in base.items()},
        "ratio_p50": round(fresh["wall_us_p50"] / base["wall_us_p50"], 2),
        "added_us_p50": round(fresh["wall_us_p50"] - base["wall_us_p50"], 1),
    }


def interpreter(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        sys.exit(f"{name} is not installed: apt-get install {name} (or run `make bench-hook`)")
    return path


def main() -> None:
    parser(__doc__).parse_args()
    results: dict[str, dict[str, dict[str, float]]] = {}
    columns = ("wall_us_p50", "wall_us_p99", "baseline_wall_us_p50", "baseline_wall_us_p99", "cpu_us_p50", "cpu_us_p99")
    print("lua    script", *(f"{column:>21}" for column in columns))
    for name in ("lua5.1", "lua5.4"):
        results[name] = {}
        for label, (size, calls) in SIZES.items():
            with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
                row = results[name][label] = figures(measure(interpreter(name), size, calls, Path(folder)))
            print(f"{name} {label:>6}", *(f"{row[column]:21.1f}" for column in columns))
    print(json.dumps({"benchmark": "hook", **results}))


if __name__ == "__main__":
    main()
