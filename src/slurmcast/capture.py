"""``slurmcast capture``: hands the sources of this user's new jobs to slurmcastd, which wants them (docs/capture.md).

It is started in the background after sbatch, by slurm/cli_filter, and reads what the user may read. The daemon has the
script; which files that starts is found out here, in the same way as there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from slurmcast.client import Client, ClientError
from slurmcast.codec import from_json
from slurmcast.config import Config
from slurmcast.model import Submission
from slurmcast.script.reader import read
from slurmcast.script.sources import MyFiles

PATIENCE_S = 10.0
"""How long the daemon may take to hear of a job that was just submitted."""
PAUSES_S = (0.05, 0.5)
"""Between two questions, from the shortest to the longest."""
MAX_JOBS = 100
"""Jobs that one question is about."""


def sources(submission: Submission) -> dict[str, bytes]:
    """The files that the submission's script starts, by absolute path, as far as this process may read them."""
    mine = MyFiles()
    read(submission, mine)
    return mine.taken


def as_json_text(data: bytes) -> str:
    """``data`` as JSON carries it: Latin-1, which the daemon turns back into the same bytes."""
    return data.decode("latin-1")


def run(config: Config, jobs: Sequence[int]) -> Iterator[tuple[int, list[str]]]:
    """Hand over the sources of ``jobs``; each job of which some were taken, with their paths.

    Raises ClientError where the daemon is away or wants no sources at all.
    """
    client, waiting, pause_s, end = Client(config), list(jobs), PAUSES_S[0], time.monotonic() + PATIENCE_S
    while waiting:
        asked, later = waiting[:MAX_JOBS], waiting[MAX_JOBS:]
        answer = client.request("GET", f"/v1/capture?jobs={','.join(map(str, asked))}")
        if wanted := answer["wanted"]:
            job_id = wanted["job_id"]
            waiting.remove(job_id)
            if taken := _handed_over(client, job_id, wanted):
                yield job_id, taken
            pause_s, end = PAUSES_S[0], time.monotonic() + PATIENCE_S
            continue
        waiting = answer["unknown"] + later
        if time.monotonic() > end:
            return
        time.sleep(pause_s if waiting else 0)
        pause_s = min(2 * pause_s, PAUSES_S[1])


def _handed_over(client: Client, job_id: int, wanted: dict[str, Any]) -> list[str]:
    """The paths of the job's sources that the daemon has taken."""
    script = wanted["script"].encode("latin-1")
    taken = sources(from_json(Submission, wanted["submission"] | {"script": script}))
    body = {"sources": {path: as_json_text(data) for path, data in taken.items()}}
    try:
        client.request("POST", f"/v1/capture/{job_id}", body)
    except ClientError as error:
        if not error.status:
            raise
        return []  # this job's aren't wanted any more, or are too large; there may be others
    return list(taken)
