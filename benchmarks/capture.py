"""What source capture adds to sbatch, and how long until the estimate has the sources, on a real Slurm; in the lab:
``make bench-capture``. The last line is JSON.

sbatch is timed from start to exit as a user's shell would, one submission of each condition in turn, in an order that
changes from round to round: Slurm without cli_filter, with one that does nothing, with slurmcast's, with slurmcast's
under SLURMCAST_CAPTURE=0. Then some submissions, one at a time, are followed until ``explain`` says that their estimate
was made from script and sources.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import random
import shutil
import statistics
import subprocess
import time
from pathlib import Path

from options import parser

from slurmcast.client import Client, ClientError
from slurmcast.config import load

WARM_UP = 10
LAB = Path(os.environ.get("LAB_DIR", ""))
ETC = Path("/etc/slurm")
HOME = Path("/home/alice")
LEASE = Path("/run/slurmcast/lease")
SCRIPT = "#!/bin/bash\n#SBATCH --gres=gpu:1 -t 30\npython train.py --lr 3\n"
MODEL = "import torch\n\n\nclass Net(torch.nn.Module):\n" + "".join(
    f"    def block_{n}(self, x):\n        return torch.relu(self.conv_{n}(x)) + x\n\n" for n in range(100)
)
EMPTY_FILTER = "".join(
    f"function slurm_cli_{name}() return slurm.SUCCESS end\n"
    for name in ("setup_defaults", "pre_submit", "post_submit")
)
CONDITIONS = {  # name: Slurm's configuration, further environment
    "without_filter": ("plain", {}),
    "empty_filter": ("empty", {}),
    "capture": ("capture", {}),
    "capture_off": ("capture", {"SLURMCAST_CAPTURE": "0"}),
}


def prepare() -> None:
    """Configurations that differ in the filter alone (sbatch reads it, slurmctld doesn't), and alice's program."""
    conf = (ETC / "slurm.conf").read_text()
    for name in {kind for kind, _ in CONDITIONS.values()}:
        folder = Path("/tmp") / name
        folder.mkdir()
        for path in ETC.glob("*.lua"):
            shutil.copy(path, folder)
        (folder / "slurm.conf").write_text(conf.replace("CliFilterPlugins=lua\n", "") if name == "plain" else conf)
    Path("/tmp/empty/cli_filter.lua").write_text(EMPTY_FILTER)
    (HOME / "job.sh").write_text(SCRIPT)
    (HOME / "model.py").write_text(MODEL)
    write_program(0)
    subprocess.run(["chown", "-R", "alice:", str(HOME)], check=True)
    HOME.chmod(0o700)


def write_program(number: int) -> None:
    """A program that hasn't been read before."""
    (HOME / "train.py").write_text(f"import model\n\nEPOCHS = {number + 1}\nprint('run {number}')\n")


def sbatch(condition: str) -> tuple[int, float]:
    """Submit a held job; its id and the seconds from start to exit."""
    alice, (kind, environment) = pwd.getpwnam("alice"), CONDITIONS[condition]
    began = time.perf_counter()
    done = subprocess.run(
        ["sbatch", "--parsable", "--hold", "-o", "/dev/null", "job.sh"],
        user=alice.pw_uid,
        group=alice.pw_gid,
        extra_groups=(),
        cwd=HOME,
        env={"PATH": os.environ["PATH"], "HOME": str(HOME), "SLURM_CONF": f"/tmp/{kind}/slurm.conf", **environment},
        capture_output=True,
        check=True,
    )
    return int(done.stdout), time.perf_counter() - began


def service(action: str, *names: str) -> None:
    subprocess.run(["bash", str(LAB / "slurmcast.sh"), action, *names], check=True)


def clear() -> None:
    subprocess.run(["scancel", "--user=alice"], check=True)


def wall_times(submissions: int) -> dict[str, list[float]]:
    """Seconds of ``submissions`` of each condition. The daemon runs and is handed the sources; there is no agent."""
    LEASE.write_text(f"on {int(time.time()) + 3600} 8\n")
    order, seconds = list(CONDITIONS), {name: [] for name in CONDITIONS}
    chance = random.Random(0)
    for n in range(WARM_UP + submissions):
        chance.shuffle(order)
        for condition in order:
            _, took = sbatch(condition)
            if n >= WARM_UP:
                seconds[condition].append(took)
        if n % 100 == 99:
            clear()
    clear()
    LEASE.unlink()
    return seconds


def delays(client: Client, probes: int) -> tuple[list[float], list[float]]:
    """Seconds from sbatch's exit until there is an estimate, and until it was made from the sources too."""
    first, sources = [], []
    for n in range(probes):
        write_program(n + 1)
        job_id, _ = sbatch("capture")
        began, estimated = time.perf_counter(), False
        while time.perf_counter() - began < 30:
            answer = {}
            with contextlib.suppress(ClientError):
                answer = client.request("GET", f"/v1/explain/{job_id}")
            if answer.get("estimates") and not estimated:
                estimated = True
                first.append(time.perf_counter() - began)
            if answer.get("made_from") == "script and sources":
                sources.append(time.perf_counter() - began)
                break
            time.sleep(0.01)
        until_idle()
    return first, sources


def until_idle() -> None:
    """Wait until nothing runs in the background for alice: the next submission starts a process of its own."""
    while subprocess.run(["pgrep", "-u", "alice", "-f", "slurmcast capture"], capture_output=True, check=False).stdout:
        time.sleep(0.1)


def until_answered(client: Client) -> None:
    while True:
        with contextlib.suppress(ClientError):
            client.request("GET", "/v1/health")
            return
        time.sleep(0.1)


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def figures(values: list[float]) -> dict[str, float]:
    """Milliseconds."""
    return {
        "p50": round(statistics.median(values) * 1e3, 2),
        "mean": round(statistics.mean(values) * 1e3, 2),
        "p99": round(percentile(values, 0.99) * 1e3, 2),
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--submissions", type=int, default=300, help="of each condition")
    options.add_argument("--probes", type=int, default=40, help="submissions that are followed to their estimate")
    asked = options.parse_args()
    prepare()
    client = Client(load())
    service("start", "daemon")
    until_answered(client)
    walls = {name: figures(values) for name, values in wall_times(asked.submissions).items()}
    for name, row in walls.items():
        print(f"{name:15} sbatch p50 {row['p50']:.2f} ms, mean {row['mean']:.2f} ms, p99 {row['p99']:.2f} ms")
    until_idle()
    service("start", "agent")
    while not LEASE.exists():
        time.sleep(0.1)
    first, sources = delays(client, asked.probes)
    service("stop")
    estimate, with_sources = figures(first), figures(sources)
    print(f"first estimate after {estimate['p50']:.0f} ms, p99 {estimate['p99']:.0f} ms")
    print(f"from the sources too after {with_sources['p50']:.0f} ms, p99 {with_sources['p99']:.0f} ms")
    added = {
        name: round(walls[name]["p50"] - walls["without_filter"]["p50"], 2)
        for name in walls
        if name != "without_filter"
    }
    answer = {
        "submissions": asked.submissions,
        "sbatch_ms": walls,
        "added_p50_ms": added,
        "probes": asked.probes,
        "with_sources": len(sources),
        "first_estimate_ms": estimate,
        "estimate_with_sources_ms": with_sources,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
