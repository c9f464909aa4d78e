"""Domain objects to JSON-ready values and back, by their type hints."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any, TypeVar, get_args, get_origin

T = TypeVar("T")
_Reader = Callable[[Any, str], Any]
"""Makes an object of a JSON value; the text says where the value stands, for errors."""

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
    hint: Any = cls
    return typing.cast(T, _reader(hint)(value, cls.__name__))


@cache
def _reader(hint: Any) -> _Reader:
    """How a value of that type is read: worked out once, since the store reads tens of thousands of objects."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, typing.Union):
        inner = _reader(next(arg for arg in args if arg is not type(None)))
        return lambda value, where: None if value is None else inner(value, where)
    if dataclasses.is_dataclass(hint):
        return _dataclass_reader(typing.cast(type, hint))
    if origin in (tuple, frozenset):
        return _list_reader(origin, args[0])
    if origin is dict:
        return _dict_reader(args[1])
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum_reader(hint)
    return _scalar_reader(hint)


def _exact(hint: Any) -> frozenset[Any]:
    """The types whose values are right as they are."""
    is_union = get_origin(hint) in (types.UnionType, typing.Union)
    return _PLAIN & frozenset(get_args(hint) if is_union else (hint,))


def _dataclass_reader(cls: type) -> _Reader:
    hints = _hints(cls)
    named = [(f.name, _exact(hints[f.name]), hints[f.name]) for f in dataclasses.fields(cls)]
    needed = [
        f.name
        for f in dataclasses.fields(cls)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]

    def read(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise CodecError(f"{where}: expected an object, got {value!r}")
        arguments = {}
        for name, exact, hint in named:
            if name in value:
                item = value[name]
                arguments[name] = item if type(item) in exact else _reader(hint)(item, f"{where}.{name}")
        for name in needed:
            if name not in arguments:
                raise CodecError(f"{where}.{name}: missing")
        return cls(**arguments)

    return read


def _list_reader(kind: Any, hint: Any) -> _Reader:
    exact, inner = _exact(hint), _reader(hint)

    def read(value: Any, where: str) -> Any:
        if not isinstance(value, list):
            raise CodecError(f"{where}: expected a list, got {value!r}")
        return kind(item if type(item) in exact else inner(item, where) for item in value)

    return read


def _dict_reader(hint: Any) -> _Reader:
    exact, inner = _exact(hint), _reader(hint)

    def read(value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise CodecError(f"{where}: expected an object, got {value!r}")
        return {key: item if type(item) in exact else inner(item, where) for key, item in value.items()}

    return read


def _enum_reader(kind: type[Enum]) -> _Reader:
    def read(value: Any, where: str) -> Any:
        try:
            return kind(value)
        except ValueError:
            raise CodecError(f"{where}: {value!r} is no {kind.__name__}") from None

    return read


def _scalar_reader(hint: Any) -> _Reader:
    def read(value: Any, where: str) -> Any:
        if hint is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if isinstance(hint, type) and (not isinstance(value, hint) or (hint is int and isinstance(value, bool))):
            raise CodecError(f"{where}: expected {hint.__name__}, got {value!r}")
        return value

    return read
