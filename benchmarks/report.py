"""What a report costs: time and memory on many finished runs, and how much it holds up the daemon's event loop.

The store is made up: each run with its job, submission, promise and, for four in ten, a change. The baseline reads and
decodes each outcome once, the least that any report on them could do in Python; ``ratio`` is the report's CPU time next
to it. ``peak_mb`` and ``peak_mb_tenth``: the most memory that a process held for the report of all runs and of a tenth
of them. The lag is how late a coroutine wakes that asked to sleep for 1 ms: with nothing to do, and while a report is
made in the same process, as in the daemon. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from slurmcast.codec import to_json
from slurmcast.config import Config, FootprintConfig, Paths, ReportConfig
from slurmcast.daemon.footprints import Footprints
from slurmcast.daemon.report_api import ReportApi
from slurmcast.daemon.requests import Ask, Caller
from slurmcast.model import (
    Decision,
    Estimate,
    GpuRequest,
    Interval,
    May,
    Outcome,
    Reading,
    Source,
    Submission,
    Verdict,
)
from slurmcast.store.records import NewSubmission
from slurmcast.store.store import Store

BEGAN, SPAN_S = 1_780_000_000, 90 * 86400
USERS, PARTITIONS = 200, ("a100", "a6000", "h100")
STATES = ("COMPLETED",) * 84 + ("FAILED",) * 7 + ("CANCELLED",) * 5 + ("TIMEOUT",) * 3 + ("OUT_OF_MEMORY",)
SHARE_CHANGED = 0.4
IDLE_S = 5.0


def site(folder: Path) -> Config:
    """Prices and intensities are flat: a series is two more interpolations for thousands of runs."""
    footprint, report = FootprintConfig(400.0, None, 1.3, 1.8), ReportConfig(0.25, None, "EUR")
    return Config("bench", Paths(folder, folder, folder), footprint=footprint, report=report)


def fill(config: Config, runs: int) -> None:
    """Made-up runs, as the daemon would have stored them."""
    config.paths.state_dir.mkdir()
    Store(config.paths.store, config.cluster).close()
    database = sqlite3.connect(config.paths.store)
    database.executescript("PRAGMA synchronous=OFF; PRAGMA cache_size=-200000")
    with database:
        for table, row in _rows(runs):
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            database.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values()))
    database.close()


def _rows(runs: int) -> Iterator[tuple[str, dict[str, Any]]]:
    random_ = random.Random(0)
    for number in range(1, runs + 1):
        uid, partition, state = 1000 + random_.randrange(USERS), random_.choice(PARTITIONS), random_.choice(STATES)
        elapsed = round(min(random_.lognormvariate(8, 1.6), 3e5)) + 1
        end = BEGAN + round(number / runs * SPAN_S)
        start, gpus = end - elapsed, random_.choice((1, 1, 1, 2, 4, 8))
        submit = start - round(random_.expovariate(1 / 3000))
        kwh = gpus * elapsed / 3600 * random_.uniform(0.2, 0.4) if random_.random() < 0.8 else None
        key = {"cluster": "bench", "job_id": number, "submit_time": submit}
        about = {"user": f"user{uid}", "account": f"account{uid % 17}", "qos": "normal", "nodes": 1}
        ended = Outcome(
            number, submit, partition, partition, gpus, state, start, end, float(elapsed), kwh, 20.0, **about
        )
        made = {"submitted_id": number, "state": state, "outcome": json.dumps(to_json(ended))}
        yield "outcome", {**key, "start_time": start, **made}
        reading = Reading(
            f"key-{number}",
            "",
            {"epochs": 90.0, "batch_size": 256.0, "gpus": float(gpus)},
            GpuRequest(per_job=gpus),
            gpus,
            time_limit_s=round(elapsed * random_.uniform(1, 6)) // 60 * 60 + 60,
            sources=("/home/user/project/train.py",),
        )
        submission = Submission(uid, f"user{uid}", "train", submit, b"#!/bin/bash\n", 12)
        new = NewSubmission(submission, reading, f"text-{number}", spool_name=f"{number}.job")
        yield "submission", {"id": number, **new.row(), "model": "m1", "estimated_at": float(submit)}
        yield "job", {**key, "uid": uid, "user": f"user{uid}", "name": "train", "submission": number}
        median = elapsed * random_.lognormvariate(0, 0.4)
        time_s, energy = Interval(median / 1.6, median, median * 1.6), median * gpus * 0.3 / 3600
        source = random_.choice((Source.PROBE, Source.PROBE, Source.HISTORY, Source.PRIOR))
        estimate = Estimate(partition, gpus, time_s, Interval(energy / 1.6, energy, energy * 1.6), source)
        kept = {"key": f"key-{number}", "model": "m1", "made_at": float(submit)}
        yield "promise", {**key, "start_time": start, **kept, "estimate": json.dumps(to_json(estimate))}
        if random_.random() < SHARE_CHANGED:
            verdicts = tuple(Verdict(name, May.MOVE, "it may be moved there") for name in PARTITIONS)
            decision = Decision(
                number, submit, submit + 5.0, partition, "It has the best value.", 3, 5000, None, verdicts, changed=True
            )
            yield "change", {**key, "at": submit + 5.0, "decision": json.dumps(to_json(decision))}


def decoded(config: Config) -> int:
    """The baseline: every outcome, decoded."""
    database = sqlite3.connect(config.paths.store)
    count = 0
    for (text,) in database.execute("SELECT outcome FROM outcome"):
        count += json.loads(text)["gpus"] > 0
    database.close()
    return count


async def reported(config: Config) -> dict[str, Any]:
    """A report on all runs, as the daemon makes it, with the lag of its event loop."""
    api = ReportApi(config, Footprints(config.footprint))
    ask = Ask(Caller(0), {"since": str(BEGAN - SPAN_S), "until": str(BEGAN + 2 * SPAN_S)}, None)
    idle = await _lags(asyncio.create_task(asyncio.sleep(IDLE_S)))
    wall, cpu = time.perf_counter(), time.process_time()
    making = asyncio.create_task(api.get(ask))
    busy = await _lags(making)
    answer = making.result()
    figures = {
        "runs": answer["total"]["runs"],
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
        "answer_kb": len(json.dumps(answer)) / 1024,
        "idle_lag_max_ms": max(idle) * 1000,
        "idle_lag_p99_ms": float(np.percentile(idle, 99)) * 1000,
        "lag_p99_ms": float(np.percentile(busy, 99)) * 1000,
        "lag_max_ms": max(busy) * 1000,
        "peak_mb": _peak_mb(),
    }
    api.close()
    return figures


def _peak_mb() -> float:
    """Of this process since its start (man proc, VmHWM); what getrusage says begins with the parent's."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


