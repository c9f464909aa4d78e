"""Waiting tasks and power over time, as in figures 4 and 7 of the paper."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from slurmcast.extras import install
from slurmcast.model import DAY_S, J_PER_KWH
from slurmcast.policy.base import Floats
from slurmcast.simulate.workload import Schedule, Workload

SUFFIXES = (".png", ".svg", ".pdf")


class PlotError(Exception):
    """Nothing can be drawn; the message says what to do."""


def check(path: Path) -> None:
    """Raise :class:`PlotError` where :func:`draw` could not draw into ``path``; for before the work."""
    if path.suffix not in SUFFIXES:
        raise PlotError(f"{path}: the name of a plot must end with one of {', '.join(SUFFIXES)}")
    if not path.absolute().parent.is_dir():
        raise PlotError(f"{path.absolute().parent}: there is no such folder")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise PlotError(f"{path}: may not be written by this user; name another file")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise PlotError(f"plots need matplotlib: {install('plots')}") from None


def steps(moments: Floats, changes: Floats) -> tuple[Floats, Floats]:
    """A quantity that changes by ``changes`` at ``moments``, both (k,): when it takes which value, each moment once."""
    when, which = np.unique(moments, return_inverse=True)
    return when, np.cumsum(np.bincount(which, changes, len(when)))


def waiting(workload: Workload, schedule: Schedule) -> tuple[Floats, Floats]:
    """How many jobs wait, over time."""
    ones = np.ones(len(workload))
    return steps(np.concatenate([workload.submit_s, schedule.start_s]), np.concatenate([ones, -ones]))


def power(workload: Workload, schedule: Schedule) -> tuple[Floats, Floats]:
    """The power of all running jobs in kW, over time; jobs of unknown energy are left out."""
    jobs = np.arange(len(workload))
    time_s = workload.time_s[jobs, schedule.type]
    energy_kwh = workload.energy_kwh[jobs, schedule.type]
    kw = np.where(np.isnan(energy_kwh), 0.0, energy_kwh) * J_PER_KWH / 1000 / time_s
    return steps(np.concatenate([schedule.start_s, schedule.start_s + time_s]), np.concatenate([kw, -kw]))


def draw(path: Path, workload: Workload, schedules: Mapping[str, Schedule], title: str) -> None:
    """One line for each schedule. Raises :class:`PlotError`."""
    draw_columns(path, workload, {title: schedules})


def draw_columns(path: Path, workload: Workload, columns: Mapping[str, Mapping[str, Schedule]]) -> None:
    """Schedules side by side, in columns by their titles. Raises
    :class:`PlotError`."""
    check(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 + 5 * len(columns), 7), layout="constrained")
    panels = figure.subplots(2, len(columns), sharex=True, sharey="row", squeeze=False)
    for (above, below), (title, schedules) in zip(panels.T, columns.items(), strict=True):
        for label, schedule in schedules.items():
            for axes, (when, value) in ((above, waiting(workload, schedule)), (below, power(workload, schedule))):
                axes.step(when / DAY_S, value, where="post", label=label, linewidth=1)
        above.set(title=title, ylim=(0, None))
        below.set(xlabel="days", ylim=(0, None))
        above.legend()
    panels[0, 0].set_ylabel("waiting tasks")
    panels[1, 0].set_ylabel("power of running jobs in kW")
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise PlotError(f"{path}: {error.strerror}") from None
