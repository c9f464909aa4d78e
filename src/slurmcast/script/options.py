"""sbatch's options: their names, how they take values, and what the values mean (man sbatch; tried on Slurm 26.05)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

# As `sbatch` 26.05 answers when asked for each name without, and with, a value.
_WITH_VALUE = """
    account acctg-freq array autocomplete batch bb bbf begin chdir clusters cluster-constraint comment
    constraint container container-id container-type context core-spec cores-per-socket cpu-freq cpus-per-gpu
    cpus-per-task deadline delay-boot dependency distribution error exclude export export-file extra
    extra-node-info gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint
    input job-name kill-on-invalid-dep licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu
    mem-per-gpu mem-update mincpus network nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu
    ntasks-per-node ntasks-per-socket ntasks-per-tres open-mode output partition prefer priority profile qos
    reservation resources segment signal sockets-per-node switches thread-spec threads-per-core time time-min
    tmp tres-bind tres-per-task uid wait-all-nodes wckey wrap"""
_WITH_OPTIONAL_VALUE = "exclusive nice no-kill oom-kill-step propagate requeue resv-ports"
_FLAGS = """
    consolidate-segments contiguous external get-user-env help hold ignore-pbs no-requeue overcommit
    oversubscribe parsable quiet reboot spread-job spread-segments stepmgr test-only usage use-min-nodes verbose
    version wait"""
_SHORT = """
    array account begin extra-node-info cpus-per-task constraint dependency chdir error nodefile gpus help hold
    input job-name no-kill licenses distribution clusters ntasks nodes output overcommit partition qos quiet
    oversubscribe core-spec time verbose version nodelist wait exclude"""

WITH_VALUE = frozenset(_WITH_VALUE.split())
FLAGS = frozenset(_FLAGS.split())
SHORT = dict(zip("aAbBcCdDeFGhHiJkLmMnNoOpqQsStvVwWx", _SHORT.split(), strict=True))
OLD_NAMES = {"share": "oversubscribe", "workdir": "chdir"}
"""Names that only older releases take, and that 26.05 refuses."""

_NAMES = {name: name for name in (*WITH_VALUE, *_WITH_OPTIONAL_VALUE.split(), *FLAGS)}
_NAMES |= {"tasks-per-node": "ntasks-per-node", "cluster": "clusters"}


@lru_cache(maxsize=1024)
def canonical(name: str) -> str | None:
    """The full long name of an option, which may be cut as far as it stays unique (getopt_long); else None."""
    if name in _NAMES or name in OLD_NAMES:
        return _NAMES.get(name) or OLD_NAMES[name]
    found = {full for known, full in _NAMES.items() if known.startswith(name)}
    return found.pop() if len(found) == 1 else None


def read_words(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Options by long name with their values, the last one winning, and the words that sbatch would refuse.

    A flag's value is empty. sbatch reads all its #SBATCH lines as one list of arguments, so a value may stand on the
    next line. A refused word doesn't stop the reading of the others.
    """
    options: dict[str, str] = {}
    refused: list[str] = []
    position = 0
    while position < len(words):
        word = words[position]
        following = words[position + 1] if position + 1 < len(words) else None
        position += 1
        if word.startswith("--") and len(word) > 2:
            position += _long(word, following, options, refused)
        elif word.startswith("-") and len(word) > 1 and word != "--":
            position += _short(word, following, options, refused)
        else:
            refused.append(word)
    return options, refused


def _long(word: str, following: str | None, options: dict[str, str], refused: list[str]) -> int:
    """Read one ``--name[=value]``; returns how many further words it took."""
    name, equals, value = word[2:].partition("=")
    full = canonical(name) if len(name) < 64 else None
    if full is None or (full in FLAGS and equals) or (full in WITH_VALUE and not equals and following is None):
        refused.append(word)
        return 0
    if full in WITH_VALUE and not equals:
        options[full] = following or ""
        return 1
    options[full] = value
    return 0


def _short(word: str, following: str | None, options: dict[str, str], refused: list[str]) -> int:
    """Read one word of short options, such as ``-n4`` or ``-HOn 4``; returns how many further words it took."""
    for place, letter in enumerate(word[1:], start=2):
        name = SHORT.get(letter)
        if name is None:
            refused.append(word)
            return 0
        if name in WITH_VALUE:
            if word[place:]:
                options[name] = word[place:]
                return 0
            if following is None:
                refused.append(word)
                return 0
            options[name] = following
            return 1
        options[name] = ""
    return 0


_TIME = re.compile(r"(\d{1,9}-\d{0,9}|\d{1,9})(:\d{1,9}){0,2}", re.ASCII)


def is_time_limit(text: str) -> bool:
    """Whether sbatch takes this as ``--time``."""
    return _TIME.fullmatch(text) is not None or text.lower() in ("unlimited", "infinite", "-1")


def time_limit_s(text: str) -> int | None:
    """``--time`` in seconds, rounded up to full minutes as sbatch does; None where unlimited or unreadable.

    Formats: minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS, UNLIMITED, INFINITE, 0 (no limit).
    """
    if not _TIME.fullmatch(text):
        return None
    days, dash, rest = text.rpartition("-")
    parts = [int(part or 0) for part in rest.split(":")]
    units: tuple[int, ...] = (3600, 60, 1) if dash else {1: (60,), 2: (60, 1), 3: (3600, 60, 1)}[len(parts)]
    total = int(days or 0) * 86400 + sum(part * unit for part, unit in zip(parts, units, strict=False))
    return -(-total // 60) * 60 or None


def memory_mb(text: str) -> int | None:
    """``--mem`` and the like in MiB; None where unreadable or 0 (all of the node's memory)."""
    found = re.fullmatch(r"(\d{1,15})([KMGT]?)B?", text.strip(), re.IGNORECASE | re.ASCII)
    if not found:
        return None
    kib = int(found[1]) * {"K": 1, "": 1024, "M": 1024, "G": 1024**2, "T": 1024**3}[found[2].upper()]
    return -(-kib // 1024) or None


def count(text: str) -> int | None:
    """A plain count such as ``--ntasks`` takes; None where sbatch would refuse it."""
    found = re.fullmatch(r"\s*\+?(\d{1,9})", text, re.ASCII)
    return int(found[1]) if found else None


def least_nodes(text: str) -> int | None:
    """The least number of nodes in ``--nodes`` (``2``, ``2-4``, ``1,2,4``, ``1k``); None where unreadable."""
    found = re.fullmatch(r"(\d{1,9})([km]?)(?:[-,:].*)?", text.strip(), re.IGNORECASE | re.DOTALL)
    return int(found[1]) * {"": 1, "k": 1024, "m": 1024**2}[found[2].lower()] if found else None


def array_size(text: str) -> int | None:
    """How many tasks ``--array`` names (``0-9%4``, ``0-15:4``, ``1,3,7-9``); None where unreadable."""
    total = 0
    for part in text.strip().strip("[]").partition("%")[0].split(","):
        found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9})(?::([1-9]\d{0,8}))?)?", part.strip("[] "))
        if not found:
            return None
        first, last = int(found[1]), int(found[2] or found[1])
        total += max((last - first) // int(found[3] or 1) + 1, 0)
    return total or None
