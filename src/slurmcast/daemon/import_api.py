"""The import's request: past runs with what was submitted. Their scripts are encoded behind those of new jobs.

Everything here has a thread and a connection to the store of its own, so that neither a new submission nor the agent
waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from slurmcast.codec import from_json
from slurmcast.config import Config
from slurmcast.daemon.desk import Desk
from slurmcast.daemon.estimator import Estimator, Work
from slurmcast.daemon.intake import Intake
from slurmcast.daemon.requests import Answer, Ask
from slurmcast.encoder.base import EncoderAway
from slurmcast.model import Reading, Submission
from slurmcast.store.past import Past, PastRun
from slurmcast.store.records import NewSubmission
from slurmcast.store.store import StoreError

T = TypeVar("T")

log = logging.getLogger("slurmcast.import")

BUSY_S = 0.05
"""How often to look whether new submissions still wait for the encoder."""
RETRY_S = 5.0
MAX_TRIES = 3
"""For a text that the encoder refuses; one that is away is waited for."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some past runs and, by identity, what was submitted for those that the store may not know yet."""

    runs: tuple[PastRun, ...]
    submissions: dict[str, Submission]


class ImportApi:
    """Takes batches of past runs, and has their texts encoded while no new submission waits."""

    def __init__(self, config: Config, desk: Desk, estimator: Estimator, intake: Intake) -> None:
        self._config, self._desk, self._estimator, self._intake = config, desk, estimator, intake
        self._past = Past(config.paths.store, config.cluster)
        self._thread = ThreadPoolExecutor(1, "import")
        self._news = asyncio.Event()

    async def runs(self, ask: Ask) -> Answer:
        """Store a batch, each run once. Answers how many were new, and the identities of submissions that must be sent
        (again) with their runs."""
        body = ask.field("runs", list), ask.field("submissions", dict, {})
        batch = await self._do(partial(_batch, *body))
        unknown = await self._do(partial(self._keep, batch))
        self._news.set()
        outcomes = [run.outcome for run in batch.runs]
        return {"new": await self._desk.do(lambda store: store.add_outcomes(outcomes)), "unknown": unknown}

    def _keep(self, batch: Batch) -> list[str]:
        read = {identity: self._read(submission) for identity, submission in batch.submissions.items()}
        completed = {run.identity for run in batch.runs if run.outcome.state == "COMPLETED"}
        wanted = {new.text_key for identity, new in read.items() if identity in completed and self._is_new(new)}
        return self._past.keep(batch.runs, read, wanted)

    def _read(self, submission: Submission) -> NewSubmission:
        work = self._estimator.read(submission, from_disk=False)  # what lies there now may be another program
        named = tuple(submission.partition.split(",")) if submission.partition else work.reading.partitions
        return NewSubmission(
            submission, work.reading, work.text_key, named, keep_script=self._config.daemon.keep_scripts
        )

    def _is_new(self, new: NewSubmission) -> bool:
        encoder = self._estimator.encoder
        return encoder is not None and encoder.get(new.text_key) is None

    async def encode(self) -> None:
        """Have the texts of past submissions encoded, one at a time. Ends only by cancellation."""
        while True:
            self._news.clear()
            try:
                if self._estimator.encoder is None or not await self._encode_next():
                    await self._news.wait()
            except (StoreError, OSError, sqlite3.Error) as error:
                log.error("past scripts can't be encoded, trying again in %g s: %s", RETRY_S, error)
                await asyncio.sleep(RETRY_S)

    async def _encode_next(self) -> bool:
        """Whether there was a text."""
        text = await self._do(self._past.waiting)
        if text is None:
            return False
        while self._intake.queued:
            await asyncio.sleep(BUSY_S)
        trouble = await self._intake.encoded(Work(_bare(text.text), text.text_key))
        if isinstance(trouble, EncoderAway):
            await asyncio.sleep(RETRY_S)
        elif trouble is not None and text.tries + 1 < MAX_TRIES:
            await self._do(partial(self._past.refused, text))
        else:
            await self._do(partial(self._past.encoded, text))
        return True

    async def _do(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        """Wait for what is being stored."""
        self._thread.shutdown(cancel_futures=True)
        self._past.close()


def _batch(runs: list[Any], submissions: Mapping[str, Any]) -> Batch:
    return Batch(
        tuple(from_json(PastRun, run) for run in runs),
        {identity: _submission(facts) for identity, facts in submissions.items()},
    )


def _submission(facts: dict[str, Any]) -> Submission:
    script = facts["script"]
    if not isinstance(script, str):
        raise TypeError("script: must be a string")
    return from_json(Submission, facts | {"script": script.encode("latin-1")})


def _bare(text: str) -> Reading:
    return Reading("", text, {})
