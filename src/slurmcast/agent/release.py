"""``slurmcast release``: every pending job gets back what it had.

Needs only the journal and scontrol: no store, no daemon, no pyslurm. The agent must not run, or it would order the
queue again.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from slurmcast.agent import journal

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True)
class Result:
    """What was done for one job. ``ok`` False: Slurm refused, and ``detail`` says why."""

    job_id: int
    ok: bool
    detail: str


def _scontrol(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["scontrol", *arguments], capture_output=True, text=True, timeout=60, check=False)


def release(path: Path, run: Run = _scontrol, now: Callable[[], float] = time.time) -> list[Result]:
    """Give back what the journal at ``path`` says; one result per job that was still pending and differed.

    A job is touched only where id and submit time match, since ids wrap. When all went well the journal is set aside as
    ``.released``, so that doing it twice does nothing the second time.
    """
    results = []
    for before in journal.read(path).values():
        shown = run(["show", "job", "--oneliner", str(before.job_id)])
        if shown.returncode != 0:
            if "Invalid job id" not in shown.stderr:
                results.append(Result(before.job_id, False, shown.stderr.strip()))
            continue
        for record in shown.stdout.splitlines():
            fields = dict(word.split("=", 1) for word in record.split() if "=" in word)
            if fields.get("JobState") == "PENDING" and _unix(fields.get("SubmitTime", "")) == before.submit_time:
                results += _give_back(before, fields, run, now())
                break  # an array's pending tasks are one record, updated by the base id
    if path.exists() and all(result.ok for result in results):
        path.replace(path.with_suffix(".released"))
    return results


def _give_back(before: journal.Before, fields: dict[str, str], run: Run, now: float) -> list[Result]:
    updates = []
    if fields.get("Partition") != before.partition:
        updates.append(f"Partition={before.partition}")
    if before.ordered:
        updates.append(f"SiteFactor={before.site_factor}")
    if before.begin_time > now and _unix(fields.get("EligibleTime", "")) == before.begin_time:
        updates.append("StartTime=now")
    problems = []
    if updates:
        done = run(["update", f"JobId={before.job_id}", *updates])
        problems += [done.stderr.strip()] if done.returncode != 0 else []
    if before.pinned:
        done = run(["release", str(before.job_id)])
        problems += [done.stderr.strip()] if done.returncode != 0 else []
        updates.append("priority released")
    if not updates:
        return []
    return [Result(before.job_id, not problems, "; ".join(problems or updates))]


def _unix(text: str) -> int:
    """Slurm's local ISO time as Unix seconds; 0 where it is none."""
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except ValueError:
        return 0
