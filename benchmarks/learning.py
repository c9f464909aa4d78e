"""The learning curve on a real Slurm: how estimates get better as jobs finish, and what the loop does about drift.

Runs in the lab, 40 emulated seconds a second: ``make bench-learning``. A few hundred of the demo's jobs (stand-ins that
sleep and report energy) come one after the other; ``slurmcast train --when-due`` is called as its timer would. When two
fifths have been submitted, half of the jobs are programs that nobody ran before; from three fifths on all programs take
twice as long on A6000s. Estimates count as they stood when the jobs started. The last line is JSON.

JOBS (environment): how many, default 300. SEED: of the draw, default 1.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # the demo's jobs

from demo import inside, meter, workload
from learning_curve import curve, jobs
from options import parser

from slurmcast import config
from slurmcast.drift.figures import Alarm, alarms
from slurmcast.store.promises import Promise, Promises

TIMER_S = 600.0
"""Emulated seconds between two calls of the timer."""
LOAD = 0.75
WIDTH = 30
"""Finished jobs in a bucket of the curve."""


@dataclass(frozen=True)
class Call:
    """One call of the timer."""

    at: float
    answer: dict[str, Any]
    failed: bool


class Timer(threading.Thread):
    """Calls ``slurmcast train --when-due`` again and again, as the systemd timer does."""

    def __init__(self) -> None:
        super().__init__(name="timer")
        self.calls: list[Call] = []
        self.halt = threading.Event()

    def run(self) -> None:
        while not self.halt.wait(TIMER_S):
            command = ["runuser", "-u", "slurmcast", "--", "slurmcast", "train", "--when-due", "--json"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            failed = done.returncode != 0
            answer = {"due": False, "because": done.stderr.strip()} if failed else json.loads(done.stdout)
            self.calls.append(Call(time.time(), answer, failed))


def perform(works: dict[str, workload.Work], planned: list[workload.DemoJob]) -> tuple[list[Call], float, float]:
    """Let the jobs run; the timer's calls, when the first new program came, and when the A6000s became slower."""
    inside.prepare(works)
    inside.slurmcast("start")
    while not Path("/run/slurmcast/lease").exists():
        time.sleep(5)
    timer, energy = Timer(), meter.StandInMeter()
    new_at = slow_at = 0.0
    timer.start()
    began = time.time()
    for number, job in enumerate(planned):
        time.sleep(max(began + job.at_s - time.time(), 0))
        if number == jobs.new_from(len(planned)):
            new_at = time.time()
        if number == jobs.slow_from(len(planned)):
            (inside.STANDIN / "work.json").write_text(workload.standin_table(jobs.slower(works)))
            slow_at = time.time()
        inside.submit(job, works, job.partition)
        energy.hand_in()
    inside.await_all("the learning curve", energy.hand_in)
    time.sleep(200)  # the agent's next look at accounting
    energy.hand_in()
    timer.halt.set()
    timer.join()
    inside.slurmcast("stop")
    return timer.calls, new_at, slow_at


def events(calls: list[Call], promises: list[Promise]) -> list[dict[str, Any]]:
    """The trainings, by how many jobs had finished."""
    return [
        {
            "finished": _finished(promises, call.at),
            "because": call.answer["because"],
            "promoted": call.answer["promoted"],
            "reason": call.answer["reason"],
        }
        for call in calls
        if call.answer["due"]
    ]


def found(promises: list[Promise], alarmed: list[Alarm], begin: float, end: float) -> dict[str, Any]:
    """By how many jobs had finished: when drift was planted (``begin``), when the first test found it before ``end``,
    and what that test said."""
    first = min((alarm for alarm in alarmed if begin < alarm.since <= end), key=lambda a: a.since, default=None)
    at = None if first is None else _finished(promises, first.since)
    return {"planted": _finished(promises, begin), "found": at, "what": first and first.text}


def _finished(promises: list[Promise], at: float) -> int:
    return sum(promise.outcome.end_time <= at for promise in promises)


def show(buckets: list[curve.Bucket], trainings: list[dict[str, Any]], planted: dict[int, str]) -> None:
    print("finished  jobs  unknown  error of time  energy  80 % holds: time  energy")
    for b in buckets:
        shares = [b.time_ape, b.energy_ape, b.coverage_time, b.coverage_energy]
        told = ["" if share is None else f"{share:.0%}" for share in shares]
        bar = "#" * round(40 * min(b.time_ape or 0, 1))
        print(f"{b.first:8}{b.jobs:6}{b.unknown:9.0%}{told[0]:>15}{told[1]:>8}{told[2]:>18}{told[3]:>8}  {bar}")
        for training in trainings:
            if b.first <= training["finished"] <= b.last:
                what = "promoted" if training["promoted"] else "refused"
                print(f"{training['finished']:8}  {what}: {training['because']}; {training['reason']}")
        for at, what in planted.items():
            if b.first <= at <= b.last:
                print(f"{at:8}  planted: {what}")


def main() -> None:
    parser(__doc__).parse_args()
    begun = float(Path("/proc/uptime").read_text().split()[0])
    works = workload.load_works()
    planned = jobs.draw(works, int(os.environ.get("JOBS", "300")), int(os.environ.get("SEED", "1")), 32, LOAD)
    calls, new_at, slow_at = perform(works, planned)
    cfg = config.load()
    promises = Promises(cfg.paths.store, cfg.cluster).last_promises(10 * len(planned))
    new = jobs.new_programs(planned)
    trainings, buckets = events(calls, promises), curve.curve(promises, WIDTH)
    models = sorted({promise.model for promise in promises if promise.model})
    by_model = [[promise for promise in promises if promise.model == model] for model in models]
    alarmed = [alarm for own in by_model for alarm in alarms(own, None, cfg.train.false_alarm_jobs)]
    programs, gpus = found(promises, alarmed, new_at, slow_at), found(promises, alarmed, slow_at, math.inf)
    show(buckets, trainings, {programs["planted"]: f"{len(new)} new programs", gpus["planted"]: "A6000s half as fast"})
    took = float(Path("/proc/uptime").read_text().split()[0]) - begun
    answer = {
        "jobs": len(planned),
        "finished": len(promises),
        "curve": [curve.rounded(asdict(bucket)) for bucket in buckets],
        "sources": {source: curve.rounded(row) for source, row in curve.by_source(promises).items()},
        "trainings": trainings,
        "new_programs": programs,
        "slower_gpus": gpus,
        "alarms_before": sum(alarm.since <= new_at for alarm in alarmed),
        "calls": len(calls),
        "failed": [call.answer["because"] for call in calls if call.failed],
        "seconds": round(took),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
