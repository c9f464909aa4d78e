"""Submissions on their way in: spool file or script read back -> stored with a quick estimate -> the best one.

A spool file is removed only when its estimate has been committed: killed at any point, the daemon finds it again, and
the store knows it by its name. A script that was read back has no file; the agent is asked for it again.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from watchfiles import awatch

from slurmcast.config import Config
from slurmcast.daemon.aligning import Aligning
from slurmcast.daemon.desk import Desk
from slurmcast.daemon.estimator import Estimator, Work
from slurmcast.daemon.spool import Spool, SpoolError
from slurmcast.daemon.wishes import AWAITED_S, Wish, Wishes
from slurmcast.encoder.base import EncoderAway, EncoderError
from slurmcast.labels import runs
from slurmcast.model import Estimate, Source, Submission
from slurmcast.probe.history import Run
from slurmcast.store.store import NewSubmission, Origin, Store, Stored, StoreError

T = TypeVar("T")

log = logging.getLogger("slurmcast.intake")

RESCAN_S = 5.0
RETRY_S = 5.0
MAX_WAITING = 2000
"""Submissions whose text is held in memory until it is encoded (up to 64 KiB each); more wait in the spool."""
MAX_POSTPONED = 500
"""The same, while the encoder fails. The scripts of more are read back from Slurm afterwards."""
LONGEST_PAUSE_S = 60.0
MAX_TRIES = 20
"""For a text that the encoder refuses, over some 17 minutes; one that is away is waited for."""


@dataclass(frozen=True, slots=True)
class _Task:
    """A stored submission whose estimate is to be made."""

    submission: int
    work: Work
    spool_name: str | None = None
    revision: NewSubmission | None = None
    """A better reading than the stored one; it and its estimates take the places of the former ones together."""
    tries: int = 0
    """How often the encoder has failed at it."""


class Intake:
    """Takes submissions in; ``on_estimate`` is called after each new estimate."""

    def __init__(self, config: Config, desk: Desk, estimator: Estimator, on_estimate: Callable[[], None]) -> None:
        self._config, self._desk, self._estimator = config, desk, estimator
        self._on_estimate = on_estimate
        self._spool = Spool(config.paths.spool, config.paths.rejected)
        self._queue: asyncio.PriorityQueue[tuple[bool, int, _Task]] = asyncio.PriorityQueue(MAX_WAITING)
        self._numbers = itertools.count()
        self._inside: set[str] = set()  # names of spool files that are being dealt with, or can't be removed
        self._reading, self._encoding = ThreadPoolExecutor(1, "read"), ThreadPoolExecutor(1, "encode")
        self._postponed: set[int] = set()
        self.queued: dict[int, _Task] = {}
        """Submissions whose estimate is still to be made, each with the latest of its tasks."""
        self.wishes = Wishes()
        self.aligning = Aligning(config.align, estimator, self._renew)
        self.rejected = 0
        self.encode_seconds = 0.0

    @property
    def full(self) -> bool:
        """Whether a script that is read back now would have to wait."""
        return self._queue.full() or len(self._postponed) >= MAX_POSTPONED

    @property
    def room(self) -> int:
        """For how many submissions there is room in the queue."""
        return MAX_WAITING - self._queue.qsize()

    async def watch(self) -> None:
        """Take in what lies in the spool and what comes. Ends only by cancellation."""
        while True:
            try:
                await self._scan()
                changes = awatch(
                    self._config.paths.spool,
                    debounce=50,
                    step=10,
                    rust_timeout=int(RESCAN_S * 1000),
                    yield_on_timeout=True,
                    recursive=False,
                )
                async for _ in changes:
                    await self._scan()
            except* (OSError, StoreError, RuntimeError) as group:
                # A full disk, a spool that isn't mounted yet: nothing is lost, files stay where they are. RuntimeError:
                # what watchfiles makes of a name that is no UTF-8, which the next scan sets aside.
                problem = "; ".join(map(str, group.exceptions))
                log.error("the spool can't be taken in, trying again in %g s: %s", RETRY_S, problem)
                await asyncio.sleep(RETRY_S)

    async def _scan(self) -> None:
        for name in await self._read(self._spool.names):
            if name not in self._inside:
                await self._take(name)

    async def _take(self, name: str) -> None:
        self._inside.add(name)
        try:
            submission = await self._read(partial(self._spool.submission, name))
            if submission is not None:
                await self.add(submission, name)
                return
        except SpoolError as error:
            await self._reject(name, str(error))
        except (OSError, StoreError):
            self._inside.discard(name)
            raise
        except Exception as error:  # one submission that can't be dealt with must not stop the others
            log.exception("spool file %s", name)
            await self._reject(name, f"it can't be dealt with: {type(error).__name__}: {error}")
        self._inside.discard(name)

    async def _reject(self, name: str, reason: str) -> None:
        if await self._read(partial(self._spool.reject, name, reason)):
            self.rejected += 1

    async def add(self, submission: Submission, spool_name: str | None = None) -> int:
        """Store a submission with a quick estimate and queue it for the best one; its id in the store.

        Waits while the queue is full. Raises StoreError.
        """
        new, work = await self._understand(submission, spool_name)
        estimates = await self._quick(new, work)
        stored = await self._desk.do(lambda store: store.add(new, estimates))
        self._wish(stored, new)
        await self._put(_Task(stored, work, spool_name))
        return stored

    async def complete(self, stored: Stored, submission: Submission) -> None:
        """Read a stored submission anew, now that its whole script is known. Raises StoreError."""
        new, work = await self._understand(submission, None)
        estimates = await self._quick(new, work)
        await self._desk.do(lambda store: store.revise(stored.id, new, estimates))
        self._wish(stored.id, new)
        await self._put(_Task(stored.id, work))

    def _wish(self, stored: int, new: NewSubmission) -> None:
        """Want the sources of the user where some are missing."""
        if not (self._config.daemon.capture and new.submission.complete and new.reading.missing_sources):
            return
        wish = self.wishes.add(stored, new.submission)
        if wish is not None:
            asyncio.get_running_loop().call_later(AWAITED_S, self._awaited_long_enough, wish)

    def _awaited_long_enough(self, wish: Wish) -> None:
        """From now on the estimate stands as it is; the agent, which has let the job wait for it, is told."""
        if self.wishes.get(wish.stored) is wish:
            self._on_estimate()

    async def revise(self, wish: Wish, sources: Mapping[str, bytes]) -> int:
        """Read a submission anew with its sources, which queues its estimate; how many were of use."""
        new, work = await self._understand(wish.submission, None, sources)
        if new.reading.sources:
            await self._put(_Task(wish.stored, work, revision=new))
        else:
            self._on_estimate()
        return len(new.reading.sources)

    def is_awaited(self, stored: int) -> bool:
        """Whether a better estimate, with the submission's sources, is on its way."""
        task = self.queued.get(stored)
        return self.wishes.awaited(stored) or (task is not None and task.revision is not None)

    def again(self, outdated: Iterable[Stored]) -> None:
        """Queue submissions for an estimate by the present model, as many as there is room for. Their vectors are in
        the cache; those whose aren't get the prior."""
        for stored in outdated:
            if stored.id not in self.queued and not self._queue.full():
                task = _Task(stored.id, Work(stored.reading, stored.text_key))
                self.queued[stored.id] = task
                self._queue.put_nowait(self._turn(task))

    async def _understand(
        self, submission: Submission, spool_name: str | None, sources: Mapping[str, bytes] | None = None
    ) -> tuple[NewSubmission, Work]:
        work = await self._read(partial(self._estimator.read, submission, sources))
        named = tuple(submission.partition.split(",")) if submission.partition else work.reading.partitions
        keep = self._config.daemon.keep_scripts
        return NewSubmission(submission, work.reading, work.text_key, named, spool_name, keep), work

    async def _quick(self, new: NewSubmission, work: Work) -> tuple[Estimate, ...]:
        """What can be said without waiting for the encoder: by what the submitter's jobs took, by the probe where the
        text is known. In a burst of new scripts the best estimate is many seconds away."""
        try:
            estimates, _ = await self._best(work, Origin.of(new.submission, work.reading), self._reading)
        except (OSError, sqlite3.Error):  # whatever it is, it is tried again for the best estimate
            return self._estimator.prior(work.reading)
        return estimates

    async def _put(self, task: _Task) -> None:
        """Queue a task. Where a former one of its submission hasn't begun one estimate is enough, and its spool file
        becomes this one's."""
        former = self.queued.get(task.submission)
        if former is not None and task.spool_name is None:
            task = replace(task, spool_name=former.spool_name)
        self.queued[task.submission] = task
        await self._queue.put(self._turn(task))

    def _turn(self, task: _Task) -> tuple[bool, int, _Task]:
        """In the order of their coming, but submissions whose text is encoded come before those whose text isn't."""
        return not task.work.encoded, next(self._numbers), task

    async def estimate(self) -> None:
        """Make the queued estimates, one at a time. Ends only by cancellation."""
        while True:
            _, _, task = await self._queue.get()
            if self.queued.get(task.submission) is not task:
                continue  # a better reading has come meanwhile
            trouble = await self.encoded(task.work)
            again = isinstance(trouble, EncoderAway) or (trouble is not None and task.tries < MAX_TRIES)
            if not again or not task.tries:
                while not await self._finished(task, final=not again):
                    await asyncio.sleep(RETRY_S)
                self._on_estimate()
            if self.queued.get(task.submission) is not task or (again and self._postpone(task)):
                continue
            del self.queued[task.submission]
            self._postponed.discard(task.submission)
            # A file that can't be removed stays known, so that it isn't taken in over and over.
            if task.spool_name is not None and await self._read(partial(self._spool.remove, task.spool_name)):
                self._inside.discard(task.spool_name)

    async def encoded(self, work: Work) -> EncoderError | None:
        """Have the text's vector made, where there is none; what came in the way, and may go by itself."""
        loop, began = asyncio.get_running_loop(), time.perf_counter()
        try:
            await loop.run_in_executor(self._encoding, self._estimator.encode, work)
        except EncoderError as error:
            return error
        except (OSError, sqlite3.Error) as error:
            return EncoderAway(f"the vector can't be kept: {error}")
        except Exception:  # whatever the encoder makes of one text, the daemon goes on without the vector
            log.exception("no vector for key %s", work.reading.key)
        finally:
            self.encode_seconds += time.perf_counter() - began
        return None

    def _postpone(self, task: _Task) -> bool:
        """Queue the task again after a while; whether there is room for it to wait. Until then what has been estimated
        without the vector stands, and is not called final."""
        if len(self._postponed) >= MAX_POSTPONED and task.submission not in self._postponed:
            return False
        self._postponed.add(task.submission)
        later = replace(task, tries=task.tries + 1)
        self.queued[task.submission] = later
        pause_s = min(RETRY_S * 2**task.tries, LONGEST_PAUSE_S)
        asyncio.get_running_loop().call_later(pause_s, self._resume, later)
        return True

    def _resume(self, task: _Task) -> None:
        if self._queue.full():
            asyncio.get_running_loop().call_later(RETRY_S, self._resume, task)
        else:
            self._queue.put_nowait(self._turn(task))

    async def _finished(self, task: _Task, *, final: bool) -> bool:
        try:
            origin = await self._desk.do(lambda store: store.origin(task.submission, task.work.reading.key))
            estimates, model = await self._best(task.work, origin, self._encoding)
            await self._desk.do(lambda store: _keep(store, task, estimates, model if final else None))
        except (StoreError, OSError, sqlite3.Error) as error:
            log.error("no estimate for submission %d, trying again in %g s: %s", task.submission, RETRY_S, error)
            return False
        if final and all(estimate.source in (Source.PRIOR, Source.UNKNOWN) for estimate in estimates):
            self.aligning.offer(task.submission, task.work)
        return True

    async def _renew(self, submission: int, text_key: str) -> None:
        """Queue a submission for an estimate from its rewriting, unless it has another text by now."""
        stored = await self._desk.do(lambda store: store.current(submission, text_key))
        if stored is not None and submission not in self.queued:
            await self._put(_Task(submission, Work(stored.reading, text_key)))

    async def _best(
        self, work: Work, origin: Origin | None, thread: ThreadPoolExecutor
    ) -> tuple[tuple[Estimate, ...], str]:
        """What the estimator makes of the work and of the submitter's finished runs that tell of it."""
        past = await self._past(origin)
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(thread, self._estimator.estimate, work, past)
        except (OSError, sqlite3.Error):
            raise
        except Exception:  # whatever the probe makes of one text, the daemon goes on
            log.exception("no estimate by the probe for key %s, the prior stands", work.reading.key)
            return self._estimator.prior(work.reading), self._estimator.model_version

    async def _past(self, origin: Origin | None) -> list[Run]:
        """The submitter's finished runs that tell of the work; none where they can't be read: one damaged row is one
        user's trouble."""
        try:
            return await self._desk.do(lambda store: runs(store.past(origin), origin) if origin is not None else [])
        except StoreError as error:
            log.error("no estimate by history: %s", error)
            return []

    async def _read(self, function: Callable[[], T]) -> T:
        """Files and scripts are read in a thread of their own: neither disk nor CPU stops the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._reading, function)

    def close(self) -> None:
        """Let go of the threads; what they are at is given up."""
        self._reading.shutdown(wait=False, cancel_futures=True)
        self._encoding.shutdown(wait=False, cancel_futures=True)
        self.aligning.close()


def _keep(store: Store, task: _Task, estimates: tuple[Estimate, ...], model: str | None) -> None:
    if task.revision is None:
        store.set_estimates(task.submission, estimates, model)
    else:
        store.revise(task.submission, task.revision, estimates, model)
