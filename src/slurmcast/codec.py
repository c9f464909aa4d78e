"""Domain objects to JSON-ready values and back, by their type hints."""

from __future__ import annotations

import dataclasses
import types
import typing
from enum import Enum
from functools import cache
from typing import Any, TypeVar, get_args, get_origin

T = TypeVar("T")

_hints = cache(typing.get_type_hints)  # slow, and asked once for every object of a long list
_PLAIN = frozenset({str, int, float, bool, type(None)})


@cache
def _names(cls: Any) -> tuple[str, ...]:
    """The fields of a dataclass; none of any other class."""
    return tuple(f.name for f in dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else ()


class CodecError(ValueError):
    """The value doesn't fit the type; the message names the field."""


def to_json(value: Any) -> Any:
    """``value`` (dataclasses, enums, tuples, frozensets, dicts, scalars) as plain JSON values."""
    kind: Any = type(value)
    if kind in _PLAIN:  # most values are
        return value
    if names := _names(kind):
        return {name: to_json(getattr(value, name)) for name in names}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(to_json(item) for item in value)
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    return value


def from_json(cls: type[T], value: Any) -> T:
    """``value``, as :func:`to_json` wrote it, as a ``cls``. Unknown keys are ignored, so that a newer peer may send
    more. Raises :class:`CodecError`."""
    return typing.cast(T, _read(cls, value, cls.__name__))


def _read(hint: Any, value: Any, where: str) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        return _read(next(arg for arg in args if arg is not type(None)), value, where)
    if dataclasses.is_dataclass(hint):
        return _read_dataclass(hint, value, where)
    if origin in (tuple, frozenset):
        if not isinstance(value, list):
            raise CodecError(f"{where}: expected a list, got {value!r}")
        return origin(_read(args[0], item, where) for item in value)
    if origin is dict:
        if not isinstance(value, dict):
            raise CodecError(f"{where}: expected an object, got {value!r}")
        return {key: _read(args[1], item, where) for key, item in value.items()}
    if isinstance(hint, type) and issubclass(hint, Enum):
        try:
            return hint(value)
        except ValueError:
            raise CodecError(f"{where}: {value!r} is no {hint.__name__}") from None
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and (not isinstance(value, hint) or (hint is int and isinstance(value, bool))):
        raise CodecError(f"{where}: expected {hint.__name__}, got {value!r}")
    return value


def _read_dataclass(cls: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise CodecError(f"{where}: expected an object, got {value!r}")
    hints = _hints(cls)
    arguments = {}
    for field in dataclasses.fields(cls):
        if field.name in value:
            arguments[field.name] = _read(hints[field.name], value[field.name], f"{where}.{field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise CodecError(f"{where}.{field.name}: missing")
    return cls(**arguments)
