"""Room that there is only so much of, in shares, so that nobody takes it from the others. Bookkeeping only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from slurmcast.daemon.requests import Refused


@dataclass(eq=False, slots=True)
class Share:
    """What one request, or one connection, holds."""

    who: Hashable
    give_up: Callable[[], None] | None = None
    """Ends it, which makes room for others; None: it may not be ended."""
    size: int = 0


class Held:
    """How much is held, by whose it is: of each at most ``each``, of all together at most ``total``.

    Where there is no room for more, the oldest share that may be given up goes: of the one who asks, where it is he
    who has his fill, else of the one who holds most. So nobody loses anything to somebody who holds more than he.
    """

    def __init__(self, each: int, total: int) -> None:
        self._each, self._total = each, total
        self._shares: dict[Hashable, dict[Share, None]] = {}
        """The oldest first."""
        self._sizes: Counter[Hashable] = Counter()

    def enter(self, who: Hashable, size: int = 0) -> Share:
        """A new share. Raises :class:`Refused`."""
        share = Share(who)
        self._shares.setdefault(who, {})[share] = None
        try:
            self.take(share, size)
        except Refused:
            self.leave(share)
            raise
        return share

    def take(self, share: Share, size: int) -> None:
        """So much more for the share. Raises :class:`Refused`; it then has what it had."""
        if share not in self._shares.get(share.who, ()):  # given up
            raise _refused()
        self._grow(share, size)
        while (who := self._over(share.who)) is not None:
            if not self._give_up_oldest(who, share):
                self._grow(share, -size)
                raise _refused()

    def leave(self, share: Share) -> None:
        """Nothing more is held by it; nothing happens where it has left before."""
        theirs = self._shares.get(share.who, {})
        if share in theirs:
            self._grow(share, -share.size)
            del theirs[share]
            if not theirs:
                del self._shares[share.who], self._sizes[share.who]

    @contextmanager
    def room(self, who: Hashable) -> Iterator[Callable[[int], None]]:
        """A function that takes so much more for a share that isn't given up, or raises :class:`Refused`."""
        share = self.enter(who)
        try:
            yield partial(self.take, share)
        finally:
            self.leave(share)

    def _grow(self, share: Share, size: int) -> None:
        share.size += size
        self._sizes[share.who] += size

    def _over(self, who: Hashable) -> Hashable | None:
        """Who has to give room, after ``who`` took some."""
        if self._sizes[who] > self._each:
            return who
        if self._sizes.total() > self._total:
            return max(self._sizes, key=self._sizes.__getitem__)
        return None

    def _give_up_oldest(self, who: Hashable, but: Share) -> bool:
        for share in self._shares[who]:
            if share.give_up is not None and share is not but:
                self.leave(share)
                share.give_up()
                return True
        return False


def _refused() -> Refused:
    return Refused(503, "too much is being sent at a time; try again in a few seconds")
