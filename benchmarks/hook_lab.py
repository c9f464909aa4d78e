"""What the hook adds to sbatch in a real slurmctld: the mean time of the submission RPC (sdiag) with and without it, in
turn, and with everything that can be wrong wrong. Runs in the lab: ``make bench-hook_lab``. The last line is JSON.

SUBMISSIONS (environment): submissions per condition, default 1000; they are made in rounds, the conditions in turn.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from options import parser

SUBMISSIONS = int(os.environ.get("SUBMISSIONS", "1000"))
ROUND = 100
LEASE, SPOOL = Path("/run/slurmcast/lease"), Path("/run/slurmcast/spool")
HOOK = Path("/etc/slurm/job_submit.lua")
EMPTY_HOOK = (
    "function slurm_job_submit() return slurm.SUCCESS end\nfunction slurm_job_modify() return slurm.SUCCESS end\n"
)
SCRIPT = "#!/bin/bash\n#SBATCH --gres=gpu:1\n" + "# padding\n" * 400 + "python train.py --epochs 3\n"


def run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def lease(valid_for_s: float) -> None:
    LEASE.write_text(f"on {int(time.time() + valid_for_s)} 8\n")


def fresh() -> None:
    lease(3600)


def stale() -> None:
    lease(-60)


def none() -> None:
    LEASE.unlink(missing_ok=True)


@contextlib.contextmanager
def full_spool() -> Iterator[None]:
    """The spool with no byte left."""
    filler = SPOOL / ".filler"
    with contextlib.suppress(OSError), filler.open("wb") as file:
        while True:
            file.write(b"\0" * 65536)
    yield
    filler.unlink()


def use_hook(text: str) -> None:
    """Exchange job_submit.lua; slurmctld takes a changed one over at the next submission."""
    time.sleep(1.1)  # it compares whole seconds
    HOOK.write_text(text)


def submit(count: int, script: str) -> tuple[int, float]:
    """Submit ``count`` held jobs; how many succeeded, and the mean time of the RPC in ms."""
    run("sdiag", "--reset")
    done = 0
    for _ in range(count):
        command = ["runuser", "-u", "alice", "--", "sbatch", "-H", "-o", "/dev/null", "--chdir=/tmp", script]
        done += subprocess.run(command, capture_output=True, check=False).returncode == 0
    match = re.search(r"REQUEST_SUBMIT_BATCH_JOB\s+\(\s*\d+\) count:(\d+)\s+ave_time:(\d+)", run("sdiag"))
    assert match is not None and int(match[1]) == count, "sdiag shows other submissions"
    return done, int(match[2]) / 1e3


def clear() -> None:
    """Forget the jobs and what the hook left, so that neither queue nor spool grows over the rounds."""
    subprocess.run(["scancel", "--user=alice"], check=True)
    for path in SPOOL.glob("*.job"):
        path.unlink()


def main() -> None:
    parser(__doc__).parse_args()
    hook = HOOK.read_text()
    conditions: dict[str, tuple[str, Callable[[], None]]] = {
        "without_hook": (EMPTY_HOOK, none),
        "fresh_lease": (hook, fresh),
        "stale_lease": (hook, stale),
        "no_lease": (hook, none),
        "spool_full": (hook, fresh),
    }
    means: dict[str, list[float]] = {name: [] for name in conditions}
    succeeded = dict.fromkeys(conditions, 0)
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    script = folder / "job.sh"
    script.write_text(SCRIPT)
    for _ in range(max(SUBMISSIONS // ROUND, 1)):
        for name, (text, prepare) in conditions.items():
            use_hook(text)
            prepare()
            with full_spool() if name == "spool_full" else contextlib.nullcontext():
                done, mean = submit(ROUND, str(script))
            means[name].append(mean)
            succeeded[name] += done
            clear()
    shutil.rmtree(folder)
    rounds = len(means["without_hook"])
    table = {name: round(statistics.mean(values), 3) for name, values in means.items()}
    for name, mean in table.items():
        print(f"{name:13} mean RPC {mean:.3f} ms, {succeeded[name]} of {rounds * ROUND} submissions succeeded")
    added = {name: round(mean - table["without_hook"], 3) for name, mean in table.items() if name != "without_hook"}
    print(json.dumps({"submissions": rounds * ROUND, "mean_rpc_ms": table, "added_ms": added, "succeeded": succeeded}))


if __name__ == "__main__":
    main()
