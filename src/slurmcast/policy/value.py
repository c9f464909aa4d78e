"""The value rule: Algorithm 2 of the paper (arXiv 2608.18503, A.3.1), as pure functions on arrays.

Shapes: n jobs, m partitions. Units: time in s, energy in kWh, kappa in 1/(GPU s kWh).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmcast.policy.base import Floats, Moment, Offers, Queue


@dataclass(frozen=True)
class ValueRule:
    """The rule as a policy: all pairs by falling value, unknown jobs in the middle."""

    kappa: float | Floats
    """In 1/(GPU s kWh): one for all, or an array that broadcasts to the pairs (n, m)."""

    def __call__(self, moment: Moment) -> Offers:
        """See :class:`slurmcast.policy.base.Policy`."""
        queue = moment.queue
        return by_value(with_unknown(queue, queue_values(queue, self.kappa)))


def queue_values(queue: Queue, kappa: float | Floats) -> Floats:
    """v_ij of the waiting jobs, (n, m); NaN where the time isn't known or the job may not run."""
    return values(queue.gpus, np.where(queue.may, queue.time_s, np.nan), queue.energy_kwh, kappa)


def with_unknown(queue: Queue, v: Floats) -> Floats:
    """``v`` (n, m) with the median of the known jobs' best values for the jobs of which nothing is known."""
    known = ~np.isnan(v)
    unknown = np.asarray(~known.any(axis=1))
    if not unknown.any():
        return v
    best = np.where(known, v, -np.inf).max(axis=1, initial=-np.inf)[~unknown]
    middle = float(np.median(best)) if len(best) else 0.0
    return np.where(unknown[:, None] & queue.may, middle, v)


def by_value(v: Floats) -> Offers:
    """The pairs with a value by falling value; of equal ones the first job's first."""
    jobs, types = np.nonzero(~np.isnan(v))
    order = np.argsort(-v[jobs, types], kind="stable")
    return Offers(jobs[order], types[order])


def values(gpus: Floats, time_s: Floats, energy_kwh: Floats, kappa: float | Floats) -> Floats:
    """v_ij = 1 / (a_ij t_ij) - kappa e_ij, all (n, m); NaN where the time is not known. ``kappa`` may be an array that
    broadcasts to (n, m).

    A missing energy is not zero: it is taken as a_ij t_ij times the mean power of the known jobs on that partition, or
    on all where none is known there; with no known energy at all the term falls away for every job alike.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        work = gpus * time_s
        v: Floats = 1.0 / work
        if np.any(kappa):
            v -= kappa * _filled(energy_kwh, work)
    return v


def _filled(energy_kwh: Floats, work: Floats) -> Floats:
    """The energies with those that are missing made from the others, 0 where that can't be."""
    missing = np.isnan(energy_kwh)
    if not missing.any():
        return energy_kwh
    guess = work * _mean_power(work, energy_kwh)
    result: Floats = np.where(missing, np.where(np.isnan(guess), 0.0, guess), energy_kwh)
    return result


def _mean_power(work: Floats, energy_kwh: Floats) -> Floats:
    """Energy per GPU second (m,) of the jobs whose energy is known."""
    known = ~np.isnan(energy_kwh) & ~np.isnan(work)
    energies, works = np.where(known, energy_kwh, 0.0), np.where(known, work, 0.0)
    overall = energies.sum() / works.sum() if known.any() else np.nan
    columns = works.sum(axis=0)
    result: Floats = np.where(columns > 0, energies.sum(axis=0) / columns, overall)
    return result
