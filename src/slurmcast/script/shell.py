"""A small reader of shell scripts: the simple commands in them, with the variables filled in that can be known.

It runs nothing. It knows quotes, continuations, comments, here-documents, assignments (arrays too), ``cd``, ``for``
lists and the usual expansions; every branch of an ``if`` is read. What it can't know stays as it was written
(``$UNKNOWN``, ``$(date)``). It takes time linear in the text and stops at fixed limits.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal

from slurmcast.script.expand import MAX_LIST, Scope, fill_names, words
from slurmcast.script.pieces import bracket_end, piece_end

MAX_TEXT = 512 * 1024
"""Characters of one script that are looked at; longer scripts carry payloads, not commands."""
MAX_COMMANDS = 10_000
MAX_WORDS = 1000
MAX_LOOPS = 16

_REDIRECTION = re.compile(r"\d*(?:<<<|<<-|<<|<>|<&|>&|>>|>\||[<>])|&>>|&>")
_OPERATOR = re.compile(_REDIRECTION.pattern + r"|;;&|;;|;&|&&|\|\||\|&|[;&|()\n]")
_BLANK = re.compile(r"(?:[ \t\r]|\\\r?\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=\Z", re.ASCII)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.ASCII | re.DOTALL)
_SKIPPED = frozenset(("if", "then", "elif", "else", "fi", "do", "esac", "{", "}", "!", "coproc"))
_DECLARE = frozenset(("export", "declare", "local", "readonly", "typeset"))

Kind = Literal["word", "operator", "heredoc", "literal heredoc"]


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command."""

    words: tuple[str, ...]
    assignments: Mapping[str, str] = field(default_factory=dict)
    """Those before it, as in ``EPOCHS=3 python train.py``."""
    directory: str = ""
    """Where ``cd`` had led by then, relative to the work directory; a ``$`` in it means that it isn't known."""
    stdin: str | None = None
    """Its here-document or here-string."""
    output: str = ""
    """The file that its output is written to."""
    repeat: int = 1
    """How often the ``for`` loops around it run it, as far as their lists are known."""


def commands(text: str, scope: Scope) -> Iterator[Command]:
    """The simple commands of a script in the order of the text, ``cd`` and assignments aside.

    ``scope`` is changed as the script would change it, and holds what is known at the end. Never raises.
    """
    reader = _Reader(scope)
    raw: list[str] = []
    stdin: str | None = None
    output = redirection = ""
    found = 0
    for kind, value in _tokens(text[:MAX_TEXT]):
        if kind == "heredoc":
            stdin = fill_names(value, scope)
        elif kind == "literal heredoc":
            stdin = value
        elif kind == "word" and redirection:
            output = value if redirection in (">", "1>", ">|") else output
            redirection = ""
        elif kind == "word":
            raw.append(value)
        elif _REDIRECTION.fullmatch(value):
            redirection = value
        else:
            command = reader.command(raw[:MAX_WORDS], stdin, output) if raw else None
            reader.bracket(value)
            found += bool(raw)
            raw, stdin, output, redirection = [], None, "", ""
            if command is not None:
                yield command
            if found == MAX_COMMANDS:
                return


