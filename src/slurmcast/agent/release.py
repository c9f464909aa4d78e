"""``slurmcast release``: every pending job gets back what it had.

Needs only the journal and scontrol: no store, no daemon, no pyslurm. The agent must not run, or it would order the
queue again.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slurmcast.agent import journal
from slurmcast.agent.journal import Before

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True)
class Result:
    """What was done for one job, 0: for none of them. ``ok`` False: Slurm refused, and ``detail`` says why."""

    job_id: int
    ok: bool
    detail: str


def _scontrol(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = ["scontrol", *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", f"can't run scontrol: {error}")


def release(path: Path, run: Run = _scontrol, now: Callable[[], float] = time.time) -> list[Result]:
    """Give back what the journal at ``path`` says; one result per job that is still pending.

    A job is touched only where id and submit time match, since ids wrap, and only what still is as we set it. When all
    went well the journal is set aside as ``.released``, so that doing it twice does nothing the second time.
    """
    known = journal.read(path)
    if not known:
        return []
    shown = run(["show", "job", "--all", "--json"])
    if shown.returncode != 0:
        return [Result(0, False, f"{len(known)} jobs not looked at: {shown.stderr.strip()}")]
    results = []
    for record in json.loads(shown.stdout)["jobs"]:
        before = _journalled(record, known)
        if before is not None and (updates := _updates(before, record, now())):
            results.append(_give_back(before, updates, run))
    if all(result.ok for result in results):
        path.replace(path.with_suffix(".released"))
    return results


def _journalled(record: Mapping[str, Any], known: Mapping[journal.Key, Before]) -> Before | None:
    """What the journal has about a pending job, None where it is another job or waits no more."""
    if "PENDING" not in record["job_state"]:
        return None
    job_id, submit_time = int(record["job_id"]), _number(record["submit_time"])
    array_job_id = _number(record.get("array_job_id", 0))
    before = journal.lookup(known, job_id, submit_time, array_job_id, bool(_number(record["restart_cnt"])))
    return None if before is None else replace(before, job_id=job_id)


def _updates(before: Before, record: Mapping[str, Any], now: float) -> list[str]:
    """The words of ``scontrol update`` that undo us; ``release`` first stands for a priority to be let go."""
    updates = []
    if record["partition"] in before.places and record["partition"] != before.partition and not before.taken_over:
        updates.append(f"Partition={before.partition}")
    if before.ordered:
        updates.append(f"SiteFactor={before.site_factor}")
    if before.begin_time > now and _number(record["eligible_time"]) == before.begin_time:
        updates.append("StartTime=now")
    if before.pinned and before.nice:
        updates.append(f"Nice={before.nice}")
    return ["release", *updates] if before.pinned else updates


def _give_back(before: Before, updates: Sequence[str], run: Run) -> Result:
    problems, job_id = [], str(before.job_id)
    fields = [update for update in updates if update != "release"]
    if "release" in updates:  # first: it is what makes a site factor and nice count again
        done = run(["release", job_id])
        problems += [done.stderr.strip()] if done.returncode != 0 else []
    if fields:
        done = run(["update", f"JobId={job_id}", *fields])
        problems += [done.stderr.strip()] if done.returncode != 0 else []
    return Result(before.job_id, not problems, "; ".join(problems or updates))


def _number(value: Any) -> int:
    """Slurm's JSON numbers: plain ones, or objects that also say whether they are set."""
    if isinstance(value, Mapping):
        return int(value["number"]) if value.get("set") else 0
    return int(value)
