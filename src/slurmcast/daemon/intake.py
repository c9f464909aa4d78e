"""Submissions on their way in: spool file or script read back -> stored with a prior -> the probe's estimate.

A spool file is removed only when all that it is needed for has been committed: killed at any point, the daemon finds it
again, and the store knows it by its name.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from watchfiles import awatch

from slurmcast.config import Config
from slurmcast.daemon.estimator import Estimator
from slurmcast.daemon.spool import Spool, SpoolError, parse
from slurmcast.model import Reading, Submission
from slurmcast.store.store import NewSubmission, Store, StoreError

log = logging.getLogger("slurmcast.intake")

RESCAN_S = 5.0
RETRY_S = 5.0


@dataclass(frozen=True, slots=True)
class _Task:
    """A stored submission whose estimate is to be made. ``text`` is empty where the vector is in the cache."""

    submission: int
    reading: Reading
    text: str
    text_key: str
    spool_name: str | None = None


class Intake:
    """Takes submissions in; ``on_estimate`` is called after each new estimate."""

    def __init__(self, config: Config, store: Store, estimator: Estimator, on_estimate: Callable[[], None]) -> None:
        self._config, self._store, self._estimator = config, store, estimator
        self._on_estimate = on_estimate
        self._spool = Spool(config.paths.spool, config.paths.rejected)
        self._queue: asyncio.Queue[_Task] = asyncio.Queue()
        self._inside: set[str] = set()
        self._reading = ThreadPoolExecutor(1, "read")
        self._encoding = ThreadPoolExecutor(1, "encode")
        self.rejected = 0
        self.encode_seconds = 0.0

    @property
    def waiting(self) -> int:
        """Submissions whose estimate is still to be made."""
        return self._queue.qsize()

    async def watch(self) -> None:
        """Take in what lies in the spool and what comes. Ends only by cancellation."""
        while True:
            try:
                await self._scan()
                async for _ in awatch(
                    self._config.paths.spool,
                    debounce=20,
                    step=10,
                    rust_timeout=int(RESCAN_S * 1000),
                    yield_on_timeout=True,
                    recursive=False,
                ):
                    await self._scan()
            except (OSError, StoreError) as error:
                # A full disk, a spool that isn't mounted yet: nothing is lost, files stay where they are.
                log.error("the spool can't be taken in, trying again in %g s: %s", RETRY_S, error)
                await asyncio.sleep(RETRY_S)

    async def _scan(self) -> None:
        for name in self._spool.names():
            if name not in self._inside:
                await self._take(name)

    async def _take(self, name: str) -> None:
        try:
            content = self._spool.read(name)
            if content is None:
                return
            submission = parse(content)
        except SpoolError as error:
            self.rejected += 1
            self._spool.reject(name, str(error))
            return
        self._inside.add(name)
        try:
            await self.add(submission, name)
        except BaseException:
            self._inside.discard(name)
            raise

    async def add(self, submission: Submission, spool_name: str | None = None) -> int:
        """Store a submission with its prior and queue it for the probe; its id in the store."""
        loop = asyncio.get_running_loop()
        reading = await loop.run_in_executor(self._reading, self._estimator.read, submission)
        text_key = self._estimator.text_key(reading.text)
        named = tuple(submission.partition.split(",")) if submission.partition else reading.partitions
        new = NewSubmission(
            spool_name=spool_name,
            uid=submission.uid,
            user=submission.user,
            name=submission.name,
            submit_time=submission.submit_time,
            begin_time=submission.begin_time,
            script_sha256=hashlib.sha256(submission.script).hexdigest(),
            complete=submission.complete,
            reading=reading,
            text_key=text_key,
            named=named,
            arguments=submission.argv[1:],
            script=submission.script if self._config.daemon.keep_scripts else None,
        )
        stored = self._store.add(new, self._estimator.prior(reading))
        self._queue.put_nowait(_Task(stored, reading, reading.text, text_key, spool_name))
        return stored

    async def estimate(self) -> None:
        """Make the queued estimates, one at a time. Ends only by cancellation."""
        loop = asyncio.get_running_loop()
        while True:
            task = await self._queue.get()
            began = time.perf_counter()
            try:
                if task.text:
                    await loop.run_in_executor(self._encoding, self._estimator.encode, task.text)
                self.encode_seconds += time.perf_counter() - began
                estimates = self._estimator.predict(task.reading, task.text_key)
                self._store.set_estimates(task.submission, estimates, final=True)
            except (StoreError, OSError) as error:
                log.error("no estimate for submission %d, trying again in %g s: %s", task.submission, RETRY_S, error)
                self._queue.put_nowait(task)
                await asyncio.sleep(RETRY_S)
                continue
            if task.spool_name is not None:
                self._spool.remove(task.spool_name)
                self._inside.discard(task.spool_name)
            self._on_estimate()

    def estimate_again(self) -> None:
        """Queue what a new model, or an interrupted daemon, has left to do and whose vector is known."""
        for stored in self._store.unfinished():
            self._queue.put_nowait(_Task(stored.id, stored.reading, "", stored.text_key))
