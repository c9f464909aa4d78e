"""The meter, one step at a time: markers to runs, readings to tallies, ended runs to records in the outbox."""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from slurmcast.meter import files, markers, run
from slurmcast.meter.accounting import Reading
from slurmcast.meter.files import Marker, Outbox, Saved, State
from slurmcast.meter.nvml import DriverGone, Nvml, NvmlError
from slurmcast.meter.rapl import Rapl
from slurmcast.meter.record import Ending, EnergyRecord
from slurmcast.meter.run import HOST, Run

log = logging.getLogger("slurmcast.meter")

SAVE_S = 5.0
"""What a killed meter may forget; shorter than what a trapezoid bridges."""
IDLE_S = 600.0
"""A run without work on its GPUs for so long may be over, its epilog lost: Slurm is asked."""
STRAY_S = 60.0
"""A marker that means nothing is removed after this time."""
NO_OUTBOX, NO_STATE = "records can't be written", "runs can't be saved"


class Clock:
    """The node's clocks."""

    def now(self) -> float:
        """Seconds of a clock that never jumps, and begins anew at each boot."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall(self) -> float:
        """Unix seconds."""
        return time.time()

    def boot_id(self) -> str:
        """Names this boot of the node."""
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def next_look(now: float, period_s: float, chance: random.Random) -> float:
    """When to read next: at a moment by chance within the next period.

    Looks in a fixed rhythm see the same phase of a load that repeats itself in that rhythm, again and again.
    """
    return (math.floor(now / period_s) + 1 + chance.random()) * period_s


@dataclass(frozen=True, slots=True)
class Suspect:
    """A run of which Slurm should say whether it goes on."""

    key: str
    job_id: int
    node: str


class Meter:
    """Follows the jobs on this node. One thread uses it."""

    def __init__(
        self,
        folder: Path,
        state: State,
        outbox: Outbox,
        nvml: Nvml,
        clock: Clock,
        max_gap_s: float,
        rapl: Rapl | None = None,
    ) -> None:
        """``rapl``: the node's own energy, where that is measured too."""
        self._folder, self._state, self._outbox = folder, state, outbox
        self._nvml, self._clock, self._max_gap_s, self._rapl = nvml, clock, max_gap_s, rapl
        self._boot_id = clock.boot_id()
        self._saved_at = 0.0
        self._silent: set[str] = set()
        self.runs: dict[str, Run] = {}
        self._ended: dict[str, EnergyRecord] = {}
        """Records that couldn't be written yet, by the key of the run."""
        self._restore()

    def step(self) -> None:
        """Look at markers and GPUs once. Raises OSError where the meter's folders can't be used."""
        now, offset = self._clock.now(), self._offset()
        self._put()
        dropped = [marker for marker in files.markers(self._folder) if marker.key not in self._ended]
        ends = {m.key: m for m in dropped if not m.begins}
        before = set(self.runs)
        for marker in dropped:
            if marker.begins and marker.key not in self.runs:
                self._begin(marker, ends, now, offset)
        self._resolve()
        readings = self._read() | self._read_host()
        for key in [key for key in self.runs if key in ends]:
            end = min(max(ends[key].at - offset, self.runs[key].began), now)
            self._close(key, Ending.EPILOG, end, readings)
        for marker in ends.values():
            self._tidy(marker)
        self.runs = {key: run.read(r, readings, self._max_gap_s) for key, r in self.runs.items()}
        if set(self.runs) != before or now - self._saved_at >= SAVE_S:
            self._save(now)
        if not self.runs:
            self._nvml.close()

    def suspects(self) -> frozenset[Suspect]:
        """Runs that may have ended without an epilog: idle for long, or with another run on their GPUs."""
        now = self._clock.now()
        found = (r for r in self.runs.values() if r.overlaps or now - r.busy_at > IDLE_S)
        return frozenset(Suspect(r.begin.key, r.begin.job_id, r.begin.node) for r in found)

    def heard(self, asked: Collection[Suspect], running: Collection[int]) -> None:
        """Take Slurm's answer about ``asked``: those jobs that still run here. The others are over."""
        for suspect in asked:
            if suspect.key in self.runs and suspect.job_id not in running:
                self._gone(suspect.key)
        self._save(self._clock.now())

    def _begin(self, marker: Marker, ends: dict[str, Marker], now: float, offset: float) -> None:
        try:
            begin = markers.parse(marker.path.name, marker.content, marker.at)
        except ValueError as error:
            log.warning("%s", error)
            begin = None
        if begin is None:
            self._tidy(marker)
            return
        for key, other in list(self.runs.items()):
            if other.begin.job_id == begin.job_id and key not in ends:  # requeued: the epilog of the run before is lost
                self._gone(key)
        new = run.started(begin, min(marker.at - offset, now), self._rapl is not None)
        self.runs[begin.key] = new
        for key, other in self.runs.items():
            ended = ends.get(key)
            beside = key != begin.key and (ended is None or ended.at > marker.at)
            if beside and set(other.begin.gpus) & set(begin.gpus):
                self.runs[key] = replace(other, overlaps=other.overlaps | {begin.key})
                new = replace(new, overlaps=new.overlaps | {key})
        self.runs[begin.key] = new
        log.info("job %d begins on %d GPU%s", begin.job_id, len(begin.gpus), "" if len(begin.gpus) == 1 else "s")

    def _resolve(self) -> None:
        for key, r in self.runs.items():
            for word in r.unresolved:
                try:
                    gpu = self._nvml.find(word)
                    uuid = None if gpu is None or gpu.split else gpu.uuid
                except NvmlError as error:
                    self._complain(f"{word if word.startswith('GPU-') else f'GPU {word}'} can't be found", str(error))
                    continue
                self.runs[key] = run.resolved(self.runs[key], word, uuid)

    def _read(self) -> dict[str, Reading]:
        uuids = sorted({uuid for r in self.runs.values() for uuid in run.gpus(r)})
        readings: dict[str, Reading] = {}
        for uuid in uuids:
            try:
                reading = self._nvml.read(uuid, self._clock.now())
            except DriverGone as error:
                self._complain("the driver can't be asked", str(error))
                self.runs = {key: run.counters_lost(r, uuids) for key, r in self.runs.items()}
                return {}
            if reading.power_w is None and reading.counter_j is None:
                self._complain(f"{uuid} can't be read", "it doesn't answer")
            else:
                self._silent.discard(f"{uuid} can't be read")
                readings[uuid] = reading
        self._silent.discard("the driver can't be asked")
        return readings

    def _read_host(self) -> dict[str, Reading]:
        if self._rapl is None or not any(HOST in r.tallies for r in self.runs.values()):
            return {}
        try:
            reading, goes_on = self._rapl.read(self._clock.now())
        except OSError as error:
            self._complain("the node's own energy can't be read", str(error))
            return {}
        if not goes_on:
            self.runs = {key: run.counters_lost(r, (HOST,)) for key, r in self.runs.items()}
        return {HOST: reading}

    def _complain(self, what: str, why: str) -> None:
        """Say it once, until it is over."""
        if what not in self._silent:
            log.warning("%s: %s", what, why)
            self._silent.add(what)

    def _gone(self, key: str) -> None:
        log.warning("job %d is over, and its epilog didn't run", self.runs[key].begin.job_id)
        self._close(key, Ending.GONE, self._clock.now(), {})
        for other, r in self.runs.items():
            self.runs[other] = replace(r, overlaps=r.overlaps - {key})

    def _close(self, key: str, ending: Ending, end: float, after: dict[str, Reading]) -> None:
        self._ended[key] = run.ended(self.runs.pop(key), ending, end, after, self._max_gap_s, self._offset())
        self._put()

    def _put(self) -> None:
        """Records to the outbox, and only then their markers away. On a full disk the next step tries again."""
        for key, record in list(self._ended.items()):
            try:
                self._outbox.put(record)
            except OSError as error:
                self._complain(NO_OUTBOX, str(error))
                return
            del self._ended[key]
            for suffix in ("begin", "end"):
                (self._folder / f"{key}.{suffix}").unlink(missing_ok=True)
        self._silent.discard(NO_OUTBOX)

    def _tidy(self, marker: Marker) -> None:
        """Remove a marker that means nothing, once it is certain that it isn't still being written."""
        if self._clock.wall() - marker.at > STRAY_S:
            marker.path.unlink(missing_ok=True)

    def _offset(self) -> float:
        return self._clock.wall() - self._clock.now()

    def _save(self, now: float) -> None:
        """Raises nothing: whatever the disk does, the looks at the GPUs go on."""
        self._saved_at = now
        if self._ended:  # what was saved last still has those runs
            return
        try:
            self._state.save(Saved(self._boot_id, self._offset(), tuple(self.runs.values())))
            self._silent.discard(NO_STATE)
        except OSError as error:
            self._complain(NO_STATE, str(error))

    def _restore(self) -> None:
        """Go on with what a killed meter followed; after a reboot those runs are over."""
        saved = self._state.load()
        if saved is None:
            return
        self.runs = {r.begin.key: r for r in saved.runs}
        if saved.boot_id != self._boot_id:
            for key, r in self.runs.items():
                self._ended[key] = run.ended(r, Ending.REBOOT, 0.0, {}, self._max_gap_s, saved.wall_offset)
            self.runs = {}
            self._put()
            self._save(self._clock.now())
