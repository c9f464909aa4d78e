"""Which submission became which job. The hook has no job id, so what both sides know must do. Pure.

A job and a submission can belong together when user, name, submit time (within ``SLACK_S``), grace, named partition
and arguments agree. Jobs and submissions that hang together so form a knot. One of each is a match. Where a knot has as
many jobs as submissions, they are paired in their order, for ids and spool files both count up; since two commands of
one user can overtake each other, such pairs are certain only where it makes no difference, and the script that Slurm
keeps has the last word (:func:`by_script`). Other knots wait, for a spool file or the script.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slurmcast.model import Job
from slurmcast.store.records import Stored, readable

SLACK_S = 2


@dataclass(frozen=True, slots=True)
class Match:
    """``certain``: nothing but this submission can have become the job, or any other would do as well."""

    job: Job
    submission: int
    certain: bool


@dataclass(frozen=True, slots=True)
class Knot:
    """Jobs and submissions that can belong together, each in the order in which they came."""

    jobs: tuple[Job, ...]
    submissions: tuple[Stored, ...]


def agrees(job: Job, stored: Stored, slack_s: int = SLACK_S) -> bool:
    """Whether the submission can have become the job. A job without a name is one whose name couldn't be read."""
    submission = stored.submission
    if abs(job.submit_time - submission.submit_time) > slack_s or job.uid != submission.uid:
        return False
    if job.name and readable(job.name) != readable(submission.name):
        return False
    if submission.begin_time and job.begin_time != submission.begin_time and job.state == "PENDING":
        return False
    if submission.partition and not _is_there(job, set(submission.partition.split(","))):
        return False
    tail = readable(" ".join(submission.argv[1:]))
    return not tail or readable(job.submit_line).endswith(" " + tail)


def _is_there(job: Job, named: set[str]) -> bool:
    """Whether the job has the partitions that were named; once it runs, one of them."""
    here = set(job.partitions)
    return here == named if job.state == "PENDING" else here <= named


def match(jobs: Iterable[Job], submissions: Iterable[Stored]) -> list[Match]:
    """Matches for those ``jobs`` that have one among the ``submissions`` which no other job has yet.

    A knot that doesn't come out even is looked at second by second.
    """
    found: list[Match] = []
    for knot in knots(jobs, submissions, SLACK_S):
        matched = _paired(knot)
        if not matched:
            matched = [one for part in knots(knot.jobs, knot.submissions, 0) for one in _paired(part)]
        found += matched
    return found


def knots(jobs: Iterable[Job], submissions: Iterable[Stored], slack_s: int) -> list[Knot]:
    """Take the jobs and submissions apart into what hangs together; what has no counterpart is left out."""
    by_second: dict[tuple[int, int], list[Stored]] = defaultdict(list)
    for stored in submissions:
        by_second[stored.submission.uid, stored.submission.submit_time].append(stored)
    knot_of: dict[int, int] = {}  # submission -> the knot that it is in
    members: dict[int, tuple[list[Job], dict[int, Stored]]] = {}
    for number, job in enumerate(jobs):
        seconds = range(job.submit_time - slack_s, job.submit_time + slack_s + 1)
        near = [s for second in seconds for s in by_second.get((job.uid, second), ()) if agrees(job, s, slack_s)]
        if not near:
            continue
        joined: tuple[list[Job], dict[int, Stored]] = ([job], {stored.id: stored for stored in near})
        for other in {knot_of[stored.id] for stored in near if stored.id in knot_of}:
            its_jobs, its_submissions = members.pop(other)
            joined[0].extend(its_jobs)
            joined[1].update(its_submissions)
        members[number] = joined
        knot_of.update(dict.fromkeys(joined[1], number))
    return [
        Knot(
            tuple(sorted(its_jobs, key=lambda job: (job.submit_time, job.job_id))),
            tuple(sorted(its_submissions.values(), key=lambda stored: (stored.submission.submit_time, stored.id))),
        )
        for its_jobs, its_submissions in members.values()
    ]


def _paired(knot: Knot) -> list[Match]:
    jobs, submissions = knot.jobs, knot.submissions
    alike = len({_work(stored) for stored in submissions}) == 1
    if len(jobs) > len(submissions) or (len(jobs) < len(submissions) and not alike):
        return []
    pairs = list(zip(jobs, submissions, strict=False))
    if not all(agrees(job, stored) for job, stored in pairs):
        return []
    if not alike and len({_rights(stored) for stored in submissions}) > 1:
        return []  # a job must never get another's leave to be moved, not even for a moment
    certain = alike or len({stored.script_sha256 for stored in submissions}) == 1  # the script wouldn't tell
    return [Match(job, stored.id, certain) for job, stored in pairs]


def _work(stored: Stored) -> tuple[object, ...]:
    return stored.reading.key, stored.reading.time_limit_s, *_rights(stored)


def _rights(stored: Stored) -> tuple[object, ...]:
    """What decides whether a job may be moved."""
    reading = stored.reading
    return stored.named, reading.opted_in, reading.opted_out, stored.submission.begin_time > 0


def by_script(job: Job, script: bytes, candidates: Sequence[Stored]) -> Stored | None:
    """The one among ``candidates`` whose script this is; the likeliest, where there are several."""
    found = [stored for stored in candidates if stored.is_of(script)]
    lag = job.submit_time
    return min(found, key=lambda s: (not agrees(job, s), abs(lag - s.submission.submit_time), s.id), default=None)
