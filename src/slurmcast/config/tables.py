"""TOML tables to frozen dataclasses: every error names origin, key, value and what is allowed."""

from __future__ import annotations

import dataclasses
import types
import typing
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

T = TypeVar("T")

_RANGE = "range"
_HUGE = 1 << 1000
"""Whole numbers from here on are no floats."""
_WORDS = {
    float: "a number",
    int: "a whole number",
    str: "text in quotes",
    bool: "true or false",
    Path: "an absolute path, in quotes",
}
"""What a file must have where the field is of that type."""


class ConfigError(Exception):
    """The configuration can't be used; the message says which file and key, and what would be allowed."""


def ranged(default: Any, low: float, high: float) -> Any:
    """A dataclass field that a file may set to ``low`` up to ``high``; ``default`` may be ``dataclasses.MISSING``."""
    return dataclasses.field(default=default, metadata={_RANGE: (low, high)})


def build(cls: type[T], table: dict[str, Any], origin: str, prefix: str = "") -> T:
    """``table`` as ``cls``. ``prefix`` stands before each key in messages. Raises :class:`ConfigError`."""
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in table:
        if key not in fields:
            raise ConfigError(f"{origin}: unknown key {prefix}{key}; allowed: {', '.join(sorted(fields))}")
    for name, f in fields.items():
        required = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        if required and name not in table:
            raise ConfigError(f"{origin}: {prefix}{name} is missing")
    values = {key: _value(hints[key], value, origin, prefix + key) for key, value in table.items()}
    for key, value in values.items():
        low, high = fields[key].metadata.get(_RANGE, (None, None))
        if low is not None and not low <= value <= high:  # nor NaN
            raise ConfigError(f"{origin}: {prefix}{key} = {value}: must be {low:g} to {high:g}")
    return cls(**values)


def _items(hint: Any, values: list[Any], origin: str, key: str) -> tuple[Any, ...]:
    """The items of a list; tables that have a name are known by it in messages."""
    found: list[Any] = []
    for place, value in enumerate(values):
        if dataclasses.is_dataclass(hint) and isinstance(value, dict) and isinstance(value.get("name"), str):
            found.append(build(cast(type, hint), value, origin, f"[[{key}]] {value['name']}: "))
        else:
            found.append(_value(hint, value, origin, f"{key}[{place}]"))
    return tuple(found)


def _value(hint: Any, value: Any, origin: str, key: str) -> Any:
    """``value`` as type ``hint``, or a ConfigError that says what is allowed."""
    if get_origin(hint) in (types.UnionType, typing.Union):
        hint = next(arg for arg in get_args(hint) if arg is not type(None))
    if get_origin(hint) is tuple:
        if isinstance(value, list):
            return _items(get_args(hint)[0], value, origin, key)
        tables = dataclasses.is_dataclass(get_args(hint)[0])
        raise ConfigError(f"{origin}: {key} = {value!r}: must be a list{f', written [[{key}]]' if tables else ''}")
    if get_origin(hint) is Literal:
        if value in get_args(hint):
            return value
        raise ConfigError(f"{origin}: {key} = {value!r}: must be one of {', '.join(map(repr, get_args(hint)))}")
    if dataclasses.is_dataclass(hint):
        if isinstance(value, dict):
            return build(hint, value, origin, key + ".")  # type: ignore[arg-type]
        raise ConfigError(f"{origin}: {key} = {value!r}: must be a table")
    if hint is Path and isinstance(value, str):
        if not Path(value).is_absolute():
            raise ConfigError(f"{origin}: {key} = {value!r}: must be {_WORDS[Path]}")
        return Path(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) < _HUGE:
        return float(value)
    if isinstance(value, hint) and not (hint is not bool and isinstance(value, bool)):
        return value
    raise ConfigError(f"{origin}: {key} = {value!r}: must be {_WORDS[hint]}")
