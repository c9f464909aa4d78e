"""Submissions whose sources are wanted of their submitters, and for how long.

In memory alone: after a restart nothing is wanted, and the estimates stay as they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

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
    """A submission, by its id in the store, whose sources are wanted."""

    stored: int
    submission: Submission
    since: float


class Wishes:
    """At most a fixed number of wishes; where there are more, the oldest go."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wishes: dict[int, Wish] = {}  # by submission, the oldest first

    def add(self, stored: int, submission: Submission) -> Wish | None:
        """Want the submission's sources; None where its script is too long."""
        if len(submission.script) > MAX_SCRIPT:
            return None
        self._wishes.pop(stored, None)
        self._make_room(submission.uid)
        wish = self._wishes[stored] = Wish(stored, submission, self._clock())
        return wish

    def get(self, stored: int | None) -> Wish | None:
        """The open wish of a submission."""
        wish = None if stored is None else self._wishes.get(stored)
        return wish if wish is not None and wish.since > self._clock() - KEPT_S else None

    def awaited(self, stored: int) -> bool:
        """Whether the submission's sources may come any moment."""
        wish = self._wishes.get(stored)
        return wish is not None and wish.since > self._clock() - AWAITED_S

    def take(self, wish: Wish) -> bool:
        """End a wish, for it is being granted; False where it has ended already."""
        if self.get(wish.stored) is not wish:
            return False
        del self._wishes[wish.stored]
        return True

    def _make_room(self, uid: int) -> None:
        for wish in list(self._wishes.values()):
            if wish.since > self._clock() - KEPT_S and len(self._wishes) < MAX_WISHES:
                break
            del self._wishes[wish.stored]
        theirs = [wish for wish in self._wishes.values() if wish.submission.uid == uid]
        if len(theirs) >= MAX_OF_ONE_USER:
            del self._wishes[theirs[0].stored]
