"""An estimate from the submitter's own finished runs of the same work, the same script, or under the same job name.

Of these three the nearest that ran is used. Where numbers differ, times are scaled by the amounts of work as
:mod:`slurmcast.probe.amounts` does (time is proportional to epochs, samples, trials, ... within a script), and a run
counts only if the other numbers are near. The interval is a predictive t-interval in logarithms (Gelman et al. 2013,
Bayesian Data Analysis, section 3.3): the runs' own spread, with a prior worth :data:`PRIOR_RUNS` runs, so that one run
gives a wide interval and many give their own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from statistics import fmean

from slurmcast.model import J_PER_KWH, Estimate, Interval, Source
from slurmcast.probe import gpus
from slurmcast.probe.features import AMOUNTS, NO_WORK, PER_PASS, PER_STEP, REPEATS
from slurmcast.probe.prior import P90
from slurmcast.script.numbers import DEFAULT


class Kin(IntEnum):
    """How a finished run is related to a job, the nearest first."""

    WORK = 0
    """The same work: script, sources, arguments, environment and request."""
    SCRIPT = 1
    """The same batch script."""
    NAME = 2
    """The same job name."""


SPREADS: Mapping[Kin, float] = {Kin.WORK: 0.15, Kin.SCRIPT: 0.25, Kin.NAME: 0.5}
"""Standard deviation of logarithmic times that is expected before runs show their own. In GAISSA's repeated trainings
(CC-BY-4.0) repeats spread by 0.09 per epoch, by 0.29 where training stops early; on Zeus, one workload with batch sizes
within a factor of two by 0.25. That of an edited script is ours."""
PRIOR_RUNS = 2.0
"""Degrees of freedom of that expectation."""
POWER_SPREAD = 0.06
"""The same for power: repeats in GAISSA spread by 0.03, at most 0.06."""
POWER_RATIO_SPREAD = 0.2
"""Standard deviation between jobs of the logarithmic ratio of two types' shares of their limit (Zeus: 0.1 to 0.2)."""
NEAR = 2.0
"""Factor by which numbers other than amounts may differ."""
FARTHEST = 10.0
"""Factor by which amounts may differ."""
STRETCH_SPREAD = 0.2
"""Further standard deviation for each factor e that times are stretched by: start-up doesn't grow with the work."""
_IGNORED = NO_WORK | {"memory_mb", "memory_per_cpu_mb"}


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run of the same submitter."""

    kin: Kin
    numbers: Mapping[str, float]
    gpus: int
    type: str
    """The GPU type that it ran on."""
    time_s: float
    energy_kwh: float | None
    """Energy of all its GPUs; None where not measured or shared with other jobs."""
    ended: float
    """When it ended, in Unix seconds."""


@dataclass(frozen=True, slots=True)
class _Guess:
    """A middle and the distance from there to p10 and to p90."""

    middle: float
    half: float

    def moved(self, by: float, spread: float) -> _Guess:
        """Shifted by a number that is uncertain by ``spread``, a standard deviation."""
        return _Guess(self.middle + by, math.hypot(self.half, P90 * spread))

    def interval(self, factor: float = 1.0) -> Interval:
        low, mid, high = (math.exp(self.middle + at) * factor for at in (-self.half, 0.0, self.half))
        return Interval(low, mid, high)


def history(
    numbers: Mapping[str, float],
    gpus_by_partition: Mapping[str, int],
    types: Mapping[str, str],
    runs: Sequence[Run],
    *,
    shared: bool = False,
) -> tuple[Estimate, ...]:
    """One estimate per partition, in the order of ``gpus_by_partition`` (a_ij); unknown where no run is of use.

    ``numbers`` as the script reader gave them; ``types``: GPU type by partition; ``runs``: the submitter's, any order.
    On a type without a run of its own, times are those of the type with most runs by the published ratio
    (:mod:`slurmcast.probe.gpus`). ``shared``: the job asks for parts of GPUs, whose energy isn't its own.
    """
    nearest = relevant(numbers, set(gpus_by_partition.values()), runs)
    return tuple(
        _estimate(name, a, types, [(run, by) for run, by in nearest if run.gpus == a], shared)
        for name, a in gpus_by_partition.items()
    )


def relevant(numbers: Mapping[str, float], counts: set[int], runs: Sequence[Run]) -> list[tuple[Run, float]]:
    """The runs that count, all of the nearest kin, each with the logarithm of how much longer the job in question is.

    ``counts``: the numbers of GPUs that are of interest.
    """
    found = [
        (run, by)
        for run in runs
        if run.gpus in counts and run.time_s > 0 and (by := _stretch(numbers, run)) is not None
    ]
    nearest = min((run.kin for run, _ in found), default=None)
    return [(run, by) for run, by in found if run.kin == nearest]


def _stretch(numbers: Mapping[str, float], run: Run) -> float | None:
    """Logarithm of how much longer the job is than the run; None where the two can't be compared."""
    if run.kin is Kin.WORK:
        return 0.0
    ours, theirs = _logs(numbers), _logs(run.numbers)
    if set(ours) != set(theirs):
        return None
    apart = {name: ours[name] - theirs[name] for name in ours}
    if any(abs(apart[name]) > math.log(NEAR) + 1e-9 for name in apart if name not in AMOUNTS):
        return None
    per = PER_STEP if "steps" in apart and "epochs" not in apart else PER_PASS
    by = sum(apart.get(name, 0.0) for name in (*per, *REPEATS))
    return by if abs(by) <= math.log(FARTHEST) + 1e-9 else None


