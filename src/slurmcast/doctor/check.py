"""What a check of the doctor is, and how it asks: each question once, Slurm by its own commands."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_forgetting: list[Callable[[], None]] = []


@dataclass(frozen=True)
class Check:
    """One line of the doctor's report; ``remedy`` says what to do where ``ok`` is False."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


class Unanswered(Exception):
    """A program or the daemon gave no answer; the message says which and why, ``remedy`` what to do."""

    def __init__(self, problem: str, remedy: str = "run the doctor where Slurm's commands reach slurmctld") -> None:
        super().__init__(problem)
        self.remedy = remedy


def once(ask: Callable[P, T]) -> Callable[P, T]:
    """``ask`` that asks no question twice before :func:`forget`: nor does it wait again for what gave no answer."""

    def attempt(*args: P.args, **kwargs: P.kwargs) -> T | Unanswered:
        try:
            return ask(*args, **kwargs)
        except Unanswered as error:
            return error

    first: Any = cache(attempt)
    _forgetting.append(first.cache_clear)

    @wraps(ask)
    def inner(*args: P.args, **kwargs: P.kwargs) -> T:
        answer: T | Unanswered = first(*args, **kwargs)
        if isinstance(answer, Unanswered):
            raise answer
        return answer

    return inner


def forget() -> None:
    """Ask everything anew."""
    for clear in _forgetting:
        clear()


@once
def output(*command: str) -> str:
    """What a program says. Raises :class:`Unanswered`."""
    if shutil.which(command[0]) is None:
        raise Unanswered(f"{command[0]} is not on the PATH")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=15, check=False)
    except subprocess.TimeoutExpired:
        raise Unanswered(f"{' '.join(command)} gave no answer within 15 s") from None
    if done.returncode != 0:
        raise Unanswered(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def setting(name: str) -> str:
    """Empty where it isn't set."""
    match = re.search(rf"^{name}\s*= (.*)$", output("scontrol", "show", "config"), re.MULTILINE)
    return match[1].strip().replace("(null)", "") if match else ""
