"""Measured energy to Slurm's accounting (``agent.write_energy``, docs/meter.md): once a run, when it is all known."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from slurmcast import files
from slurmcast.client import Client
from slurmcast.cluster.base import Cluster, ClusterError, Refused
from slurmcast.codec import from_json, to_json
from slurmcast.model import HOUR_S, J_PER_KWH, Outcome

log = logging.getLogger("slurmcast.agent")

WAIT_H = 24
"""For so many hours an energy is waited for."""
ASK_EVERY_S = 20
ASK_FOR = 1000
"""Runs in one request."""
MOST_IN_A_TURN = 20
"""Each is a call of sacctmgr, 20 ms or more; the rest waits for the next turn."""

Key = tuple[int, int, int]
"""Job id, submit time, start time."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """A run whose energy is to be written, or was."""

    ended: int
    written: bool = False
    hours: int = 0
    """For how many the daemon has been asked: counted, since a clock may be set."""


@dataclass
class EnergyWriter:
    """Remembers in ``path`` what it waits for and what it wrote, so that a restart neither skips nor repeats."""

    path: Path
    cluster: Cluster
    client: Client
    clock: Callable[[], float] = time.monotonic
    """In seconds; nobody sets it."""
    runs: dict[Key, Awaited] = field(default_factory=dict)
    asked_at: float = -math.inf
    hour_at: float = field(init=False)
    """When the hour began that is going on."""
    _saved: dict[Key, Awaited] = field(default_factory=dict)
    """What the file holds: after a write that failed, less."""

    def __post_init__(self) -> None:
        try:
            for *key, awaited in json.loads(self.path.read_text()):
                job_id, submit_time, start_time = map(int, key)
                self.runs[job_id, submit_time, start_time] = from_json(Awaited, awaited)
        except FileNotFoundError:
            pass
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            log.warning("%s can't be read (%s): energies of runs that waited aren't written", self.path, error)
        self._saved, self.hour_at = self.runs, self.clock()

    def expect(self, outcomes: Iterable[Outcome]) -> None:
        """Wait for the energy of these runs. Raises OSError where the file can't be written."""
        told = {(o.job_id, o.submit_time, o.start_time): Awaited(o.end_time) for o in outcomes}
        self._remember(told | self.runs)

    def turn(self, since: int) -> None:
        """Write what the daemon knows by now. ``since``: runs that ended before it aren't expected again.

        Raises ClientError, and OSError where the file can't be written.
        """
        now = self.clock()
        self._remember({key: run for key, run in self.runs.items() if not run.written or run.ended >= since})
        waiting = [key for key, run in self.runs.items() if not run.written]
        if waiting and now - self.asked_at >= ASK_EVERY_S:
            known = self._known(waiting)
            for key, energy_kwh in known[:MOST_IN_A_TURN]:
                if not self._write(key, energy_kwh):
                    break
            if len(known) <= MOST_IN_A_TURN:
                self.asked_at = now
            if now - self.hour_at >= HOUR_S:
                self.hour_at = now
                self._grow_older()

    def _known(self, waiting: list[Key]) -> list[tuple[Key, float]]:
        found: list[tuple[Key, float]] = []
        for first in range(0, len(waiting), ASK_FOR):
            asked = waiting[first : first + ASK_FOR]
            answer = self.client.request("POST", "/v1/agent/energy", {"runs": [list(key) for key in asked]})
            energies = zip(asked, answer["energy_kwh"], strict=True)
            found += [(key, energy_kwh) for key, energy_kwh in energies if energy_kwh is not None]
        return found

    def _grow_older(self) -> None:
        """Another hour has gone by."""
        older = {key: run if run.written else replace(run, hours=run.hours + 1) for key, run in self.runs.items()}
        self._remember({key: run for key, run in older.items() if run.hours < WAIT_H})

    def _write(self, key: Key, energy_kwh: float) -> bool:
        """Whether it makes sense to go on with others."""
        job_id, submit_time, start_time = key
        joules = round(energy_kwh * J_PER_KWH)
        try:
            self.cluster.write_energy(job_id, submit_time, start_time, joules)
            log.info("job %d: %d J written to Slurm's accounting", job_id, joules)
        except Refused as refusal:
            log.info("the energy isn't written: %s", refusal)
        except ClusterError as error:
            log.warning("energies aren't written for now: %s", error)
            return False
        self._remember(self.runs | {key: replace(self.runs[key], written=True)})
        return True

    def _remember(self, runs: dict[Key, Awaited]) -> None:
        self.runs = runs
        if runs != self._saved:
            files.replace(self.path, json.dumps([[*key, to_json(run)] for key, run in runs.items()]))
            self._saved = runs
