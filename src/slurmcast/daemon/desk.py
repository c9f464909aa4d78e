"""The store behind a thread of its own: the event loop never waits for a disk, and nothing needs a lock."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from slurmcast.store.store import Store, StoreError

T = TypeVar("T")


class Desk:
    """Runs what is to be done with the store, one thing after the other."""

    def __init__(self, store: Store) -> None:
        self._store, self._thread = store, ThreadPoolExecutor(1, "store")

    async def do(self, work: Callable[[Store], T]) -> T:
        """The result of ``work``. Raises :class:`StoreError` for every fault of the store."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, work)

    def _run(self, work: Callable[[Store], T]) -> T:
        try:
            return work(self._store)
        except sqlite3.Error as error:
            raise StoreError(f"the store can't be read: {error}; is the disk sound?") from None

    def close(self) -> None:
        """Wait for what is being done, then close the store."""
        self._thread.shutdown(cancel_futures=True)
        self._store.close()
