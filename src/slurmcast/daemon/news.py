"""The revision: a number that changes whenever the agent should look again."""

from __future__ import annotations

import asyncio
import time


class News:
    """Belongs to the event loop that runs where it is used."""

    def __init__(self) -> None:
        # Begins where no earlier daemon has been, so that an agent that outlived one sees a difference.
        self.revision = time.time_ns() // 1_000_000
        self._changed = asyncio.Event()

    def bump(self) -> None:
        """There is something new: wake who waits."""
        self.revision += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def differs(self, seen: int, timeout_s: float) -> int:
        """The revision, as soon as it isn't ``seen``, else after ``timeout_s``."""
        if self.revision == seen:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait()
            except TimeoutError:
                pass
        return self.revision
