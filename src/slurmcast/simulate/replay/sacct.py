"""What ``sacct --parsable2`` printed, as a history: for a site that has no store yet, or another cluster's."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from slurmcast.simulate.replay.history import Past
from slurmcast.simulate.replay.trace import LARGEST, MOST_GPUS, TraceError

COMMAND = "sacct -aXP -S now-30days -o JobID,User,Partition,Submit,Eligible,Start,Elapsed,Timelimit,State,AllocTRES"
NEEDED = ("JobID", "Partition", "Submit", "Start", "Elapsed", "AllocTRES")
"""Columns without which there is nothing to replay. ``Eligible``, ``Timelimit``, ``State`` and ``User`` are used where
they are there."""
ZONE = UTC
"""Times are taken for this zone's: sacct prints local ones without a zone, and only differences matter."""
NOT_OVER = ("RUNNING", "SUSPENDED", "COMPLETING")
UNKNOWN = ("", "Unknown", "None", "N/A")
_GPUS = re.compile(r"gres/gpu(?::([^=,]+))?=([0-9]+)")
_SPAN = re.compile(r"(?:([0-9]{1,7})-)?(?:([0-9]{1,9}):)?([0-9]{1,9}):([0-9]{1,9})(?:\.[0-9]+)?")


def clock(at: float) -> float:
    """What the local clocks showed at ``at`` (Unix seconds), as the times of runs stand for it here."""
    return datetime.fromtimestamp(at).replace(tzinfo=ZONE).timestamp()


def read(path: Path) -> list[Past]:
    """The runs on GPUs that are over. Raises :class:`TraceError` with file, line and column.

    The time that a job could have started from is ``Eligible`` where there is such a column: before, it was held or
    waited for others, which no policy can change. Energies aren't taken over: Slurm's are those of whole nodes.
    """
    found = []
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            rows = csv.DictReader(file, delimiter="|", quoting=csv.QUOTE_NONE)
            if missing := [name for name in NEEDED if name not in (rows.fieldnames or ())]:
                raise TraceError(f"{path}:1: no column {', '.join(missing)}; made by: {COMMAND}")
            for row in rows:
                if None in row or None in row.values():
                    raise TraceError(f"{path}:{rows.line_num}: not as many fields as the first line has columns")
                if (run := _past(row, f"{path}:{rows.line_num}")) is not None:
                    found.append(run)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from None
    except csv.Error as error:
        raise TraceError(f"{path}: after line {rows.line_num}: {error}; made by: {COMMAND}") from None
    return found


def _past(row: Mapping[str, str], where: str) -> Past | None:
    """None for a step of a job, a job without GPUs, and one that never began or isn't over."""
    gpus = _GPUS.findall(row["AllocTRES"])
    if "." in row["JobID"] or not gpus or row["Start"] in UNKNOWN or row.get("State") in NOT_OVER:
        return None
    if any(len(count) > len(str(MOST_GPUS)) for _, count in gpus):
        raise TraceError(f"{where}: AllocTRES = {row['AllocTRES'][:80]!r}: must have at most {MOST_GPUS} GPUs")
    typed = [(name, int(count)) for name, count in gpus if name]
    total = next((int(count) for name, count in gpus if not name), sum(count for _, count in typed))
    run_s = _span_s(row["Elapsed"])
    if run_s is None:
        raise TraceError(f"{where}: Elapsed = {row['Elapsed']!r}: must be like 1-02:03:04")
    if not run_s or not total:
        return None
    eligible = "Eligible" if row.get("Eligible", "") not in UNKNOWN else "Submit"
    limit_s = _span_s(row.get("Timelimit", ""))
    return Past(
        submit_s=_moment(row, eligible, where),
        start_s=_moment(row, "Start", where),
        run_s=run_s,
        partition=row["Partition"],
        gpu_type=typed[0][0] if typed else row["Partition"],
        gpus=total,
        user=row.get("User", ""),
        limit_s=math.inf if limit_s is None else limit_s,
    )


def _span_s(text: str) -> float | None:
    """``[D-][HH:]MM:SS`` in s, None for anything else such as UNLIMITED."""
    match = _SPAN.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _moment(row: Mapping[str, str], column: str, where: str) -> float:
    """Unix seconds, of a time as sacct prints it by default or with ``SLURM_TIME_FORMAT=%s``."""
    text = row[column]
    try:
        moment = float(text) if text.isdecimal() else datetime.fromisoformat(text).replace(tzinfo=ZONE).timestamp()
        if not moment < LARGEST:
            raise ValueError
    except ValueError:
        raise TraceError(f"{where}: {column} = {text[:80]!r}: must be like 2026-11-30T12:00:00") from None
    return moment
