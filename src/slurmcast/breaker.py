"""A server that is known to be away isn't asked again and again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Breaker:
    """A circuit breaker (Nygard, Release It!, 2018, chapter 5), safe for several threads.

    After ``limit`` failures in a row it lets nothing through for ``cool_down_s``, then one attempt; if that fails as
    well, or never reports back, it takes another ``cool_down_s`` until the next.
    """

    def __init__(self, limit: int = 5, cool_down_s: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit, self._cool_down_s, self._clock = limit, cool_down_s, clock
        self._lock = threading.Lock()
        self._failures, self._closed_until = 0, 0.0

    def wait_s(self) -> float:
        """0: go ahead and report how it went; else how long nothing gets through, in seconds."""
        with self._lock:
            if self._failures < self._limit:
                return 0.0
            now = self._clock()
            left = self._closed_until - now
            if left > 0:
                return left
            self._closed_until = now + self._cool_down_s  # for all others, while this one tries
            return 0.0

    def failed(self) -> None:
        with self._lock:
            self._failures += 1
            self._closed_until = self._clock() + self._cool_down_s

    def succeeded(self) -> None:
        with self._lock:
            self._failures = 0
