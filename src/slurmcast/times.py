"""Times as people give them to ``--since`` and ``--until`` of every command. Pure."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from slurmcast.model import HOUR_S

FORMS = "2026-11-01, 2026-11-01T08:00, or 12h, 7d, 4w ago"
_AGO = re.compile(r"(\d{1,4})([hdw])", re.ASCII)
_DAYS = {"d": 1, "w": 7}
_BEFORE = timedelta(weeks=4)
"""What begins so long before a time, as a report does, must be a time too."""


def moment(text: str, now: float) -> float:
    """Unix seconds of a date (its first second), a date with a time, both in the local zone unless they name another,
    or of so many hours, days or weeks ago, as in :data:`FORMS`. Raises ValueError."""
    try:
        at = _seconds(text.strip(), now)
        datetime.fromtimestamp(at) - _BEFORE  # what can't be shown is none either
        return at
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{text!r} is no time: must be like {FORMS}") from None


def _seconds(text: str, now: float) -> float:
    ago = _AGO.fullmatch(text)
    if ago is None:
        return datetime.fromisoformat(text).timestamp()
    count, unit = int(ago[1]), ago[2]
    if unit == "h":
        return now - HOUR_S * count
    # By the calendar: a day on which clocks are changed is a day too.
    return (datetime.fromtimestamp(now) - timedelta(days=count * _DAYS[unit])).timestamp()
