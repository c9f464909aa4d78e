"""An estimate that is there at once: from the user's time limit and the partition's mean power alone.

The share of their time limit that jobs use has been found to be spread almost evenly over the whole range, with a peak
at the limit (Mu'alem and Feitelson 2001, "Utilization, predictability, workloads, and user runtime estimates in
scheduling the IBM SP2 with backfilling"). So the interval is wide, its upper end is the limit itself, and every
partition gets the same time.
"""

from __future__ import annotations

from collections.abc import Mapping

from slurmcast.model import Estimate, Interval, Source
from slurmcast.probe.examples import JOULES_PER_KWH

SHARE_OF_LIMIT = Interval(p10=0.05, p50=0.4, p90=1.0)
"""Quantiles of running time as a share of the time limit. Ours, after the distribution described above."""


def prior(
    time_limit_s: int | None,
    gpus_by_partition: Mapping[str, int],
    power_w: Mapping[str, float | None],
    *,
    shared: bool = False,
) -> tuple[Estimate, ...]:
    """One estimate per partition, in the order of ``gpus_by_partition`` (a_ij).

    ``power_w``: mean power of one busy GPU by partition (``prior_power_w`` of the configuration); where it isn't given,
    or GPUs are ``shared`` with other jobs, energy is unknown. Without a time limit everything is unknown.
    """
    return tuple(
        _estimate(partition, gpus, time_limit_s, None if shared else power_w.get(partition))
        for partition, gpus in gpus_by_partition.items()
    )


def _estimate(partition: str, gpus: int, time_limit_s: int | None, power_w: float | None) -> Estimate:
    if not time_limit_s:
        return Estimate(partition, gpus, None, None, Source.UNKNOWN)
    time_s = _scaled(SHARE_OF_LIMIT, time_limit_s)
    energy_kwh = None if power_w is None else _scaled(time_s, power_w * gpus / JOULES_PER_KWH)
    return Estimate(partition, gpus, time_s, energy_kwh, Source.PRIOR)


def _scaled(interval: Interval, factor: float) -> Interval:
    return Interval(interval.p10 * factor, interval.p50 * factor, interval.p90 * factor)
