"""Many independent pieces of work on all cores, with a progress bar on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from multiprocessing import get_context
from typing import Any, TypeVar

import click

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))


def each(function: Callable[[T], R], items: Sequence[T], label: str, processes: int | None = None) -> list[R]:
    """``function`` of each item, in their order, whatever the number of processes (default: one a core). An exception
    of ``function`` comes through and ends the others."""
    processes = min(processes or cores(), max(len(items), 1))
    show = partial(click.progressbar, length=len(items), label=label, file=sys.stderr)
    # Fork: the workers start at once and share what is loaded. There are no threads here that could be cut in half.
    pool: Any = get_context("fork").Pool(processes) if processes > 1 else nullcontext()
    found: list[R] = []
    with pool as workers, show() if sys.stderr.isatty() else nullcontext() as bar:
        results = workers.imap(function, items) if workers else map(function, items)
        for result in results:
            found.append(result)
            if bar:
                bar.update(1)
    return found