async def _lags(until: asyncio.Task[Any]) -> list[float]:
    found = []
    while not until.done():
        began = time.perf_counter()
        await asyncio.sleep(0.001)
        found.append(time.perf_counter() - began - 0.001)
    return found


def in_process(mode: str, folder: Path) -> dict[str, Any]:
    """``mode`` in a process of its own, so that its memory is its own."""
    command = [sys.executable, __file__, mode, str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def measure(runs: int) -> None:
    """Fill two stores, measure, print."""
    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder) / "large", Path(folder) / "small"
        fill(site(large), runs)
        fill(site(small), runs // 10)
        baseline, report, tenth = (
            in_process("baseline", large),
            in_process("report", large),
            in_process("report", small),
        )
    assert report["runs"] == baseline["runs"] == runs
    print(f"{runs} runs: {report['wall_s']:.1f} s, {report['cpu_s']:.1f} s of CPU time")
    print(f"reading and decoding the outcomes alone: {baseline['cpu_s']:.1f} s of CPU time")
    print(f"memory at most {report['peak_mb']:.0f} MB; of a tenth of the runs {tenth['peak_mb']:.0f} MB")
    for words, name in (("while a report is made", "lag"), ("with nothing to do", "idle_lag")):
        lags = f"{report[f'{name}_p99_ms']:.1f} ms (p99), {report[f'{name}_max_ms']:.1f} ms at most"
        print(f"the event loop wakes late by {lags}, {words}")
    figures = {
        **report,
        "runs_per_s": report["runs"] / report["wall_s"],
        "baseline_cpu_s": baseline["cpu_s"],
        "ratio": report["cpu_s"] / baseline["cpu_s"],
        "peak_mb_tenth": tenth["peak_mb"],
    }
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200_000, help="finished runs, at least 1000")
    parser.add_argument("mode", nargs="?", choices=("baseline", "report"), help=argparse.SUPPRESS)
    parser.add_argument("folder", nargs="?", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.mode == "baseline":
        cpu = time.process_time()
        runs = decoded(site(chosen.folder))
        print(json.dumps({"runs": runs, "cpu_s": time.process_time() - cpu}))
    elif chosen.mode == "report":
        print(json.dumps(asyncio.run(reported(site(chosen.folder)))))
    elif chosen.runs < 1000:
        parser.error(f"--runs {chosen.runs}: must be a whole number from 1000 up")
    else:
        measure(chosen.runs)


if __name__ == "__main__":
    main()
