"""How far ahead accounting is read at a time. Pure."""

from __future__ import annotations

from dataclasses import dataclass

WANTED_ROWS = 5000
"""Records in a window, about: what sacct and slurmdbd hold at a time (some 3 KB each)."""
LEAST_S, MOST_S = 60, 2 * 86400
"""The longest: whatever it holds after a quiet time, sacct and slurmdbd have in memory at once."""
FIRST_S = 86400
GROWTH = 4.0
"""A window is at most so many times as long as the one before: the next stretch may be a busy one."""


@dataclass(frozen=True, slots=True)
class Windows:
    """``length_s``: that of the next window."""

    length_s: int = FIRST_S

    def after(self, rows: int) -> Windows:
        """What follows a window of this length that held so many ``rows``."""
        factor = min(GROWTH, WANTED_ROWS / rows) if rows else GROWTH
        return Windows(min(max(int(self.length_s * factor), LEAST_S), MOST_S))

    def halved(self) -> Windows | None:
        """What to try where accounting refuses this one as too long; None where it can't be shorter."""
        return Windows(max(self.length_s // 2, LEAST_S)) if self.length_s > LEAST_S else None
