"""What shell words expand to, as far as that can be known without running anything.

POSIX shell, section 2.6 (word expansions), and bash's arrays; what isn't known stays as it was written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from slurmcast.script import arithmetic
from slurmcast.script.pieces import inner_end, piece_end

MAX_WORD = 64 * 1024
"""Characters of one word that are expanded; a longer one is taken as it is written."""
MAX_EXPANDED = 4 * MAX_WORD
MAX_LIST = 1024
MAX_DEPTH = 8

_IN_DOUBLE = re.compile(r'[^"\\$`]+')
_BRACED = re.compile(
    r"(?P<length>#?)(?P<name>[A-Za-z_]\w*|\d+|[@*])(?:\[(?P<index>[^\]]{1,200})\])?"
    r"(?:(?P<op>:?[-=+?]|,,|\^\^)(?P<word>.*))?",
    re.ASCII | re.DOTALL,
)
_RANGE = re.compile(r"\{(-?\d{1,9})\.\.(-?\d{1,9})\}")


@dataclass(slots=True)
class Scope:
    """What a script knows at one moment.

    A plain variable is a list of one. ``budget``: characters that may still be produced; ``depth``: of nested ``${}``.
    """

    variables: dict[str, list[str]] = field(default_factory=dict)
    positional: list[str] = field(default_factory=list)
    directory: str = ""
    budget: int = 4 * 1024 * 1024
    depth: int = 0

    def lookup(self, name: str) -> list[str] | None:
        """The value of a parameter; None where it isn't known."""
        if name in ("@", "*"):
            return self.positional
        if name == "#":
            return [str(len(self.positional))]
        if name.isdigit():
            place = int(name[:6])
            return [self.positional[place - 1]] if 0 < place <= len(self.positional) else None
        return self.variables.get(name)

    def assign(self, name: str, values: list[str], append: bool = False, array: bool = False) -> None:
        """Set a variable; values beyond the limits make it unknown."""
        if append and name in self.variables:
            old = self.variables[name]
            values = old + values if array else [*old[:-1], "".join(old[-1:] + values)]
        if len(values) > MAX_LIST or sum(map(len, values)) > MAX_WORD:
            self.variables.pop(name, None)
        else:
            self.variables[name] = values


class _Fields:
    """The fields that a word expands to, while they grow."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.parts: list[str] = []
        self.open = False
        self.size = 0

    def add(self, text: str) -> None:
        self.size += len(text)
        self.parts.append(text)
        self.open = True

    def extend(self, values: list[str]) -> None:
        for place, value in enumerate(values):
            if place:
                self.close()
            self.add(value)

    def close(self) -> None:
        if self.open:
            self.done.append("".join(self.parts))
        self.parts, self.open = [], False


def words(raw: str, scope: Scope, split: bool = True) -> list[str]:
    """The fields that a raw word expands to; always one where ``split`` is false, as in an assignment."""
    if len(raw) > MAX_WORD or scope.budget < len(raw):
        return [raw]
    fields = _Fields()
    numbers = _RANGE.fullmatch(raw)
    if numbers and split:
        fields.extend(_sequence([int(numbers[1]), int(numbers[2])]))
        raw = ""
    at = 0
    while at < len(raw) and fields.size < MAX_EXPANDED:
        end = piece_end(raw, at)
        _expand_piece(raw[at:end], scope, fields, split)
        at = end
    fields.close()
    scope.budget -= len(raw) + fields.size
    return fields.done if split else [" ".join(fields.done)]


def _expand_piece(piece: str, scope: Scope, fields: _Fields, split: bool) -> None:
    if piece[0] == "'":
        fields.add(piece[1:].removesuffix("'"))
    elif piece[0] == '"':
        _expand_double(piece[1:].removesuffix('"') if len(piece) > 1 else "", scope, fields)
    elif piece.startswith('$"'):
        _expand_double(piece[2:].removesuffix('"'), scope, fields)
    elif piece.startswith("$'"):
        fields.add(re.sub(r"\\(.)", _ansi_escape, piece[2:].removesuffix("'"), flags=re.DOTALL))
    elif piece[0] == "\\":
        fields.add("" if piece[1:] == "\n" else piece[1:])
    elif piece[0] in "$`":
        values = _value(piece, scope)
        if values is None:
            fields.add(piece)
        elif split:
            fields.size += sum(map(len, values))
            fields.extend([part for value in values for part in value.split()])
        else:
            fields.add(" ".join(values))
    elif piece == "~" and not fields.open:
        fields.add("$HOME")
    else:
        fields.add("$HOME" + piece[1:] if piece.startswith("~/") and not fields.open else piece)


def _expand_double(text: str, scope: Scope, fields: _Fields) -> None:
    """What stands between double quotes: expanded, not split, but ``"$@"`` and ``"${A[@]}"`` give a field each."""
    if not text:
        fields.add("")
    at = 0
    while at < len(text) and fields.size < MAX_EXPANDED:
        found = _IN_DOUBLE.match(text, at)
        if found:
            fields.add(found[0])
            at = found.end()
            continue
        end = inner_end(text, at)
        piece = text[at:end]
        at = end
        if piece[0] == "\\":
            fields.add({"\n": ""}.get(piece[1:], piece[1:] if piece[1:] in ('"', "\\", "$", "`") else piece))
        elif piece[0] in "$`" and (values := _value(piece, scope)) is not None:
            fields.extend(values if "@" in piece[:200] else [" ".join(values)])
        else:
            fields.add(piece)


def _value(piece: str, scope: Scope) -> list[str] | None:
    """What ``$NAME``, ``${...}``, ``$((...))``, ``$(...)`` or a backtick stands for; None where it isn't known."""
    if piece.startswith("$((") and piece.endswith("))"):
        value = arithmetic.shell(_fill(piece[3:-2], scope))
        return None if value is None else [str(value)]
    if piece.startswith(("$(", "`")):
        return _substitution(piece[2:-1] if piece[0] == "$" else piece[1:-1], scope)
    if piece.startswith("${"):
        return _braced(piece[2:].removesuffix("}"), scope)
    return scope.lookup(piece[1:]) if len(piece) > 1 else None


