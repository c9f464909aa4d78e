"""Which scripts run on which partitions, at what cost, and what is to be submitted next. Pure."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

from slurmcast.label.judge import Judgement, judge
from slurmcast.label.words import Batch, Budget, Cell, Cost, End, Place, Run, Work

RETRIES = 3
"""How often runs of a cell that a node's failure or a preemption ended are tried again."""
_GPU_OPTIONS = ("gres", "gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "tres-per-task")


class Exclusive(StrEnum):
    """With whom a run may share its nodes."""

    USER = "user"
    """With one's own jobs only."""
    NODE = "node"
    """With nobody; Slurm then gives the job all GPUs of its nodes."""
    GPU = "gpu"
    """With anybody; only the GPUs are its own."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How cells are run."""

    least: int = 2
    most: int = 3
    in_flight: int = 10
    """Runs that may wait in Slurm's queue at a time; one job array may always."""
    exclusive: Exclusive = Exclusive.USER


@dataclass(frozen=True, slots=True)
class Unfit:
    """A script that isn't run on a partition, and why."""

    work: Work
    partition: str
    reason: str


def cell(work: Work, place: Place, exclusive: Exclusive, expected_s: float | None = None) -> Cell | Unfit:
    """``work`` on ``place``, or why that can't be."""
    options: tuple[str, ...] = ()
    limit_s = work.limit_s or place.default_limit_s
    if work.refusal:
        return Unfit(work, place.name, work.refusal)
    if limit_s is None:
        return Unfit(work, place.name, "it has no time limit, so its cost has no bound: give it #SBATCH --time")
    types = set((work.request.type or "").split(",")) - {""} if work.request else set()
    if types - place.types:
        if len(types) > 1 or len(place.types) != 1:
            has = ", ".join(sorted(place.types)) or "GPUs without a type"
            return Unfit(work, place.name, f"it asks for {', '.join(sorted(types))}, and the partition has {has}")
        options = _retyped(work.options, min(types), min(place.types))
    gpus = work.gpus
    if "exclusive" in work.options:
        exclusive = exclusive if work.options["exclusive"] else Exclusive.NODE
    elif exclusive is not Exclusive.GPU:
        options += ("--exclusive=user" if exclusive is Exclusive.USER else "--exclusive",)
    if exclusive is Exclusive.NODE or place.whole_nodes:
        gpus = max(gpus, work.nodes * place.gpus_per_node)
    return Cell(work, place.name, gpus, limit_s, options, expected_s, place.mean_w, place.most_w)


def _retyped(options: Mapping[str, str], old: str, new: str) -> tuple[str, ...]:
    """The GPU options of a script with the type of its GPUs replaced."""
    name = re.compile(rf"(?<![\w.-]){re.escape(old)}(?![\w.-])")
    return tuple(
        f"--{option}={name.sub(new, options[option])}"
        for option in _GPU_OPTIONS
        if option in options and name.search(options[option])
    )


class Stage(StrEnum):
    """How far a cell has come."""

    WANTED = "wanted"
    """Runs are to be submitted."""
    RUNNING = "running"
    """Runs wait or run in Slurm."""
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the command. What was cancelled before it is tried again, what failed before it only on ``retry``."""

    at: float = 0.0
    """Unix seconds of its beginning."""
    retry: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a cell."""

    cell: Cell
    stage: Stage
    judgement: Judgement
    counted: tuple[Run, ...] = ()
    """The complete runs, by their start."""
    open: int = 0
    """Runs that Slurm has."""
    reason: str = ""
    """Why it failed."""
    blamed: Run | None = None
    """The run that failed."""


def standing(
    cell: Cell, batches: Sequence[Batch], runs: Sequence[Run], still_open: int, rules: Rules, call: Call = Call()
) -> Standing:
    """How ``cell`` stands after its own ``batches`` and their ended ``runs``, of which ``still_open`` aren't over."""
    ends: dict[End, list[Run]] = {kind: [] for kind in End}
    for run in sorted(runs, key=lambda run: (run.start, run.task)):
        ends[run.end].append(run)
    counted = tuple(run for run in ends[End.COUNTS] if run.final)
    judgement = judge([run.elapsed_s for run in counted], rules.least, rules.most)
    failed = [run for run in ends[End.FAILED] if not call.retry or run.at >= call.at]
    refused = [batch.refused for batch in batches if batch.refused and (not call.retry or batch.at >= call.at)]
    cancelled = [run for run in ends[End.CANCELLED] if run.at >= call.at]
    again = [run for run in ends[End.AGAIN] if run.final and run.at >= call.at]

    def stands(stage: Stage, reason: str = "", blamed: Run | None = None) -> Standing:
        return Standing(cell, stage, judgement, counted, still_open, reason, blamed)

    if failed:
        return stands(Stage.FAILED, _words(failed[0]), failed[0])
    if refused:
        return stands(Stage.FAILED, refused[-1])
    if still_open:
        return stands(Stage.RUNNING)
    if not judgement.more:
        return stands(Stage.DONE)
    if cancelled:
        return stands(Stage.CANCELLED, "a run was cancelled", cancelled[-1])
    if len(again) > RETRIES:
        return stands(Stage.FAILED, f"{len(again)} runs ended with {again[-1].state}", again[-1])
    return stands(Stage.WANTED)


def _words(run: Run) -> str:
    code, _, signal = run.exit_code.partition(":")
    how = f"signal {signal}" if signal not in ("", "0") else f"exit code {code}"
    told = {
        "FAILED": how,
        "TIMEOUT": "it reached its time limit",
        "OUT_OF_MEMORY": "it was out of memory",
        "DEADLINE": "its deadline came before its end",
    }
    return told.get(run.state, run.state)


def totals(standings: Sequence[Standing], rules: Rules) -> tuple[Cost, Cost]:
    """What the runs that aren't submitted yet will cost as expected, and at the very most."""
    expected, most = Cost(), Cost()
    for s in standings:
        if s.stage is Stage.WANTED:
            expected += s.cell.expected(s.judgement.more)
        if s.stage in (Stage.WANTED, Stage.RUNNING):
            most += s.cell.at_most(max(rules.most - len(s.counted) - s.open, 0))
    return expected, most


def affordable(committed: Cost, budget: Budget, cell: Cell, runs: int) -> bool:
    """Whether ``runs`` more runs can't bring what is spent and committed above the budget, however long they take."""
    return (committed + cell.at_most(runs)).fits(budget)


@dataclass(frozen=True, slots=True)
class Next:
    """What is to be submitted now, and the cells that the budget keeps back."""

    submit: tuple[tuple[Cell, int], ...] = ()
    """Cells with the number of runs."""
    beyond: tuple[Cell, ...] = ()


def following(standings: Sequence[Standing], committed: Cost, waiting: int, budget: Budget, rules: Rules) -> Next:
    """What to submit, where ``committed`` is spent or may yet be, and ``waiting`` runs wait in the queue.

    Runs of one script never run side by side, for they may write the same files. Scripts that have been begun go first,
    then those for the partition that has least to do.
    """
    busy = {s.cell.work.path for s in standings if s.open}
    load = Counter(chain.from_iterable([s.cell.partition] * s.open for s in standings))
    lines: dict[tuple[bool, str], deque[tuple[int, Standing]]] = {}
    for place, s in enumerate(standings):
        if s.stage is Stage.WANTED:
            lines.setdefault((not s.counted, s.cell.partition), deque()).append((place, s))
    submit, beyond = [], []
    while lines:
        first = min(lines, key=lambda line: (line[0], load[line[1]], lines[line][0][0]))
        _, chosen = lines[first].popleft()
        if not lines[first]:
            del lines[first]
        runs = chosen.judgement.more
        if chosen.cell.work.path in busy:
            continue
        if not affordable(committed, budget, chosen.cell, runs):
            beyond.append(chosen.cell)
            continue
        if waiting and waiting + runs > rules.in_flight:
            continue
        submit.append((chosen.cell, runs))
        busy.add(chosen.cell.work.path)
        load[chosen.cell.partition] += runs
        committed, waiting = committed + chosen.cell.at_most(runs), waiting + runs
    return Next(tuple(submit), tuple(beyond))
