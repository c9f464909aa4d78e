"""What the store knows of a job, as ``explain`` and ``queue`` show it (the contract of ``--json``)."""

from __future__ import annotations

from typing import Any

from slurmcast.daemon.footprints import Footprints
from slurmcast.daemon.requests import Answer
from slurmcast.model import Job
from slurmcast.store.store import Known, Store

UNDECIDED = "slurmcast has not decided about this job: it is new, or it started before it was seen waiting."


def explanation(store: Store, known: Known, footprints: Footprints, now: float) -> Answer:
    """The answer of ``explain`` for a job. Its footprint is that of its last run, or of a start ``now``."""
    stored = store.submission(known.submission) if known.submission is not None else None
    estimates = store.estimates(known.submission) if known.submission is not None else ()
    decision = known.decision or {}
    return {
        "job_id": known.job_id,
        "user": known.user,
        "name": known.name,
        "submit_time": known.submit_time,
        "key": stored.reading.key if stored else None,
        "estimates": footprints.shown(estimates, store.last_start(known) or now),
        "made_from": stored.reading.made_from if stored else None,
        "sources": list(stored.reading.sources) if stored else [],
        "numbers": stored.reading.numbers if stored else {},
        "eligibility": decision.get("verdicts", []),
        "values": decision.get("values", []),
        "rank": decision.get("rank"),
        "decision": _short(decision) if decision else None,
        "reason": decision.get("reason", UNDECIDED),
    }


def waiting(store: Store, jobs: list[Job], footprints: Footprints, now: float) -> list[Answer]:
    """The answer of ``queue``: pending jobs, by partition and rank."""
    rows = []
    for job in jobs:
        known = store.find_job(job.job_id, job.submit_time)
        if known is not None:
            shown = explanation(store, known, footprints, now)
            decision = shown["decision"]
            partition = decision["partition"] if decision else ",".join(job.partitions)
            rows.append({"partition": partition, "slurm_priority": job.priority, **shown})
    return sorted(rows, key=lambda row: (row["partition"], row["rank"] is None, row["rank"] or 0, row["job_id"]))


def _short(decision: dict[str, Any]) -> Answer:
    """A decision as the contract has it: the partition, site factor or priority, and when."""
    kind = "priority" if decision["priority"] is not None else "site_factor"
    return {"partition": decision["partition"], kind: decision[kind], "at": decision["at"]}
