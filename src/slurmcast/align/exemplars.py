"""The styles that scripts are rewritten in: batch scripts in a folder that the admin filled, never users' jobs."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slurmcast.encoder.base import Encoder, EncoderError, Vectors
from slurmcast.model import Submission
from slurmcast.script.reader import program, read
from slurmcast.script.sources import OwnedFiles

log = logging.getLogger(__name__)

MAX_EXEMPLARS = 200
MAX_BYTES = 256 * 1024


@dataclass(frozen=True, eq=False)
class Exemplar:
    """A script in a known style, as the encoder reads it."""

    name: str
    text: str
    vector: Vectors
    """Of shape (dimensions,)."""


def nearest(vector: Vectors, exemplars: Iterable[Exemplar]) -> Exemplar | None:
    """The exemplar whose vector points most nearly in the direction of ``vector``; None where there are none."""

    def cosine(exemplar: Exemplar) -> float:
        return float(exemplar.vector @ vector / np.linalg.norm(exemplar.vector))

    return max(exemplars, key=cosine, default=None)


def load(folder: Path, encoder: Encoder, max_chars: int) -> tuple[Exemplar, ...]:
    """The exemplars in ``folder``, by name; blocks on files and on the encoder.

    A file that begins with ``#!`` is one, as sbatch would have it; sources that it launches are read from the folder,
    too. Raises nothing: the log says what is no exemplar and why.
    """
    found: list[Exemplar] = []
    try:
        paths = sorted(path for path in folder.iterdir() if path.is_file())
    except OSError as error:
        log.error("align.exemplars: %s: %s; without exemplars no script is rewritten", folder, error.strerror)
        return ()
    for path in paths:
        if len(found) == MAX_EXEMPLARS:
            log.warning("%s holds more than %d exemplars: those from %s on aren't used", folder, len(found), path.name)
            break
        try:
            text = _text(path)
            if text is None:
                continue
            if len(text) > max_chars:
                log.warning("%s is no exemplar: more than align.max_chars = %d characters", path, max_chars)
                continue
            found.append(Exemplar(path.name, text, encoder.encode([text])[0]))
        except OSError as error:
            log.error("%s: %s; make it readable for slurmcast", path, error.strerror)
        except EncoderError as error:
            log.error("%s can't be encoded: %s", path, error)
    log.info("%d exemplars in %s", len(found), folder)
    return tuple(found)


def _text(path: Path) -> str | None:
    """The batch script at ``path`` with its sources, as the encoder reads jobs; None where it is no batch script."""
    with path.open("rb") as file:
        script = file.read(MAX_BYTES)
    if not script.startswith(b"#!"):
        return None
    owner = path.stat().st_uid
    work = Submission(owner, "", path.name, 0, script, len(script), work_dir=str(path.parent), argv=(str(path),))
    return program(read(work, OwnedFiles(owner)).text)
