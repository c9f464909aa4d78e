"""Sources that are wanted of the users who submitted them: of whom, for which submission, for how long.

Belongs to the event loop that runs where it is used. What it holds lives in memory alone: after a restart nothing is
wanted, and the estimates stay as they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from slurmcast.daemon.news import News
from slurmcast.model import Submission

AWAITED_S = 3.0
"""For so long a job's estimate counts as still being made for want of its sources."""
KEPT_S = 60.0
"""For so long they may be handed over."""
MAX_SCRIPT = 64 * 1024
"""Bytes of a script that is held here; nothing is wanted of longer ones."""
MAX_WISHES = 1000
MAX_OF_ONE_USER = 500


@dataclass(frozen=True, slots=True)
class Wish:
    """A submission whose sources are wanted. Numbers rise: later wishes have higher ones."""

    number: int
    stored: int
    """The submission's id in the store."""
    submission: Submission
    since: float


class Wishes:
    """At most a fixed number of wishes; where there are more, the oldest go."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._number = 0
        self._wishes: dict[int, Wish] = {}  # by number, so the oldest first
        self._awaited: dict[int, int] = {}  # submission -> the number of its wish
        self._news = News()

    def add(self, stored: int, submission: Submission) -> Wish | None:
        """Want the submission's sources; None where its script is too long."""
        if len(submission.script) > MAX_SCRIPT:
            return None
        self._make_room(submission.uid)
        self._number += 1
        wish = Wish(self._number, stored, submission, self._clock())
        self._wishes[wish.number] = wish
        self._awaited[stored] = wish.number
        self._news.bump()
        return wish

    def is_open(self, wish: Wish) -> bool:
        """Whether nobody has taken it yet."""
        return wish.number in self._wishes

    def awaited(self, stored: int) -> bool:
        """Whether the submission's sources may come any moment."""
        wish = self._wishes.get(self._awaited.get(stored, 0))
        return wish is not None and wish.since > self._clock() - AWAITED_S

    async def next(self, uid: int, after: int, timeout_s: float) -> Wish | None:
        """That user's oldest wish with a number above ``after``, as soon as there is one; None after ``timeout_s``."""
        end = self._clock() + timeout_s
        while True:
            seen = self._news.revision
            for wish in self._of(uid):
                if wish.number > after:
                    return wish
            if not (left := end - self._clock()) > 0:
                return None
            await self._news.differs(seen, left)

    def take(self, uid: int, number: int) -> Wish | None:
        """That user's wish, which thereby ends; None where there is none of that number."""
        wish = next((wish for wish in self._of(uid) if wish.number == number), None)
        if wish is not None:
            self._drop(wish)
        return wish

    def _of(self, uid: int) -> list[Wish]:
        oldest = self._clock() - KEPT_S
        return [wish for wish in self._wishes.values() if wish.submission.uid == uid and wish.since > oldest]

    def _make_room(self, uid: int) -> None:
        for wish in list(self._wishes.values()):
            if wish.since > self._clock() - KEPT_S and len(self._wishes) < MAX_WISHES:
                break
            self._drop(wish)
        theirs = self._of(uid)
        if len(theirs) >= MAX_OF_ONE_USER:
            self._drop(theirs[0])

    def _drop(self, wish: Wish) -> None:
        del self._wishes[wish.number]
        if self._awaited.get(wish.stored) == wish.number:
            del self._awaited[wish.stored]
