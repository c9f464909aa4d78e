"""How far an import has come, in a file that outlives ``kill -9``."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from slurmcast import files
from slurmcast.codec import CodecError, from_json, to_json


@dataclass(frozen=True, slots=True)
class Mark:
    """Every run that ended from ``since`` up to ``until`` (Unix seconds) is in the store. ``counts``: what was seen
    there, by name."""

    since: int
    until: int
    counts: dict[str, int] = field(default_factory=dict)

    def resume(self, since: int | None) -> Mark:
        """Where an import from ``since`` (None: from where it has come to), which isn't after ``until``, goes on."""
        if since is None or since >= self.since:
            return self
        return Mark(since, since)

    def advanced(self, until: int, counts: dict[str, int]) -> Mark:
        """The mark after a window up to ``until`` in which ``counts`` were seen."""
        names = self.counts.keys() | counts.keys()
        total = {name: self.counts.get(name, 0) + counts.get(name, 0) for name in sorted(names)}
        return replace(self, until=until, counts=total)


def load(path: Path) -> Mark | None:
    """The mark, None where there is none. Raises OSError, and ValueError where the file is damaged."""
    try:
        return from_json(Mark, json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (CodecError, RecursionError) as error:
        raise ValueError(str(error)) from None


def save(path: Path, mark: Mark) -> None:
    """Readers see the old mark or the new one, also after a power cut. Raises OSError."""
    files.replace(path, json.dumps(to_json(mark)))
