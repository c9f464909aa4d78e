"""The meter against the truth, and what it costs a node.

The cases are those of the tests: each drives prolog, epilog and meter through a stand-in for NVIDIA's library whose
power curves are known. ``max_error_pct`` is the largest error among the energies that can be known. The cost is that
of the real process with 8 busy cards and 8 jobs, at one reading a second; what NVIDIA's own library needs for an answer
isn't in it. The last line is one JSON object.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # the tests' cases

from options import parser
from tests.fake_nvml.script import library, script
from tests.unit.meter_cases import CASES
from tests.unit.meter_world import SLURM, Node

CARDS = 8
SETTLE_S, MEASURE_S = 5.0, 60.0
RUNS = 200
MAX_ERROR = 0.01


def accuracy() -> tuple[int, float]:
    """How many cases are right within 1 %, and the largest error (relative) of all energies that can be known."""
    passed, largest = 0, 0.0
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                errors = [check.error for check in case(Path(folder))]
            except AssertionError as error:
                print(f"{name:30} failed: {error}")
                continue
        worst = max(errors)
        largest = max([largest, *(error for error in errors if error != float("inf"))])
        passed += worst <= MAX_ERROR
        print(f"{name:30} {len(errors)} energies, largest error {100 * worst:.3f} %")
    return passed, largest


def alternating() -> Iterator[tuple[str, float]]:
    """A load that alternates as fast as it is looked at, or faster: for the record, samples promise nothing there."""
    for period_s in (0.37, 0.1, 2.0):
        for kind, counts, window_s in (("counter", 1, 0.0), ("sampled", 0, 0.0), ("sampled, quarter seen", 0, 0.025)):
            with tempfile.TemporaryDirectory() as folder:
                node = Node(Path(folder))
                card = node.gpus[0]
                end_s = min(1000 * period_s, 200.0)
                halves = [(n * period_s / 2, 360.0 if n % 2 else 60.0) for n in range(int(2 * end_s / period_s))]
                card.draw([(t, w) for start, w in halves for t in (start, start + period_s / 2)])
                card.counts, card.window_s, card.period_s = counts, window_s, 0.1 if window_s else 0.0
                node.begin(7)
                node.until(end_s)
                node.end(7)
                node.until(node.told.now_s + 2)
                true_j = node.joules(0, end_s)
                yield f"{period_s:g} s, {kind}", (node.record().used[0].energy_j - true_j) / true_j


def cost() -> tuple[float, float]:
    """CPU of the real process in percent of one core, and its peak memory in MB (RSS)."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        told = script(folder / "nvml", CARDS, real_time=True)
        for card in range(CARDS):
            told.gpu[card].draw([(0, 300.0, 2**33, 0.9)])
        markers = folder / "markers"
        markers.mkdir()
        config = folder / "slurmcast.toml"
        config.write_text(
            f'[paths]\nrun_dir = "/nowhere"\n[meter]\nmarkers = "{markers}"\nstate_dir = "{folder}/state"\n'
        )
        for card in range(CARDS):
            prolog(markers, card)
        nvml = {"LD_LIBRARY_PATH": str(library(folder).parent), "FAKE_NVML": str(folder / "nvml")}
        command = [sys.executable, "-m", "slurmcast.cli", "--config", str(config), "meter"]
        process = subprocess.Popen(command, env={**os.environ, **nvml}, stderr=subprocess.DEVNULL)
        try:
            time.sleep(SETTLE_S)
            prolog(markers, 0, "epilog")  # a record that waits for a daemon which isn't there
            prolog(markers, CARDS)
            time.sleep(SETTLE_S)
            before, calls = cpu_s(process.pid), told.calls
            time.sleep(MEASURE_S)
            used_s, calls = cpu_s(process.pid) - before, told.calls - calls
            status = Path(f"/proc/{process.pid}/status").read_text()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)
        assert calls >= CARDS * MEASURE_S * 0.9, f"only {calls} calls of NVML: the meter didn't follow the jobs"
        peak_kb = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
    return 100 * used_s / MEASURE_S, peak_kb / 1024


def cpu_s(pid: int) -> float:
    """What the process's threads have run, to the nanosecond (the kernel's sched-stats)."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def prolog(markers: Path, job_id: int, what: str = "prolog") -> float:
    """Run the prolog or epilog as slurmd would; milliseconds."""
    environment = {
        "SLURM_JOB_ID": str(job_id), "SLURM_JOB_START_TIME": "1700000000", "SLURM_JOB_GPUS": str(job_id % CARDS),
        "SLURM_JOB_NUM_NODES": "1", "SLURM_CLUSTER_NAME": "c", "SLURMD_NODENAME": "n",
        "SLURMCAST_METER_MARKERS": str(markers),
    }  # fmt: skip
    began = time.perf_counter()
    subprocess.run([SLURM / f"{what}.d/50-slurmcast-meter.sh"], env=environment, check=True)
    return 1000 * (time.perf_counter() - began)


def nothing() -> float:
    """The same for a shell that does nothing."""
    began = time.perf_counter()
    subprocess.run(["/bin/sh", "-c", "exit 0"], env={}, check=True)
    return 1000 * (time.perf_counter() - began)


def main() -> None:
    parser(__doc__).parse_args()
    logging.disable(logging.WARNING)
    passed, largest = accuracy()
    for name, error in alternating():
        print(f"square wave of {name:34} error {100 * error:+.1f} %")
    cpu_pct, rss_mb = cost()
    with tempfile.TemporaryDirectory() as folder:
        # In turn, so that a busy machine is as busy for each.
        times = [(prolog(Path(folder), n), prolog(Path(folder), n, "epilog"), nothing()) for n in range(RUNS)]
    prolog_ms, epilog_ms, empty_ms = (statistics.median(kind) for kind in zip(*times, strict=True))
    print(
        f"{CARDS} cards, {CARDS} jobs, 1 reading/s over {MEASURE_S:g} s: {cpu_pct:.2f} % of one core, {rss_mb:.1f} MB"
    )
    print(f"prolog {prolog_ms:.2f} ms, epilog {epilog_ms:.2f} ms, a shell that does nothing {empty_ms:.2f} ms")
    answer = {
        "cases": len(CASES), "passed": passed, "max_error_pct": round(100 * largest, 3),
        "node_cpu_pct": round(cpu_pct, 3), "node_rss_mb": round(rss_mb, 1),
        "prolog_ms": round(prolog_ms, 2), "epilog_ms": round(epilog_ms, 2), "shell_ms": round(empty_ms, 2),
    }  # fmt: skip
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
