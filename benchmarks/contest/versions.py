"""Whether versions of a program lie nearer to it than other programs do: edits of the corpus programs' texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from corpus.table import Program
from numpy.typing import NDArray

from contest.base import Contestant
from slurmcast.model import Submission
from slurmcast.script.reader import read
from slurmcast.script.sources import MyFiles

Edit = Callable[[str], str]

NAMES = {
    "batch": "part",
    "epoch": "turn",
    "loss": "objective",
    "model": "network",
    "net": "network",
    "rng": "random",
    "step": "iteration",
    "x": "inputs",
}


def _numbers(text: str) -> str:
    return re.sub(r"\b\d+\b", lambda found: str(int(found[0]) + 7), text)


def _names(text: str) -> str:
    return re.sub(rf"\b({'|'.join(NAMES)})\b", lambda found: NAMES[found[1]], text)


def _one_more_line(text: str) -> str:
    lines = text.split("\n")
    return "\n".join(
        [*lines[: len(lines) // 2], "    print('loss', float(loss), flush=True)", *lines[len(lines) // 2 :]]
    )


def _tenth_gone(text: str) -> str:
    return "\n".join(line for number, line in enumerate(text.split("\n")) if number % 10 != 9)


EDITS: Mapping[str, Edit] = {
    "all numbers changed": _numbers,
    "some names changed": _names,
    "one more line": _one_more_line,
    "a tenth of the lines gone": _tenth_gone,
}


def text_of(program: Program) -> str:
    """What the encoder reads of the program's script and its sources."""
    script = program.script.encode()
    submission = Submission(
        uid=program.folder.stat().st_uid,
        user="",
        name=program.name,
        submit_time=0,
        script=script,
        script_size=len(script),
        work_dir=str(program.folder),
        argv=("job.sh",),
    )
    return read(submission, MyFiles()).text


def results(contestant: Contestant, programs: list[Program]) -> dict[str, Any]:
    """Of each kind of edit: the median distance of a version to its program, the share of versions whose own program
    is the nearest, and how many times farther the nearest other program is (for 95 % of the programs at least;
    distances below 0.01 count as that)."""
    texts = [text_of(program) for program in programs]
    encode = contestant.make(texts)
    known = encode(texts)
    between = _distances(known, known)
    np.fill_diagonal(between, np.inf)
    found: dict[str, Any] = {"nearest other program": round(float(np.median(between.min(axis=1))), 3)}
    for name, edit in EDITS.items():
        to_all = _distances(encode([edit(text) for text in texts]), known)
        own = np.diag(to_all).copy()
        found[name] = {
            "distance": round(float(np.median(own)), 3),
            "own_is_nearest": round(float((to_all.argmin(axis=1) == np.arange(len(texts))).mean()), 3),
            "margin": round(float(np.quantile(between.min(axis=1) / np.maximum(own, 0.01), 0.05)), 1),
        }
    return found


def _distances(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.linalg.norm(a[:, None].astype(np.float64) - b[None].astype(np.float64), axis=2)
