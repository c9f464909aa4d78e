"""A submit line as Slurm keeps it: words without their quotes, so that where one ends isn't certain."""

from __future__ import annotations

from slurmcast.script import directives
from slurmcast.script.options import read_words

WRAPPED = b"#!/bin/sh\n# This script was created by sbatch --wrap.\n"
"""What sbatch puts before the command that it wraps into a script."""


def taken_apart(line: str, script: bytes, name: str = "") -> tuple[dict[str, str], tuple[str, ...]]:
    """sbatch's options by long name, and the script's path with its arguments; none with --wrap.

    ``name``: the job's. It is the script's file name where the user gave no other, and then tells the path from the
    rest of a value that had blanks in it.
    """
    words = line.split()[1:]
    if script.startswith(WRAPPED):
        ends = (place for place, word in enumerate(words) if word.startswith("--wrap"))
        return read_words(words[: next(ends, len(words))])[0], ()
    end = _end_of_options(words)
    if end < len(words) and _file(words[end]) != name and not _is_named(words, script):
        end = next((place for place in range(end, len(words)) if _file(words[place]) == name), end)
    return read_words(words[:end])[0], tuple(words[end:])


def _end_of_options(words: list[str]) -> int:
    position = 0
    while position < len(words) and words[position].startswith("-"):
        # Whether an option takes the next word as its value shows when it is read with and without it.
        alone, _ = read_words(words[position : position + 1])
        pair, refused = read_words(words[position : position + 2])
        position += 2 if not refused and pair != alone else 1
    return position


def _is_named(words: list[str], script: bytes) -> bool:
    return "job-name" in read_words(words)[0] or "job-name" in directives.parse(script).options


def _file(path: str) -> str:
    return path.rpartition("/")[2]
