"""A submit line as Slurm keeps it: words without their quotes, so that where one ends isn't certain."""

from __future__ import annotations

from collections.abc import Mapping

from slurmcast.script.options import read_words

_WRAPPED = b"#!/bin/sh\n# This script was created by sbatch --wrap.\n"
"""What sbatch puts before the command that it wraps into a script."""
_BLANK = "\0"
"""Stands for a blank inside a word; no command line can hold it."""


def taken_apart(
    line: str, name: str, comment: str, script: bytes, directed: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """sbatch's options by long name, and the script's path with its arguments.

    ``name`` and ``comment`` are the job's: values of which is known that they are one word, whatever blanks they have.
    Unless the line or the script's directives (``directed``, by long name) name it otherwise, the job has the name of
    the script's file, which tells the path from the rest of other such values. What --wrap made has no path.
    """
    for value in (name, comment):
        if " " in value:
            line = line.replace(value, value.replace(" ", _BLANK))
    words = [word.replace(_BLANK, " ") for word in line.split()[1:]]
    if script.startswith(_WRAPPED):
        ends = (place for place, word in enumerate(words) if word.startswith("--wrap"))
        return read_words(words[: next(ends, len(words))])[0], ()
    end = _end_of_options(words)
    if end < len(words) and _file(words[end]) != name and "job-name" not in {**directed, **read_words(words)[0]}:
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


def _file(path: str) -> str:
    return path.rpartition("/")[2]
