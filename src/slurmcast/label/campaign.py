"""The labelling itself: look at Slurm, write down what ended, submit what the rules and the budget allow."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slurmcast.label import slurm
from slurmcast.label.plan import Call, Next, Rules, Stage, Standing, following, standing
from slurmcast.label.slurm import Accounted, Later, Limit, Queued, SlurmError, Task, Unsure
from slurmcast.label.state import State
from slurmcast.label.words import Batch, Budget, Cell, Cost, End, Run, end, spent
from slurmcast.label.works import work
from slurmcast.model import DAY_S

NEVER_RAN_AFTER_S = 60.0
"""A run that neither queue nor accounting knows for so long never started: a start would be in the accounting."""
PAUSES_S = (1.0, 15.0)
"""Between two looks at Slurm: the first after something happened, and the longest."""
STORE_EVERY_S = 60.0
"""How often slurmcastd is asked about ended runs, of which it hears some time after their end."""
UNSURE_S = 120.0
"""How long a request that slurmctld may have heard can take to become a job."""
SKEW_S = DAY_S
"""So far slurmctld's clock may be from the one here: what was submitted longer before a job array isn't of it, even
with its id, for ids come round."""
_ORDINARY = frozenset({"None", "Priority", "Resources", "JobArrayTaskLimit"})
"""Reasons for waiting that pass by themselves."""

Known = Callable[[Sequence[int]], Mapping[tuple[int, int], tuple[float | None, bool]]]
"""What slurmcast's store has about ended runs, for job ids: by (job id, start) the energy in kWh, None where that isn't
known, and whether it learns from the run."""


@dataclass(frozen=True, slots=True)
class View:
    """How far the whole is."""

    standings: tuple[Standing, ...]
    waiting: int
    running: int
    spent: Cost
    committed: Cost
    """Spent, and what the runs that Slurm has may yet cost."""
    beyond: tuple[Cell, ...] = ()
    trouble: str = ""
    """Why Slurm can't be asked or takes nothing at present."""

    @property
    def over(self) -> bool:
        """Whether nothing more will happen: Slurm has no run, and what isn't settled is beyond the budget."""
        unsettled = {s.cell.id for s in self.standings if s.stage in (Stage.WANTED, Stage.RUNNING)}
        return not any(s.open for s in self.standings) and unsettled <= {cell.id for cell in self.beyond}


