"""An estimate that is there at once: from the user's time limit and published figures of GPU types.

The share of their time limit that jobs use has been found to be spread almost evenly over the whole range, with a peak
at the limit (Mu'alem and Feitelson 2001, "Utilization, predictability, workloads, and user runtime estimates in
scheduling the IBM SP2 with backfilling"). So the interval is wide, and its upper end is the limit itself. The limit is
taken to hold for the slowest partition of those where the job may run; faster types get less time by the published
ratio (:mod:`slurmcast.probe.gpus`), a type without a published speed gets as much as the slowest. So no partition looks
better for want of a number.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from statistics import NormalDist

from slurmcast.model import J_PER_KWH, Estimate, Interval, Source
from slurmcast.probe import gpus

SHARE_OF_LIMIT = Interval(p10=0.05, p50=0.4, p90=1.0)
"""Quantiles of running time as a share of the time limit. Ours, after the distribution described above."""
P90 = NormalDist().inv_cdf(0.9)
"""Standard deviations from the median to p90 of a normal distribution."""


@dataclass(frozen=True, slots=True)
class Site:
    """What is known of the partitions before any job has run, by partition."""

    types: Mapping[str, str]
    """GPU types, as the site calls them."""
    power_w: Mapping[str, float | None]
    """Mean power of one busy GPU as the admin says (``prior_power_w``); None: by the published figures."""


def prior(
    time_limit_s: int | None,
    gpus_by_partition: Mapping[str, int],
    site: Site,
    *,
    named: Collection[str] = (),
    shared: bool = False,
) -> tuple[Estimate, ...]:
    """One estimate per partition, in the order of ``gpus_by_partition`` (a_ij).

    ``named``: the partitions that the user named, for which the limit was written; empty: it holds for all (also for a
    job that may be moved although the user named some). Energy is given for all partitions or, where the power of one
    isn't known or GPUs are ``shared`` with other jobs, for none: a missing one would be taken for an average one.
    Without a time limit everything is unknown.
    """
    if not time_limit_s:
        return tuple(Estimate(name, a, None, None, Source.UNKNOWN) for name, a in gpus_by_partition.items())
    ratios = _ratios(gpus_by_partition, site.types, named)
    powers = {name: _power(name, site) for name in gpus_by_partition}
    complete = not shared and all(powers.values())
    return tuple(
        _estimate(name, a, time_limit_s, ratios[name], powers[name] if complete else None)
        for name, a in gpus_by_partition.items()
    )


def _ratios(partitions: Collection[str], types: Mapping[str, str], named: Collection[str]) -> dict[str, gpus.Ratio]:
    """How much longer a job runs on each partition than on the slowest of the named ones."""
    speeds = {name: gpu.speed for name in partitions if (gpu := gpus.find(types[name])) and gpu.speed}
    among = [name for name in speeds if name in named] or list(speeds)
    if not among:
        return {name: gpus.Ratio(0.0, 0.0) for name in partitions}
    slowest = min(among, key=lambda name: speeds[name])
    return gpus.longer(types[slowest], {name: types[name] for name in partitions})


def _power(partition: str, site: Site) -> tuple[float, float] | None:
    """Mean power of one GPU in W, and the standard deviation of its logarithm between jobs; None: not known."""
    given = site.power_w.get(partition)
    if given is not None:
        return given, 0.0
    gpu = gpus.find(site.types[partition])
    return None if gpu is None else (gpu.power_w, gpus.SHARE_SPREAD)


def _estimate(
    partition: str, a: int, time_limit_s: int, ratio: gpus.Ratio, power: tuple[float, float] | None
) -> Estimate:
    time_s = scaled(SHARE_OF_LIMIT, time_limit_s * math.exp(ratio.log), ratio.spread)
    ceiling = time_limit_s * max(1.0, math.exp(ratio.log))  # on a faster type it isn't longer than the limit
    time_s = Interval(time_s.p10, time_s.p50, min(time_s.p90, ceiling))
    energy_kwh = None if power is None else scaled(time_s, power[0] * a / J_PER_KWH, power[1])
    return Estimate(partition, a, time_s, energy_kwh, Source.PRIOR)


def scaled(interval: Interval, factor: float, spread: float = 0.0) -> Interval:
    """``interval`` times a ``factor`` that is uncertain by ``spread`` (a standard deviation of its logarithm): the two
    uncertainties, taken to be independent, add in squares."""
    if not spread:
        return Interval(interval.p10 * factor, interval.p50 * factor, interval.p90 * factor)
    low, high = math.log(interval.p50 / interval.p10), math.log(interval.p90 / interval.p50)
    middle = interval.p50 * factor
    return Interval(
        middle * math.exp(-math.hypot(low, P90 * spread)), middle, middle * math.exp(math.hypot(high, P90 * spread))
    )
