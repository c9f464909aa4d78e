"""What the store knows of a job, as ``explain`` and ``queue`` show it (the contract of ``--json``)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from slurmcast.daemon.footprints import Footprints
from slurmcast.daemon.requests import Answer
from slurmcast.model import Job
from slurmcast.store.promises import LastRun
from slurmcast.store.store import Known, Store

UNDECIDED = "slurmcast has not decided about this job: it is new, or it started before it was seen waiting."
GONE = "It waits no more: it was cancelled, or Slurm is still to say how it ended."


class Place(NamedTuple):
    """Where a waiting job stands now."""

    rank: int
    setting: int
    """The site factor or priority that it is to have."""


Places = Mapping[int, Place]
"""By job id; who isn't among them waits no more, or is left alone."""


def explanation(
    store: Store, known: Known, places: Places, footprints: Footprints, now: float, waits: bool | None = True
) -> Answer:
    """The answer of ``explain`` for a job. Its footprint is that of its last run, or of a start ``now``. ``waits``:
    None where nobody has looked yet."""
    run = store.last_run(known.job_id, known.submit_time)
    stored = store.submission(known.submission) if known.submission is not None else None
    estimates = store.estimates(known.submission) if known.submission is not None else ()
    decision = _placed(known.decision or {}, places.get(known.job_id))
    return {
        "job_id": known.job_id,
        "user": known.user,
        "name": known.name,
        "submit_time": known.submit_time,
        "key": stored.reading.key if stored else None,
        "estimates": footprints.shown(estimates, run.start_time if run else now),
        "made_from": stored.reading.made_from if stored else None,
        "sources": list(stored.reading.sources) if stored else [],
        "numbers": stored.reading.numbers if stored else {},
        "eligibility": decision.get("verdicts", []),
        "values": decision.get("values", []),
        "rank": decision.get("rank"),
        "decision": _short(decision) if decision else None,
        "reason": _reason(decision, None if waits else run, gone=waits is False),
    }


def waiting(store: Store, jobs: list[Job], places: Places, footprints: Footprints, now: float) -> list[Answer]:
    """The answer of ``queue``: pending jobs, by partition and rank."""
    rows = []
    for job in jobs:
        known = store.find_job(job.job_id, job.submit_time)
        if known is not None:
            shown = explanation(store, known, places, footprints, now)
            decision = shown["decision"]
            partition = decision["partition"] if decision else ",".join(job.partitions)
            rows.append({"partition": partition, "slurm_priority": job.priority, **shown})
    return sorted(rows, key=lambda row: (row["partition"], row["rank"] is None, row["rank"] or 0, row["job_id"]))


def _reason(decision: dict[str, Any], run: LastRun | None, gone: bool) -> str:
    """Why the job waits; of one that has begun, where it runs or ran, and why it was to be there; of one that is
    ``gone`` without a run, that it is."""
    planned: str = decision.get("reason", "")
    if run is None and gone and planned:
        return f"{GONE} While it waited: {planned}"
    if run is None or run.of_array:
        return planned or UNDECIDED
    began = datetime.fromtimestamp(run.start_time)
    if run.state:
        ended = datetime.fromtimestamp(run.start_time + int(run.elapsed_s))
        told = f"It ran on {run.partition} from {began} to {ended} and ended as {run.state}."
    else:
        told = f"It has run on {run.partition} since {began}."
    return f"{told} While it waited: {planned}" if planned else told


def _placed(decision: dict[str, Any], place: Place | None) -> dict[str, Any]:
    """The decision with the job's present place, which is told more often."""
    return decision | {"rank": place.rank, _kind(decision): place.setting} if decision and place else decision


def _kind(decision: dict[str, Any]) -> str:
    return "priority" if decision["priority"] is not None else "site_factor"


def _short(decision: dict[str, Any]) -> Answer:
    """A decision as the contract has it: the partition, site factor or priority, and when."""
    kind = _kind(decision)
    return {"partition": decision["partition"], kind: decision[kind], "at": decision["at"]}
