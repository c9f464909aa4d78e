"""One run of a job on this node, while it lasts and when it ends. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from slurmcast.meter.accounting import Reading, Tally, add, counter_lost, finish
from slurmcast.meter.markers import Begin
from slurmcast.meter.record import MAX_GAP_SHARE, Ending, EnergyRecord, GpuUse, Method

BYTES_PER_GB = 2**30
HOST = "host"
"""The node's processors and memory among the readings and tallies of GPUs, which have their UUIDs."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run that the meter follows. Times are those of the clock that never jumps."""

    begin: Begin
    began: float
    tallies: dict[str, Tally]
    """By UUID, and :data:`HOST` where that is measured. A MIG device has none: its card's power isn't the job's."""
    before: dict[str, Tally] = field(default_factory=dict)
    """What each tally was before its last reading, which may turn out to have come after the run's end."""
    unresolved: tuple[str, ...] = ()
    """GPUs of the job that NVML hasn't found yet."""
    shared: str = ""
    """Why the energy isn't the job's own; empty where it is."""
    overlaps: frozenset[str] = field(default_factory=frozenset)
    """Keys of other runs on the same GPUs at the same time, as far as they aren't known to have been over."""
    busy_at: float = 0.0
    """The last sign of work on its GPUs."""
    at_busy: dict[str, Tally] = field(default_factory=dict)
    """The tallies at that time."""


def started(begin: Begin, began: float, with_host: bool = False) -> Run:
    """A run at its beginning. ``with_host``: the node's own energy is measured, and the run's if it has the node to
    itself."""
    host = {HOST: Tally(began)} if with_host and begin.whole_node else {}
    shared = "MPS" if begin.mps else ""
    return Run(begin, began, host, unresolved=begin.gpus, shared=shared, busy_at=began, at_busy=host)


def resolved(run: Run, word: str, uuid: str | None) -> Run:
    """The run once NVML knows what ``word`` means: a whole GPU's UUID, or None for (a part of) one split by MIG."""
    run = replace(run, unresolved=tuple(other for other in run.unresolved if other != word))
    if uuid is None:
        return replace(run, shared="MIG")
    fresh = {uuid: Tally(run.began)}
    return replace(run, tallies=run.tallies | fresh, at_busy=run.at_busy | fresh)


def read(run: Run, readings: Mapping[str, Reading], max_gap_s: float) -> Run:
    """The run after a look at the GPUs; one that couldn't be read at all has no reading."""
    tallies = {
        uuid: add(tally, readings[uuid], max_gap_s) if uuid in readings else tally
        for uuid, tally in run.tallies.items()
    }
    settled = {uuid: old for uuid, old in run.tallies.items() if tallies[uuid].settled > old.settled}
    run = replace(run, tallies=tallies, before=run.before | settled)
    mine = [readings[uuid] for uuid in tallies if uuid in readings]
    # With another run on the same GPU the work may be that one's.
    if not run.overlaps and any(reading.utilisation for reading in mine):
        return replace(run, busy_at=max(reading.at for reading in mine), at_busy=tallies)
    return run


def counters_lost(run: Run, of: Collection[str]) -> Run:
    """The run after those counters began anew."""
    lost = {uuid: counter_lost(tally) for uuid, tally in run.tallies.items() if uuid in of}
    return replace(run, tallies=run.tallies | lost)


def gpus(run: Run) -> set[str]:
    """The UUIDs of the run's GPUs that are known."""
    return run.tallies.keys() - {HOST}


def ended(
    run: Run, ending: Ending, end: float, after: Mapping[str, Reading], max_gap_s: float, wall_offset: float
) -> EnergyRecord:
    """What is to be reported of a run that ended at ``end``.

    ``after``: readings from after its end; ``wall_offset``: Unix time less the clock that never jumps.
    """
    if ending is Ending.EPILOG:
        tallies = {uuid: _finished(run, uuid, end, after.get(uuid), max_gap_s) for uuid in run.tallies}
    elif ending is Ending.GONE:
        tallies, end = run.at_busy, run.busy_at
    else:
        tallies = run.tallies
        end = max((t.settled for t in tallies.values()), default=run.began)
    # Up to the last sign of work there was no other run beside it.
    beside = run.overlaps if ending is not Ending.GONE else frozenset()
    begin = run.begin
    began = begin.at
    return EnergyRecord(
        cluster=begin.cluster,
        job_id=begin.job_id,
        start_time=begin.start_time,
        node=begin.node,
        nodes=begin.nodes,
        began=began,
        ended=max(began, end + wall_offset),
        ending=ending,
        gpus=len(begin.gpus),
        shared=run.shared or ("another job on the same GPU" if beside else ""),
        used=tuple(_use(uuid, tally) for uuid, tally in tallies.items() if uuid != HOST),
        host_energy_j=None if ending is Ending.REBOOT else _host_j(tallies.get(HOST), end - run.began),
    )


def _finished(run: Run, uuid: str, end: float, after: Reading | None, max_gap_s: float) -> Tally:
    tally = run.tallies[uuid]
    if end < tally.settled and uuid in run.before:
        return finish(run.before[uuid], end, tally.last, max_gap_s)
    return finish(tally, end, after, max_gap_s)


def _host_j(tally: Tally | None, duration_s: float) -> float | None:
    if tally is None or duration_s <= 0 or tally.gap_s > MAX_GAP_SHARE * duration_s:
        return None
    return tally.energy_j


def _use(uuid: str, tally: Tally) -> GpuUse:
    known_s = tally.counted_s + tally.sampled_s
    memory = tally.peak_memory_bytes
    return GpuUse(
        uuid=uuid,
        energy_j=tally.energy_j,
        method=Method.COUNTER if tally.counted_s > tally.sampled_s else Method.SAMPLED,
        counted_s=tally.counted_s,
        sampled_s=tally.sampled_s,
        gap_s=tally.gap_s,
        mean_power_w=tally.energy_j / known_s if known_s > 0 else None,
        peak_power_w=tally.peak_power_w,
        peak_memory_gb=None if memory is None else memory / BYTES_PER_GB,
        utilisation=tally.busy_s / tally.watched_s if tally.watched_s > 0 else None,
    )