def _braced(inside: str, scope: Scope) -> list[str] | None:
    found = _BRACED.fullmatch(inside) if len(inside) <= 4096 else None
    if not found:
        return None
    values = scope.lookup(found["name"])
    if found["index"] and values is not None:
        values = _indexed(values, _fill(found["index"], scope))
    if found["length"]:
        return None if values is None else [str(len(values) if found["index"] in ("@", "*") else len("".join(values)))]
    op, word = found["op"] or "", found["word"] or ""
    if op in (",,", "^^"):
        return None if values is None else [v.lower() if op == ",," else v.upper() for v in values]
    empty = values is None or (op.startswith(":") and not any(values))
    if op.endswith("+"):
        return [] if empty else _default(word, scope)
    if empty and op.endswith(("-", "=")):
        values = _default(word, scope)
        if op.endswith("=") and values is not None:
            scope.assign(found["name"], values)
    return values


def _default(word: str, scope: Scope) -> list[str] | None:
    """The word behind ``:-``, which may hold expansions itself; None where they are nested too deep."""
    if scope.depth == MAX_DEPTH:
        return None
    scope.depth += 1
    value = words(word, scope, split=False)
    scope.depth -= 1
    return value


def _indexed(values: list[str], index: str) -> list[str] | None:
    if index in ("@", "*"):
        return values
    if not re.fullmatch(r"-?\d{1,9}", index, re.ASCII) or not -len(values) <= int(index) < len(values):
        return None
    return [values[int(index)]]


def fill_names(text: str, scope: Scope) -> str:
    """A here-document's body with ``$NAME`` and ``${NAME}`` replaced where they are known."""

    def known(name: re.Match[str]) -> str:
        values = scope.lookup(name[1])
        if values is None or scope.budget < len(values[0] if values else ""):
            return name[0]
        scope.budget -= sum(map(len, values))
        return " ".join(values)

    return re.sub(r"\$\{?([A-Za-z_]\w*|\d)\}?", known, text, flags=re.ASCII)


def _fill(text: str, scope: Scope) -> str:
    """``text`` with the names in it, with or without ``$``, replaced by their values where they are known."""

    def known(name: re.Match[str]) -> str:
        values = scope.lookup(name[1] or name[2])
        return values[0] if values and len(values[0]) < 40 else name[0]

    return re.sub(r"\$\{?([A-Za-z_]\w*|\d)\}?|([A-Za-z_]\w*)", known, text[:400], flags=re.ASCII)


def _substitution(command: str, scope: Scope) -> list[str] | None:
    """The few commands whose output is known: ``seq``, ``echo`` of plain words, ``which``, ``command -v``, ``pwd``."""
    if len(command) > 400 or re.search(r"[;&|<>()`*?\[]", command):
        return None
    name, *arguments = _fill(command, scope).replace('"', "").split() or [""]
    if name == "seq" and arguments and all(re.fullmatch(r"-?\d{1,9}", argument) for argument in arguments[:3]):
        return _sequence([int(argument) for argument in arguments[:3]])
    if name == "echo" and not any(argument.startswith(("-", "$")) for argument in arguments):
        return arguments
    if name == "which" or (name == "command" and arguments[:1] == ["-v"]):
        return arguments[-1:]
    return [scope.directory or "."] if name == "pwd" else None


def _sequence(numbers: list[int]) -> list[str]:
    """``seq LAST``, ``seq FIRST LAST`` or ``seq FIRST STEP LAST``, at most MAX_LIST of them."""
    first, step, last = [1, 1, *numbers] if len(numbers) == 1 else [numbers[0], 1, numbers[-1]]
    if len(numbers) == 3:
        step = numbers[1] or 1
    elif len(numbers) == 2 and last < first:
        step = -1
    return [str(number) for number in range(first, last + (1 if step > 0 else -1), step)[:MAX_LIST]]


def _ansi_escape(found: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t", "r": "\r"}.get(found[1], found[1])