class Campaign:
    """One call's work on ``cells``. ``tell`` is given one line for each thing that happens."""

    def __init__(
        self,
        cells: Sequence[Cell],
        state: State,
        rules: Rules,
        known: Known,
        *,
        logs: Path,
        nice: int | None = None,
        retry: bool = False,
        tell: Callable[[str], None],
    ) -> None:
        self._cells, self._state, self._rules, self._known = cells, state, rules, known
        self._logs, self._nice, self.tell = logs, nice, tell
        self._call = Call(time.time(), retry)
        self._missing: dict[Task, float] = {}
        self._told: set[tuple[str, str]] = set()
        self._unsure: set[str] = set()
        self._queue: dict[Task, Queued] = {}
        self._asked_at = -STORE_EVERY_S

    def look(self) -> View:
        """Look at Slurm and write down what has ended. Submits nothing."""
        trouble = ""
        try:
            self._settle()
        except SlurmError as error:
            trouble = str(error)
        if time.monotonic() - self._asked_at >= STORE_EVERY_S:
            self.ask_store()
        return self._view(trouble)

    def step(self, budget: Budget) -> View:
        """One round: look, cancel what would only fail again, submit what the budget allows."""
        view = self.look()
        if view.trouble:
            return view
        self._cancel_hopeless(view.standings)
        view = self._view("")
        plan = following(view.standings, view.committed, view.waiting, budget, self._rules)
        trouble = self._submit(plan)
        return replace(self._view(trouble), beyond=plan.beyond)

    def cancel(self) -> int:
        """Cancel all that Slurm still has; how many runs."""
        live = self._open_batches()
        slurm.cancel(batch.job_id for batch in live)
        return sum(len(self._state.open_tasks(batch)) for batch in live)

    # What Slurm says

    def _open_batches(self) -> list[Batch]:
        return [batch for batch in self._state.batches.values() if batch.job_id and self._state.open_tasks(batch)]

    def _recover(self) -> None:
        """Find out what became of job arrays for which Slurm's answer was never heard."""
        unsure = [batch for batch in self._state.batches.values() if not batch.job_id and not batch.refused]
        if not unsure:
            return
        found = slurm.find(unsure, min(batch.at for batch in unsure) - SKEW_S)
        for batch in unsure:
            if job_id := found.get(batch.id):
                self._state.submitted(batch, job_id)
                self.tell(f"{_name(batch)}: found again as job array {job_id}")
            elif time.time() - batch.at > UNSURE_S:
                self._state.void(batch)
            elif batch.id not in self._unsure:
                self._unsure.add(batch.id)
                self.tell(f"{_name(batch)}: Slurm may have been asked for it; looked for until {UNSURE_S:.0f} s later")

    def _settle(self) -> None:
        self._recover()
        live = self._open_batches()
        if not live:
            return
        self._queue = slurm.queued()
        accounts = slurm.accounted({batch.job_id: batch.at - SKEW_S for batch in live})
        for batch in live:
            rest_cancelled = any((batch.job_id, slurm.REST) in told for told in (self._queue, accounts))
            for task in self._state.open_tasks(batch):
                place = (batch.job_id, task)
                here, past = self._queue.get(place), accounts.get(place, [])
                for run in self._ended(batch, task, here, past, rest_cancelled):
                    known = self._state.runs.get((run.batch, run.task, run.start))
                    self._state.ended([replace(known, final=run.final) if known else run])
                    if not known:
                        self.tell(f"{_name(batch)}: {_words(run)}")
                if here is not None:
                    self._tell_of_waiting(batch, here)

    def _ended(
        self, batch: Batch, task: int, here: Queued | None, past: Sequence[Accounted], rest_cancelled: bool
    ) -> list[Run]:
        """The ended runs of one place of an array; the last is final unless that place is in the queue again."""
        live = here is not None and end(here.state) is None
        facts, now = (batch.id, batch.job_id, task), time.time()
        if past:
            return [
                Run(*facts, a.job_id, a.start, a.state, a.elapsed_s, a.gpus, now,
                    not live and a is past[-1], a.exit_code, a.nodes)
                for a in past
            ]  # fmt: skip
        if here is None:
            missing_s = time.monotonic() - self._missing.setdefault((batch.job_id, task), time.monotonic())
            cancelled = rest_cancelled or missing_s > NEVER_RAN_AFTER_S
        else:
            cancelled = here.state == "CANCELLED" and not here.began  # of others the accounting will hear
        return [Run(*facts, batch.job_id, 0, "CANCELLED", 0.0, 0, now)] if cancelled else []

    def _tell_of_waiting(self, batch: Batch, here: Queued) -> None:
        unusual = here.state == "PENDING" and here.reason not in _ORDINARY
        if unusual and (batch.id, here.reason) not in self._told:
            self._told.add((batch.id, here.reason))
            self.tell(f"{_name(batch)}: job {batch.job_id} waits: {here.reason}")

    def ask_store(self) -> None:
        """Learn what slurmcast's store has about ended runs by now."""
        self._asked_at = time.monotonic()
        unknown = [
            run for run in self._state.runs.values()
            if run.elapsed_s and run.start and (run.energy_kwh is None or not run.is_label)
        ]  # fmt: skip
        known = self._known(sorted({run.job_id for run in unknown})) if unknown else {}
        for run in unknown:
            if (run.job_id, run.start) in known:
                energy_kwh, is_label = known[run.job_id, run.start]
                energy_kwh = run.energy_kwh if energy_kwh is None else energy_kwh
                self._state.ended([replace(run, energy_kwh=energy_kwh, is_label=is_label)])

    def _view(self, trouble: str) -> View:
        batches, runs = self._state.batches, list(self._state.runs.values())
        of_cell: dict[tuple[str, str], list[Batch]] = {}
        for batch in batches.values():
            of_cell.setdefault(batch.cell, []).append(batch)
        of_batch: dict[str, list[Run]] = {}
        for run in runs:
            of_batch.setdefault(run.batch, []).append(run)
        still_open = {batch.id: self._state.open_tasks(batch) for batch in batches.values()}
        standings = []
        for cell in self._cells:
            own = of_cell.get(cell.id, [])
            ended = [run for batch in own for run in of_batch.get(batch.id, [])]
            open_runs = sum(len(still_open[batch.id]) for batch in own)
            standings.append(standing(cell, own, ended, open_runs, self._rules, self._call))
        tasks = [(batch.job_id, task) for batch in batches.values() for task in still_open[batch.id]]
        running = sum(task in self._queue and self._queue[task].state != "PENDING" for task in tasks)
        used = spent(runs, batches)
        committed = used
        for batch in batches.values():
            for _ in still_open[batch.id]:
                committed += batch.one_at_most
        return View(tuple(standings), len(tasks) - running, running, used, committed, trouble=trouble)

    # What is asked of Slurm

    def _cancel_hopeless(self, standings: Sequence[Standing]) -> None:
        """The waiting runs of scripts that have failed would fail as well."""
        failed = {s.cell.id for s in standings if s.stage is Stage.FAILED and s.open}
        arrays = [batch.job_id for batch in self._open_batches() if batch.cell in failed]
        slurm.cancel(arrays, pending_only=True)

    def _submit(self, plan: Next) -> str:
        """Submit what is planned, in order; why it stopped before the end, or nothing."""
        for cell, runs in plan.submit:
            batch = Batch(
                uuid.uuid4().hex[:12], time.time(), cell.work.key, str(cell.work.path), cell.work.arguments,
                cell.partition, runs, cell.gpus, cell.limit_s, cell.mean_w, cell.most_w,
            )  # fmt: skip
            nice = () if self._nice is None else (f"--nice={self._nice}",)
            comment = cell.work.options.get("comment", "")
            self._state.intend(batch)
            try:
                _check(cell)
                log = Path(str(self._logs).replace("%", "%%"), f"{_plain(cell.work.path.name)}-%A_%a.out")
                job_id = slurm.submit(batch, (*cell.options, *nice), log, comment, self._state.file)
            except Unsure as error:
                return str(error)
            except SlurmError as error:
                # With no other run of ours there, a limit is on the job's own size.
                if isinstance(error, Later) and (self._open_batches() or not isinstance(error, Limit)):
                    self._state.void(batch)
                    return str(error)
                self._state.refused(batch, str(error))
                self.tell(f"{_name(batch)}: refused: {error}")
                continue
            self._state.submitted(batch, job_id)
            self.tell(f"{_name(batch)}: {runs} run{'s' if runs > 1 else ''} submitted as job array {job_id}")
        return ""


def _check(cell: Cell) -> None:
    """Raise SlurmError where the script isn't there any more, or asks by now for something else: the budget holds for
    what was planned."""
    try:
        now = work(cell.work.path, cell.work.arguments)
    except OSError as error:
        raise SlurmError(f"{cell.work.path}: {error.strerror}") from None
    if replace(now, key=cell.work.key) != cell.work:
        raise SlurmError("what it asks for was changed meanwhile; --retry tries again")


def _plain(name: str) -> str:
    """A file's name as a part of one that sbatch takes for a pattern. A job's name may be anything, a path too."""
    return re.sub(r"[^\w.+-]", "_", name)


def _name(batch: Batch) -> str:
    return f"{' '.join([Path(batch.script).name, *batch.arguments])} on {batch.partition}"


def _words(run: Run) -> str:
    job = f"{run.array}_{run.task}"
    if run.end is End.COUNTS:
        return f"job {job} ran {run.elapsed_s:.0f} s"
    code = f" (exit code {run.exit_code})" if run.state == "FAILED" else ""
    return f"job {job} ended with {run.state}{code}, which doesn't count"
