"""What trainings did and why: ``trainings.jsonl`` in the folder of models, only ever appended to.

Whoever reports on trainings (``slurmcast report``, the metrics) reads it by :func:`trainings`. There is a line when one
begins and a line when it ends, so that one that was killed in the middle is seen, and isn't tried again at once.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from slurmcast.codec import CodecError, from_json, to_json
from slurmcast.files import append

FILE = "trainings.jsonl"
LOCK = ".training"


class Busy(Exception):
    """Another training runs; the message says so."""


@dataclass(frozen=True, slots=True)
class Training:
    """One training."""

    began: float
    """In Unix seconds, as ``ended``."""
    because: str
    """Why it was done: ``by hand``, or what :func:`slurmcast.drift.due.due` said."""
    labels: int
    """How many finished jobs could be learned from."""
    former: str = ""
    """The model that was in use before; empty: none."""
    ended: float | None = None
    """None: it was killed, ran out of memory, the machine went down; or it still runs."""
    promoted: bool = False
    """Whether the new model was put to use."""
    reason: str = ""
    """Why, or why not."""
    model: str = ""
    """The new model, where it was put to use."""

    @property
    def result(self) -> str:
        """``promoted``, ``refused`` or ``unfinished``."""
        return "unfinished" if self.ended is None else "promoted" if self.promoted else "refused"


def trainings(folder: Path) -> list[Training]:
    """All trainings in ``folder`` (``config.paths.models``), the first first; lines that can't be read are left out."""
    try:
        lines = (folder / FILE).read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []
    found: list[Training] = []
    for line in lines:
        try:
            training = from_json(Training, json.loads(line))
        except (ValueError, RecursionError, CodecError):
            continue  # cut by a crash or a full disk
        if training.ended is not None and found and found[-1].began == training.began:
            found.pop()
        found.append(training)
    return found


@contextmanager
def recorded(folder: Path, training: Training) -> Iterator[Callable[[bool, str, str], None]]:
    """Write down that ``training`` begins, and how it ends when that is told: promoted, reason, the new model. One at a
    time. Raises :class:`Busy`, and OSError where nothing can be written: before anything else is done."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(f"{folder}: another training runs; wait until it has ended") from None

        def end(promoted: bool, reason: str, model: str) -> None:
            done = replace(training, ended=time.time(), promoted=promoted, reason=reason, model=model)
            append(folder / FILE, json.dumps(to_json(done)))

        append(folder / FILE, json.dumps(to_json(training)))
        try:
            yield end
        except Exception as error:
            with suppress(OSError):  # the disk that is full may be this one
                end(False, f"failed: {error}", "")
            raise
