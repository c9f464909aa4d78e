"""The loop without a Slurm: the jobs of ``make bench-learning`` at exact times, first come first served.

``python benchmarks/loop.py [--seeds N] [--jobs N]``: how estimates came true that jobs had at their start. Nothing in
it depends on how busy the machine is. The timer comes every 10 minutes; from two fifths of the jobs on half are new
programs, from three fifths on those that start on A6000s take twice as long. Each seed is run in four ways: trainings
heed changes, or don't (all runs count alike); nothing changes; nothing changes, and a job is learned from only when all
that were submitted before it have ended, so that short jobs are no more than their share. The last line is JSON.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # the demo's jobs

from demo import workload
from demo.standin import standin
from learning_curve import curve, jobs
from options import parser, whole

from slurmcast.config import Config, PartitionConfig
from slurmcast.drift.changes import Changes, changes
from slurmcast.drift.due import due
from slurmcast.drift.figures import Row, alarms, table
from slurmcast.encoder.minilm import MiniLM
from slurmcast.evaluation.cases import Case, TooFewJobs, site
from slurmcast.evaluation.estimators import by_history, by_model, by_prior, trained
from slurmcast.evaluation.promotion import trial
from slurmcast.labels import runs
from slurmcast.model import J_PER_KWH, Outcome, Source, Submission
from slurmcast.probe import TrainingError
from slurmcast.probe.choice import choose, learned_until
from slurmcast.probe.history import relevant
from slurmcast.probe.model import Model
from slurmcast.script.reader import read
from slurmcast.script.sources import MyFiles
from slurmcast.store.promises import Promise
from slurmcast.store.records import Label, Origin

BEGAN = 1_700_000_000
TIMER_S = 600
GPUS = 16
"""Of each partition."""
LOAD = 0.75
VECTORS: dict[str, Any] = {}
"""Of texts that were encoded."""
WIDTH = 30
FIRST = 60
"""Estimates of each seed's first model that are looked at by themselves."""
CONFIG = Config(partition=tuple(PartitionConfig(name, prior_power_w=200.0) for name in workload.PARTITIONS))


@dataclass
class Site:
    """What has happened so far."""

    heed: bool
    known: list[Case] = field(default_factory=list)
    """Finished jobs that can be learned from."""
    promises: list[Promise] = field(default_factory=list)
    model: Model | None = None
    learned: int = 0
    tried: int | None = None
    trainings: list[dict[str, Any]] = field(default_factory=list)

    def estimate(self, case: Case) -> Promise:
        """What the daemon would promise of a job that starts now."""
        where, type_of = site(CONFIG, [*self.known, case])
        probe = () if self.model is None else (by_model(self.model)(case),)
        past = runs([other.label for other in self.known], case.label.origin)
        rests_on = relevant(case.label.reading.numbers, {case.gpus}, past)
        news = self.model is not None and any(run.ended > learned_until(self.model) for run, _ in rests_on)
        told = by_history(self.known, where)(case)
        (found,) = choose((by_prior(where, type_of)(case),), (told,), probe, news=news)
        return Promise(case.key, self.model.version if self.model else "", found, case.label.outcome)

    def tick(self, now: float) -> None:
        """The timer: ``slurmcast train --when-due``."""
        done = [promise for promise in self.promises if promise.outcome.end_time <= now]
        version = self.model.version if self.model is not None else None
        own = sorted((p for p in done if p.model == version), key=lambda p: p.outcome.end_time)
        found = alarms(own, None, CONFIG.train.false_alarm_jobs)
        learned = self.learned if self.model is not None else None
        if not due(CONFIG.train, len(self.known), learned, self.tried, [alarm.text for alarm in found]).now:
            return
        self.tried = len(self.known)
        where, type_of = site(CONFIG, self.known)
        kind = CONFIG.probe.kind
        ordered = sorted(self.known, key=lambda case: case.ended)
        new = changes(found, type_of) if self.heed else {}
        former = dict(self.model.figures.get("changes", {})) if self.model is not None else {}

        def train(cases: Sequence[Case], _kind: str, heeded: Changes) -> Model:
            return trained(cases, CONFIG.probe, "minilm", type_of, heeded)

        answer = {"finished": len(done), "alarms": [(a.partition, a.target) for a in found], "changes": new}
        try:
            drifted = min(new.values(), default=None)
            verdict = trial(ordered, kind, train, self.model, where, type_of, former | new, drifted)
        except (TooFewJobs, TrainingError) as error:
            self.trainings.append(answer | {"promoted": False, "reason": str(error)})
            return
        self.trainings.append(
            answer | {"promoted": verdict.promote, "heeded": bool(verdict.changes), "reason": verdict.reason}
        )
        if verdict.promote:
            model = train(ordered, kind, verdict.changes)
            figures = {**model.figures, "learned_until": ordered[-1].ended, "changes": dict(verdict.changes)}
            self.model = replace(model, version=f"model {len(self.trainings)}", figures=figures)
            self.learned = len(self.known)