class _Reader:
    """Reads one command after the other; holds the folder stack and the loops that are open."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.loops: list[int] = []
        self.folders: list[str] = []

    def bracket(self, operator: str) -> None:
        """A subshell's ``cd`` ends with it."""
        if operator == "(":
            self.folders.append(self.scope.directory)
        elif operator == ")" and self.folders:
            self.scope.directory = self.folders.pop()

    def command(self, raw: list[str], stdin: str | None, output: str) -> Command | None:
        """Take one command's raw words; None where it only changed the scope or the loops."""
        raw = self._keywords(raw)
        place = next((n for n, word in enumerate(raw) if not _ASSIGNMENT.match(word)), None)
        if place is None:
            for word in raw:
                self._assign(word)
            return None
        assignments = {name: value for word in raw[:place] for name, value in self._prefix(word)}
        name = words(raw[place], self.scope)
        if name and name[0] in _DECLARE:
            for word in raw[place + 1 :]:
                self._assign(word)
            return None
        fields = [*name, *(part for word in raw[place + 1 :] for part in words(word, self.scope))][:MAX_LIST]
        if not fields or self._builtin(fields):
            return None
        repeat = 1
        for count in self.loops:
            repeat = min(repeat * count, 10**6)
        target = " ".join(words(output, self.scope, split=False)) if output else ""
        return Command(tuple(fields), assignments, self.scope.directory, stdin, target, repeat)

    def _keywords(self, raw: list[str]) -> list[str]:
        """``raw`` without the shell's keywords before the command; loops are opened and closed on the way."""
        place = 0
        while place < len(raw):
            word = raw[place]
            if word == "for" and raw[place + 2 : place + 3] == ["in"]:
                values = [value for part in raw[place + 3 :] for value in words(part, self.scope)][:MAX_LIST]
                self._open_loop(len(values))
                self.scope.assign(raw[place + 1], values[:1])
                return []
            if word in ("for", "while", "until", "select"):
                self._open_loop(1)
            elif word == "done":
                self.loops = self.loops[:-1]
            elif word == "case":
                return []
            elif word == "function":
                place += 1
            elif word not in _SKIPPED:
                break
            place += 1
        return raw[place:]

    def _open_loop(self, count: int) -> None:
        if len(self.loops) < MAX_LOOPS:
            self.loops.append(max(count, 1))

    def _assign(self, word: str) -> None:
        """Carry out ``NAME=value``, ``NAME+=value`` or ``NAME=(...)``."""
        found = _ASSIGNMENT.match(word)
        if found:
            name, plus, value = found.groups()
            self.scope.assign(name, self._values(value), append=bool(plus), array=value.startswith("("))

    def _prefix(self, word: str) -> Iterator[tuple[str, str]]:
        found = _ASSIGNMENT.match(word)
        if found:
            yield found[1], " ".join(self._values(found[3]))

    def _values(self, value: str) -> list[str]:
        if not value.startswith("("):
            return words(value, self.scope, split=False) if value else [""]
        inside = [raw for kind, raw in _tokens(value[1:].removesuffix(")")) if kind == "word"]
        return [part for raw in inside[:MAX_LIST] for part in words(raw, self.scope)]

    def _builtin(self, fields: list[str]) -> bool:
        """Carry out what changes the scope; whether it was such a command."""
        scope, name, arguments = self.scope, fields[0], fields[1:]
        if name in ("cd", "pushd"):
            target = next((argument for argument in arguments if not argument.startswith("-")), None)
            if target is not None:
                scope.directory = posixpath.join(scope.directory, str(PurePosixPath(target)))[:4096]
        elif name == "shift":
            count = int(arguments[0]) if arguments and re.fullmatch(r"\d{1,4}", arguments[0], re.ASCII) else 1
            scope.positional = scope.positional[count:]
        elif name == "set":
            if "--" in arguments:
                scope.positional = arguments[arguments.index("--") + 1 :]
        elif name not in (":", "true", "false", "popd", "[", "[[", "test"):
            return False
        return True


def _tokens(text: str) -> Iterator[tuple[Kind, str]]:
    """The words (raw), operators and here-documents of a script, a newline at the end."""
    at = 0
    behind_bodies = 0  # where the text goes on after the bodies of this line's here-documents
    while at < len(text):
        blank = _BLANK.match(text, at) or _COMMENT.match(text, at)
        operator = None if blank else _OPERATOR.match(text, at)
        if blank:
            at = blank.end()
        elif operator is None:
            end = _word_end(text, at)
            yield "word", text[at:end]
            at = end
        elif "<<" in operator[0]:
            blank = _BLANK.match(text, operator.end())
            start = blank.end() if blank else operator.end()
            at = _word_end(text, start)
            word = text[start:at]
            if operator[0].endswith("<<<"):
                yield "heredoc", word.strip("'\"")
                continue
            delimiter = re.sub(r"[\\'\"]", "", word)
            body_at = behind_bodies or (text.find("\n", at) + 1 or len(text))
            body, behind_bodies = _heredoc(text, body_at, delimiter, operator[0].endswith("-"))
            yield "heredoc" if word == delimiter else "literal heredoc", body
        else:
            at = operator.end()
            if operator[0] == "\n" and behind_bodies:
                at, behind_bodies = behind_bodies, 0
            yield "operator", operator[0]
    yield "operator", "\n"


def _word_end(text: str, at: int) -> int:
    """Where the word that starts at ``at`` ends; an array's brackets belong to the word."""
    start = at
    while at < len(text):
        if text[at] == "(" and at - start < 200 and _ARRAY.match(text[start:at]):
            at = bracket_end(text, at)
        elif text[at] in " \t\r\n;&|()<>" and at > start:
            break
        else:
            at = piece_end(text, at)
    return at


def _heredoc(text: str, at: int, delimiter: str, tabs: bool) -> tuple[str, int]:
    """A here-document's body that starts at ``at``, and where the text goes on behind its closing line."""
    lines: list[str] = []
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end].lstrip("\t") if tabs else text[at:end]
        at = end + 1
        if line.rstrip("\r") == delimiter:
            break
        lines.append(line)
    return "\n".join(lines) + "\n", at
