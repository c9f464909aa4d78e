"""Which submission became which job. The hook has no job id, so what both sides know must do. Pure.

A job and a submission can belong together when user, name, submit time (within ``SLACK_S``), grace and arguments agree.
Where as many jobs as submissions agree, they are paired in their order: ids and spool files both count
up. Otherwise the script that Slurm keeps decides, by its hash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slurmcast.model import Job
from slurmcast.store.store import Stored

SLACK_S = 2


def agrees(job: Job, submission: Stored) -> bool:
    """Whether the submission can have become the job."""
    if abs(job.submit_time - submission.submit_time) > SLACK_S or job.uid != submission.uid:
        return False
    if submission.begin_time and job.begin_time != submission.begin_time and job.state == "PENDING":
        return False
    tail = " ".join(submission.arguments)
    return not tail or job.submit_line.endswith(" " + tail)


def pair(jobs: Sequence[Job], candidates: Mapping[int, Sequence[Stored]]) -> dict[int, int]:
    """Job id -> submission id for those jobs whose match is certain.

    ``candidates``: for each job id the submissions that agree, oldest first. Jobs with the same candidates are a group.
    """
    groups: dict[tuple[int, ...], list[int]] = {}
    for job in sorted(jobs, key=lambda job: job.job_id):
        ids = tuple(submission.id for submission in candidates.get(job.job_id, ()))
        if ids:
            groups.setdefault(ids, []).append(job.job_id)
    matched: dict[int, int] = {}
    taken: set[int] = set()
    for ids, members in sorted(groups.items(), key=lambda group: len(group[0])):
        free = [submission for submission in ids if submission not in taken]
        if len(free) == len(members):
            matched.update(zip(members, free, strict=True))
            taken.update(free)
    return matched
