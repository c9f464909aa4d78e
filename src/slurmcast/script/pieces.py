"""Where the pieces of a shell word end: quoted strings, expansions, plain characters (POSIX shell, section 2.3)."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[^ \t\r\n;&|()<>'\"\\$`]+")
_PARAMETER = re.compile(r"[A-Za-z_]\w*|\d|[@*#?$!-]", re.ASCII)
_IN_DOUBLE = re.compile(r'[^"\\$`]*')
_ANSI = re.compile(r"(?:[^'\\]++|\\.)*+'?", re.DOTALL)
# Quoted text is passed over whole; possessive repeats, so that an open quote costs one scan and no backtracking.
_QUOTED = r"""\\.|'[^']*+(?:'|\Z)|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)"""
_PAREN = re.compile(r"[()]|" + _QUOTED, re.DOTALL)
_BRACE = re.compile(r"[{}]|" + _QUOTED, re.DOTALL)


def piece_end(text: str, at: int) -> int:
    """Where the piece of a word ends that starts at ``at``: a quoted string, an expansion, or plain characters.

    An open quote or bracket reaches to the end of the text.
    """
    first = text[at]
    if first in "'`":
        return _after(text, first, at + 1)
    if first == '"':
        return _double_end(text, at)
    if first == "\\":
        return min(at + 2, len(text))
    if first == "$":
        return _dollar_end(text, at)
    found = _PLAIN.match(text, at)
    return found.end() if found else at + 1


def bracket_end(text: str, at: int) -> int:
    """Behind the bracket that closes the ``(`` at ``at``."""
    return _balanced(text, at, _PAREN, "(")


def _after(text: str, closing: str, at: int) -> int:
    end = text.find(closing, at)
    return len(text) if end < 0 else end + 1


def _dollar_end(text: str, at: int) -> int:
    following = text[at + 1 : at + 2]
    if following == "(":
        return bracket_end(text, at + 1)
    if following == "{":
        return _balanced(text, at + 1, _BRACE, "{")
    if following == '"':
        return _double_end(text, at + 1)
    if following == "'":
        found = _ANSI.match(text, at + 2)
        return found.end() if found else len(text)
    found = _PARAMETER.match(text, at + 1)
    return found.end() if found else at + 1


def _double_end(text: str, at: int) -> int:
    position = at + 1
    while position < len(text):
        found = _IN_DOUBLE.match(text, position)
        position = found.end() if found else position
        if position >= len(text):
            break
        if text[position] == '"':
            return position + 1
        position = inner_end(text, position)
    return len(text)


def inner_end(text: str, at: int) -> int:
    """Like :func:`piece_end`, between double quotes: there ``$"`` and ``$'`` are a plain dollar and what follows."""
    plain = text[at] == '"' or (text[at] == "$" and text[at + 1 : at + 2] in ("'", '"'))
    return at + 1 if plain else piece_end(text, at)


def _balanced(text: str, at: int, marks: re.Pattern[str], opening: str) -> int:
    """Behind the bracket that closes the one at ``at``; the end of the text where it stays open."""
    depth = 0
    for mark in marks.finditer(text, at):
        if len(mark[0]) == 1 and mark[0] in "(){}":
            depth += 1 if mark[0] == opening else -1
            if depth == 0:
                return mark.end()
    return len(text)
