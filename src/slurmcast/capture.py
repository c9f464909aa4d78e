"""``slurmcast capture``: hands the sources of this user's new jobs to slurmcastd, which wants them (docs/capture.md).

It is started in the background after sbatch, by slurm/cli_filter, and reads what the user may read. The daemon has the
script; which files that starts is found out here, in the same way as there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from slurmcast.client import Client, ClientError
from slurmcast.codec import from_json
from slurmcast.config import Config
from slurmcast.model import Submission
from slurmcast.script.reader import read
from slurmcast.script.sources import MyFiles

PATIENCE_S = 3.0
"""How long to wait for the daemon to hear of a job that was just submitted."""
LONGEST_S = 50.0
"""Jobs that are submitted later are the next process's."""


def sources(submission: Submission) -> dict[str, bytes]:
    """The files that the submission's script starts, by absolute path, as far as this process may read them."""
    mine = MyFiles()
    read(submission, mine)
    return mine.taken


def as_json_text(data: bytes) -> str:
    """``data`` as JSON carries it: Latin-1, which the daemon turns back into the same bytes."""
    return data.decode("latin-1")


def run(config: Config) -> Iterator[list[str]]:
    """Answer the daemon until it has wanted nothing for a while; the paths that it took, submission by submission.

    Raises ClientError where the daemon is away or wants no sources at all.
    """
    client, after, end = Client(config), 0, time.monotonic() + LONGEST_S
    while time.monotonic() < end:
        wanted = client.request("GET", f"/v1/capture?after={after}&timeout={PATIENCE_S:g}")["wanted"]
        if wanted is None:
            return
        after = wanted["number"]
        script = wanted["script"].encode("latin-1")
        taken = sources(from_json(Submission, wanted["submission"] | {"script": script}))
        if not taken:  # the files may be those of another host, from which the job was submitted
            continue
        body = {"number": after, "sources": {path: as_json_text(data) for path, data in taken.items()}}
        try:
            client.request("POST", "/v1/capture", body)
        except ClientError as error:
            if not error.status:
                raise
            continue  # this one isn't wanted any more, or is too large; there may be others
        yield list(taken)