def submissions(works: dict[str, workload.Work], planned: Sequence[workload.DemoJob]) -> Iterator[Case]:
    """The jobs as the daemon sees them; how they end isn't known yet."""
    encoder = MiniLM()
    for number, job in enumerate(planned):
        work, folder = works[job.work], workload.HERE / "jobs" / job.work
        script = (folder / work["script"]).read_bytes()
        submission = Submission(
            uid=1000 + workload.USERS.index(job.user), user=job.user, name=job.name,
            submit_time=round(BEGAN + job.at_s), script=script, script_size=len(script),
            partition=job.partition, work_dir=str(folder),
            argv=(work["script"], *job.arguments), environment=job.environment,
            request={"time_limit": str(job.time_limit_min), "partition": str(job.partition)},
        )  # fmt: skip
        reading = read(submission, MyFiles())
        text_key = hashlib.sha256(reading.text.encode("utf-8", "surrogateescape")).hexdigest()
        if text_key not in VECTORS:
            VECTORS[text_key] = encoder.encode([reading.text])[0]
        part, gpus = str(job.partition), int(work["gpus"])
        outcome = Outcome(number, submission.submit_time, part, part, gpus, "COMPLETED", 0, 0, 0.0)
        yield Case(Label(reading.key, text_key, reading, outcome, Origin.of(submission, reading)), VECTORS[text_key])


@dataclass(frozen=True)
class Way:
    """One way to run the jobs; see the module."""

    slower: bool = False
    heed: bool = True
    settled: bool = False


WAYS = {
    "heeded": Way(slower=True),
    "not heeded": Way(slower=True, heed=False),
    "no change": Way(),
    "no change, settled": Way(settled=True),
}


@dataclass(frozen=True)
class Run:
    """What came of one seed; times in Unix seconds."""

    promises: Sequence[Promise]
    trainings: Sequence[dict[str, Any]]
    new_at: float
    """When the first new program came,"""
    slow_at: float
    """and when the A6000s became slower."""

    def finished(self, at: float) -> int:
        return sum(promise.outcome.end_time <= at for promise in self.promises)


def ran(case: Case, start: float, time_s: float, power_w: float) -> Case:
    """``case`` with how it ended; ``power_w`` of one GPU. Slurm counts whole seconds."""
    end, kwh = start + time_s, time_s * case.gpus * power_w / J_PER_KWH
    times = {"start_time": round(start), "end_time": round(end), "elapsed_s": float(round(time_s))}
    return replace(case, label=replace(case.label, outcome=replace(case.label.outcome, **times, energy_kwh=kwh)))


def startable(waiting: Sequence[Case], free: dict[str, int]) -> list[Case]:
    """Those that start now: on each partition the first, as long as there are GPUs. ``free`` becomes what is left."""
    found, blocked = [], set()
    for case in waiting:
        name = case.label.outcome.partition
        if name in blocked or case.gpus > free[name]:
            blocked.add(name)
            continue
        free[name] -= case.gpus
        found.append(case)
    return found


