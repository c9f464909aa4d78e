"""Many independent pieces of work on all cores, with a progress bar on a terminal."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from functools import partial
from multiprocessing import connection, get_context, parent_process
from typing import TypeVar

import click

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))


def each(function: Callable[[T], R], items: Sequence[T], label: str, processes: int | None = None) -> list[R]:
    """``function`` of each item, in their order, whatever the number of processes (default: one a core).

    An exception of ``function`` comes through and ends the others. Raises ChildProcessError where a process was killed.
    """
    processes = min(processes or cores(), max(len(items), 1))
    show = partial(click.progressbar, length=len(items), label=label, file=sys.stderr)
    found: list[R] = []
    with _results(function, items, processes) as results, show() if sys.stderr.isatty() else nullcontext() as bar:
        for result in results:
            found.append(result)
            if bar:
                bar.update(1)
    return found


@contextmanager
def _results(function: Callable[[T], R], items: Sequence[T], processes: int) -> Iterator[Iterator[R]]:
    if processes < 2:
        yield map(function, items)
        return
    # Fork: the workers start at once and share what is loaded. There are no threads here that could be cut in half.
    workers = ProcessPoolExecutor(processes, get_context("fork"), _obey)
    try:
        yield workers.map(function, items)
    except BrokenProcessPool:
        raise ChildProcessError("a process of this command was killed; was there too little memory?") from None
    finally:
        workers.shutdown(cancel_futures=True)


def _obey() -> None:
    """Let this worker end without a word on Ctrl-C, and when the command itself is gone."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