def _logs(numbers: Mapping[str, float]) -> dict[str, float]:
    return {
        name: math.log(value)
        for name, value in numbers.items()
        if name not in _IGNORED and not name.startswith(DEFAULT) and math.isfinite(value) and value > 0
    }


def _estimate(
    partition: str, a: int, types: Mapping[str, str], runs: Sequence[tuple[Run, float]], shared: bool
) -> Estimate:
    if not runs:
        return Estimate(partition, a, None, None, Source.UNKNOWN)
    by_type = Counter(run.type for run, _ in runs)
    wanted = types[partition]
    source = wanted if wanted in by_type else by_type.most_common(1)[0][0]
    chosen = [(run, by) for run, by in runs if run.type == source]
    ratio = gpus.longer(source, types)[partition]
    time = _time(chosen).moved(ratio.log, ratio.spread)
    power = None if shared else _power(chosen, source, wanted)
    energy = None if power is None else _Guess(time.middle + power.middle, math.hypot(time.half, power.half))
    energy_kwh = None if energy is None else energy.interval(a / J_PER_KWH)
    return Estimate(partition, a, time.interval(), energy_kwh, Source.HISTORY)


def _time(runs: Sequence[tuple[Run, float]]) -> _Guess:
    logs = [math.log(run.time_s) + by for run, by in runs]
    guess = _predictive(logs, SPREADS[runs[0][0].kin])
    return guess.moved(0.0, STRETCH_SPREAD * fmean(abs(by) for _, by in runs))


def _power(runs: Sequence[tuple[Run, float]], source: str, wanted: str) -> _Guess | None:
    """Of one GPU in W; None where no run was measured, or the types' powers aren't published."""
    logs = [math.log(run.energy_kwh * J_PER_KWH / (run.time_s * run.gpus)) for run, _ in runs if run.energy_kwh]
    if not logs:
        return None
    guess = _predictive(logs, POWER_SPREAD)
    if source == wanted:
        return guess
    ran, asked = gpus.find(source), gpus.find(wanted)
    if ran is None or asked is None:
        return None
    return guess.moved(math.log(asked.power_w / ran.power_w), POWER_RATIO_SPREAD)


def _predictive(values: Sequence[float], spread: float) -> _Guess:
    """The next value after ``values``, where their standard deviation was expected to be about ``spread``."""
    n, middle = len(values), fmean(values)
    freedom = PRIOR_RUNS + n - 1
    variance = (PRIOR_RUNS * spread**2 + sum((value - middle) ** 2 for value in values)) / freedom
    return _Guess(middle, t90(freedom) * math.sqrt(variance * (1 + 1 / n)))


def t90(freedom: float) -> float:
    """The 90 % quantile of Student's t distribution for at least 2 degrees of freedom, to 0.5 % (Abramowitz and Stegun
    1964, 26.7.5)."""
    z = P90
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return sum(term / freedom**power for power, term in enumerate(terms))