def perform(seed: int, count: int, way: Way) -> Run:
    """Let the jobs run."""
    works = workload.load_works()
    planned = jobs.draw(works, count, seed, 2 * GPUS, LOAD)
    new_at, slow_at = (BEGAN + planned[at(count)].at_s for at in (jobs.new_from, jobs.slow_from))
    late = jobs.slower(works) if way.slower else works
    to_come, waiting, running, ended = list(submissions(works, planned)), [], [], []
    free = dict.fromkeys(workload.PARTITIONS, GPUS)
    here, now, next_tick = Site(way.heed), float(BEGAN), BEGAN + TIMER_S
    while to_come or waiting or running:
        while to_come and BEGAN + planned[number_of(to_come[0])].at_s <= now:
            waiting.append(to_come.pop(0))
        for case in startable(waiting, free):
            waiting.remove(case)
            job, name, number = planned[number_of(case)], case.label.outcome.partition, number_of(case)
            work = (late if now >= slow_at else works)[job.work]
            time_s = workload.seconds(work, job, name) * standin.noise(f"{seed} {number}")
            done = ran(case, now, time_s, work["power_w_" + name])
            here.promises.append(here.estimate(done))
            heapq.heappush(running, (now + time_s, number, done))
        arrivals = [BEGAN + planned[number_of(case)].at_s for case in to_come[:1]]
        now = min([next_tick, *arrivals, *(end for end, *_ in running[:1])])
        while running and running[0][0] <= now:
            case = heapq.heappop(running)[2]
            free[case.label.outcome.partition] += case.gpus
            ended.append(case)
        unfinished = [number_of(case) for case in (*to_come, *waiting, *(case for *_, case in running))]
        first = min(unfinished, default=count)
        here.known = [case for case in ended if not way.settled or number_of(case) < first]
        if now >= next_tick:
            here.tick(now)
            next_tick += TIMER_S
    return Run(here.promises, here.trainings, new_at, slow_at)


def number_of(case: Case) -> int:
    """Its place in the order of submission."""
    return case.label.outcome.job_id


def stretches(runs: Sequence[Run]) -> dict[str, Row]:
    """Figures of time, of all ``runs`` together: by source for the jobs that started before new programs came, and
    between that and the change; of all by how many had started since the change; of the first estimates by the first
    model."""
    found: dict[str, list[Promise]] = defaultdict(list)
    for run in runs:
        by_model = [promise for promise in run.promises if promise.estimate.source is Source.PROBE]
        for promise in [promise for promise in by_model if promise.model == by_model[0].model][:FIRST]:
            found["first model"].append(promise)
        since = 0
        for promise in sorted(run.promises, key=lambda promise: promise.outcome.start_time):
            start, source = promise.outcome.start_time, promise.estimate.source
            if start < run.slow_at:
                found[f"{'before' if start < run.new_at else 'with'} new programs, {source}"].append(promise)
            else:
                found[f"from {since // WIDTH * WIDTH:3} since the change"].append(promise)
                since += 1
    return {name: next(row for row in table(own) if row.target == "time") for name, own in sorted(found.items())}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=whole(1), default=5)
    arguments.add_argument("--jobs", type=whole(20), default=300)
    asked = arguments.parse_args()
    answer: dict[str, Any] = {**vars(asked)}
    ways: dict[str, list[Run]] = {name: [] for name in WAYS}
    for seed in range(1, asked.seeds + 1):
        for name, way in WAYS.items():
            run = perform(seed, asked.jobs, way)
            ways[name].append(run)
            print(
                f"{name}, seed {seed}: planted at {run.finished(run.new_at)} and {run.finished(run.slow_at)} finished"
            )
            for done in run.trainings:
                print(f"  {done}", flush=True)
    for name, own in ways.items():
        print(f"{name:36}jobs  error of time  80 % intervals hold")
        found = stretches(own)
        for what, row in found.items():
            if row.coverage is not None:
                print(f"  {what:34}{row.jobs:4}{row.median_ape:15.0%}{row.coverage:21.0%}")
        rows = {what: curve.rounded(asdict(row)) for what, row in found.items()}
        answer[name] = {"rows": rows, "trainings": [run.trainings for run in own]}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
