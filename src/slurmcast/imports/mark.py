"""How far an import has come, in a file that outlives ``kill -9``."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from slurmcast.codec import CodecError, from_json, to_json


@dataclass(frozen=True, slots=True)
class Mark:
    """Every run that ended from ``since`` up to ``until`` (Unix seconds) is in the store. ``counts``: what was seen
    there, by name."""

    since: int
    until: int
    counts: dict[str, int] = field(default_factory=dict)

    def resume(self, since: int | None) -> Mark:
        """Where an import from ``since`` (None: as far back as there are records) goes on."""
        if since is None or self.since <= since <= self.until:
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
    draft = path.with_name(f".{path.name}.new")
    with draft.open("w") as file:
        json.dump(to_json(mark), file)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
