"""Scripts on their way to the chat server and back, beside everything else: nothing waits for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from slurmcast.align import Result
from slurmcast.config import AlignConfig
from slurmcast.daemon.estimator import Estimator, Work

T = TypeVar("T")

log = logging.getLogger("slurmcast.aligning")


class Aligning:
    """A bounded queue; ``renew`` is called for each submission that was rewritten, with the key of its text.

    Belongs to the event loop that runs where it is used.
    """

    def __init__(self, config: AlignConfig, estimator: Estimator, renew: Callable[[int, str], Awaitable[None]]) -> None:
        self._config, self._estimator, self._renew = config, estimator, renew
        self._queue: asyncio.Queue[tuple[int, Work]] = asyncio.Queue(config.max_waiting)
        self._threads = ThreadPoolExecutor(config.in_flight, "align")
        self._passed_over = 0

    @property
    def results(self) -> dict[str, int]:
        """What became of the scripts that were offered, for the metrics; empty where rewriting is switched off."""
        rewriter = self._estimator.rewriter
        if rewriter is None:
            return {}
        return {**{result: rewriter.results[result] for result in Result}, "passed_over": self._passed_over}

    def offer(self, submission: int, work: Work) -> None:
        """Have the script rewritten, where that is switched on and there is room for it."""
        if self._estimator.rewriter is None or not work.reading.text:
            return
        try:
            self._queue.put_nowait((submission, work))
        except asyncio.QueueFull:
            self._passed_over += 1

    async def run(self) -> None:
        """Deal with what is offered. Ends only by cancellation."""
        if self._estimator.rewriter is not None:
            await self._in_thread(self._estimator.rewriter.load)
        async with asyncio.TaskGroup() as group:
            for _ in range(self._config.in_flight):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            submission, work = await self._queue.get()
            try:
                if await self._in_thread(self._estimator.align, work):
                    await self._renew(submission, work.text_key)
            except Exception:  # one script that can't be dealt with must not stop the others
                log.exception("submission %d isn't rewritten, its estimate stands", submission)

    async def _in_thread(self, function: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    def close(self) -> None:
        """Let go of the threads; what they are at ends when the estimator is closed."""
        self._threads.shutdown(wait=False, cancel_futures=True)
