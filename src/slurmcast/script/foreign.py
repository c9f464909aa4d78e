"""``#BSUB`` and ``#PBS`` lines: sbatch reads those too, after its own (man sbatch: --ignore-pbs; tried on 26.05)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from itertools import islice

from slurmcast.script import options

MAX_LINES = 1000

_BSUB = {"-n": "ntasks", "-q": "partition", "-W": "time", "-J": "job-name", "-M": "mem-per-cpu"}
_PBS = {"-q": "partition", "-N": "job-name", "-A": "account", "-J": "array", "-t": "array"}


def read(script: bytes) -> dict[str, str]:
    """sbatch's options that other schedulers' lines in the script stand for; they win over those of ``#SBATCH``.

    Where there is a ``#BSUB`` line, ``#PBS`` lines are not looked at. Unlike sbatch's own, they count wherever they
    stand. Options without a meaning for estimates are left out.
    """
    bsub = list(_lines(script, b"#BSUB"))
    if bsub:
        return _options(bsub, _bsub)
    return _options(list(_lines(script, b"#PBS")), _pbs)


def _lines(script: bytes, magic: bytes) -> Iterator[list[str]]:
    for line in islice(re.finditer(rb"^" + magic + rb"([^\n]{0,4096})", script, re.MULTILINE), MAX_LINES):
        try:
            yield shlex.split(line[1].decode("utf-8", "surrogateescape"), comments=True)
        except ValueError:
            yield []


def _options(lines: list[list[str]], meaning: Callable[[str, str], dict[str, str]]) -> dict[str, str]:
    """Every option with its value, which may follow at once (``-n4``) or as the next word."""
    found: dict[str, str] = {}
    for words in lines:
        for word, following in zip(words, [*words[1:], ""], strict=False):
            if word.startswith("-"):
                found |= meaning(word[:2], word[2:] or following)
    return found


def _bsub(name: str, value: str) -> dict[str, str]:
    if name == "-x":
        return {"exclusive": ""}
    if name == "-M":
        value += "K"
    return {_BSUB[name]: value} if name in _BSUB else {}


def _pbs(name: str, value: str) -> dict[str, str]:
    if name == "-l":
        return _pbs_resources(value)
    return {_PBS[name]: value} if name in _PBS else {}


def _pbs_resources(text: str) -> dict[str, str]:
    """``-l nodes=2:ppn=4:gpus=1,walltime=1:00:00,mem=4gb``, and ``select=2:ncpus=4``."""
    found: dict[str, str] = {}
    for resource in text.split(","):
        name, _, value = resource.partition("=")
        head, *parts = value.split(":")
        within = dict(part.partition("=")[::2] for part in parts)
        if name == "walltime":
            found["time"] = value
        elif name == "mem":
            found["mem"] = value
        elif name in ("nodes", "select") and options.count(head):
            found["nodes"] = head
            if options.count(within.get("ppn", "")):
                found["ntasks"] = str(int(head) * int(within["ppn"]))
            if options.count(within.get("gpus", "")):
                found["gpus-per-node"] = within["gpus"]
            if options.count(within.get("ncpus", "")):
                found["mincpus"] = within["ncpus"]
            if options.memory_mb(within.get("mem", "")):
                found["mem"] = within["mem"]
    return found
