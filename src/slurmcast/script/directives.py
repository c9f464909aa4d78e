"""The ``#SBATCH`` lines of a batch script, as sbatch itself reads them (tried on Slurm 26.05, see the tests' table)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from slurmcast.script import foreign, options

BOM = b"\xef\xbb\xbf"
_BLANKS = b" \t\n\v\f\r"

_PIECE = re.compile(
    r"(?P<space>[ \t\n\v\f\r]+)"
    r"|(?P<comment>\#)"
    r'|"(?P<double>(?:[^"\\]++|\\.)*+)(?:"|\\?\Z)'
    r"|'(?P<single>(?:[^'\\]++|\\.)*+)(?:'|\\?\Z)"
    r"|\\(?P<escaped>.?)"
    r"""|(?P<plain>[^ \t\n\v\f\r\#"'\\]+)""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Directives:
    """What a script's directives say.

    ``options``: by sbatch's long name, the value as written ("" for flags), the last one winning; of a heterogeneous
    job only its first component. ``refused``: words that sbatch would refuse, and with them the whole script.
    ``components``: 1, or more for a heterogeneous job.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[str, ...] = ()
    components: int = 1


def parse(script: bytes) -> Directives:
    """Read the directives of a whole script. Never raises; linear in the size of the script.

    Reading stops at the first line that is neither blank nor a comment. A script that sbatch would refuse (an unknown
    option, a word without dashes, an open quote, CRLF) is read as far as it makes sense. ``#BSUB`` and ``#PBS`` lines
    count too, as in sbatch, unless --ignore-pbs is among the options (:mod:`slurmcast.script.foreign`).
    """
    words: list[str] = []
    components = 1
    for line in _directive_lines(script):
        line_words = list(split_words(line))
        if line_words and line_words[0].lower() in ("hetjob", "packjob"):
            components += 1
        elif components == 1:
            words += line_words
    found, refused = options.read_words(words)
    if "ignore-pbs" not in found:
        theirs = foreign.read(script)
        if "job-name" in found:
            theirs.pop("job-name", None)
        found |= theirs
    return Directives(found, tuple(refused), components)


def why_refused(script: bytes) -> str:
    """A sentence on why sbatch would refuse the script, as far as its text tells; empty: nothing speaks against it."""
    if not script.strip():
        return "sbatch would refuse this file: it is empty."
    if not script.startswith(b"#!"):
        return "sbatch would refuse this file: its first line must be #! and an interpreter, such as #!/bin/bash."
    if b"\0" in script:
        return "sbatch would refuse this script: it contains a NUL character."
    if b"\r\n" in script:
        return "sbatch would refuse this script: its lines end as on DOS, in CR LF; dos2unix mends that."
    said = parse(script)
    time, odd = said.options.get("time"), said.refused
    if time is not None and not options.is_time_limit(time):
        return f"sbatch would refuse this script: --time={time[:80]} isn't in minutes, HH:MM:SS or D-HH:MM:SS."
    if odd:  # not necessarily: SPANK plugins add options to sbatch
        return f"sbatch itself doesn't know {odd[0][:80]!r}: is it spelled right, or is it a plugin's?"
    return ""


def split_words(line: str) -> Iterator[str]:
    """The words of one directive line, by sbatch's own rules, which are not the shell's.

    A backslash escapes the next character everywhere, within single quotes too; an unquoted ``#`` starts a comment even
    inside a word; an empty word, or one that starts with a colon, ends the line.
    """
    word: str | None = None
    for piece in _PIECE.finditer(line):
        kind = piece.lastgroup
        if kind in ("space", "comment"):
            if word is not None and (not word or word[0] == ":"):
                return
            if word:
                yield word
            word = None
            if kind == "comment":
                return
        elif kind in ("double", "single"):
            word = (word or "") + _ESCAPE.sub(r"\1", piece[kind])
        elif kind is not None:
            word = (word or "") + piece[kind]
    if word and word[0] != ":":
        yield word


def _directive_lines(script: bytes) -> Iterator[str]:
    """What stands behind ``#SBATCH`` (or its old name ``#SLURM``), line by line, up to the first command."""
    start = len(BOM) if script.startswith(BOM) else 0
    while start < len(script):
        end = script.find(b"\n", start)
        line = script[start:] if end < 0 else script[start:end]
        start += len(line) + 1
        if line.startswith((b"#SBATCH", b"#SLURM")):
            yield line.decode("utf-8", "surrogateescape").removeprefix("#SBATCH").removeprefix("#SLURM")
        elif not line.lstrip(_BLANKS).startswith(b"#") and line.strip(_BLANKS):
            return
