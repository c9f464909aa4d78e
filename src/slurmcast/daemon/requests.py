"""What a request is, whichever door it came through."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from slurmcast.config import DaemonConfig

T = TypeVar("T")

Answer = dict[str, Any]


class Refused(Exception):
    """An answer with an error status; the message says what is wrong and what to do."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as the kernel or munge says."""

    uid: int

    @property
    def name(self) -> str:
        """The user's name; the number where there is none."""
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return str(self.uid)

    def is_operator(self, config: DaemonConfig) -> bool:
        """The daemon's own user is one: it owns the store anyway, and ``tune`` runs as it."""
        return self.uid in (0, os.geteuid()) or self.name in config.operators

    def is_agent(self, config: DaemonConfig) -> bool:
        return self.uid == 0 or self.name == config.agent_user


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, taken apart."""

    caller: Caller
    query: Mapping[str, str]
    body: Any

    def field(self, name: str, kind: type[T], default: T | None = None) -> T:
        """A field of the body. Raises :class:`Refused` where it is missing, without a default, or of another kind."""
        if not isinstance(self.body, dict):
            raise Refused(400, "the body must be a JSON object")
        value = self.body.get(name, default)
        if isinstance(value, int) and not isinstance(value, bool) and kind is float:
            value = float(value)
        if not isinstance(value, kind):
            raise Refused(400, f"{name}: must be {_NAMES[kind]}")
        return value


_NAMES: dict[type, str] = {str: "a string", float: "a number", list: "a list", dict: "an object"}
