"""The styles that scripts are rewritten in: batch scripts in a folder that the admin filled, never users' jobs."""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from slurmcast.encoder.base import Encoder, EncoderError, Vectors
from slurmcast.model import Submission
from slurmcast.script.reader import program, read
from slurmcast.script.sources import OwnedFiles

log = logging.getLogger(__name__)

MAX_EXEMPLARS = 200
MAX_BYTES = 256 * 1024
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]{2,}(?![a-z])")


@dataclass(frozen=True, eq=False)
class Exemplar:
    """A script in a known style, as the encoder reads it."""

    name: str
    text: str
    vector: Vectors
    """Of shape (dimensions,)."""

    @cached_property
    def words(self) -> frozenset[str]:
        """See :func:`words`."""
        return words(self.text)


def words(text: str) -> frozenset[str]:
    """The words that names are made of, in lower case: ``TrainLoop`` and ``train_loop`` have the same."""
    return frozenset(word.lower() for word in _WORD.findall(text))


def nearest(text: str, exemplars: Sequence[Exemplar]) -> Exemplar | None:
    """The exemplar that has most in common with ``text``; None where there are none.

    Compared are sets of words, weighted by how few exemplars have them, by the cosine (Salton and Buckley 1988): what a
    program is about shows in its rare words. Vectors won't do, for a script in a foreign style is far from all of them,
    and its nearest one is a matter of chance (benchmarks/align.py).
    """
    spread = Counter(word for exemplar in exemplars for word in exemplar.words)
    weight = {word: math.log((1 + len(exemplars)) / (0.5 + n)) ** 2 for word, n in spread.items()}
    own = words(text)

    def cosine(exemplar: Exemplar) -> float:
        """But for the length of ``own``, which is the same for all."""
        shared, whole = (sum(weight[word] for word in found) for found in (own & exemplar.words, exemplar.words))
        return shared / math.sqrt(whole) if whole else 0.0

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
