"""Which kappa: one piece of work under many, what each costs, and how sure the choice between them is.

The objective is the paper's, sum_i (alpha t_i + beta w_i + gamma e_i), with each of the three sums as a share of what
it is under the present kappa: so the weights have no unit, and with (1, 1, 1) one percent of each is worth the same.

Jobs that wait for one another aren't independent, weeks (or days, or samples) nearly are. So these blocks are drawn
again and again with replacement (Efron 1979): kappa is chosen on the blocks that were drawn and tried on those that
weren't, which says what to expect of it in weeks that nobody has seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from slurmcast.model import DAY_S
from slurmcast.policy.base import Floats, Ints, Mask
from slurmcast.policy.inputs import Inputs
from slurmcast.policy.lookahead import LONGEST_WAIT_S, PATIENCE
from slurmcast.policy.registry import named
from slurmcast.simulate import engine
from slurmcast.simulate.executors import skip
from slurmcast.simulate.parallel import each
from slurmcast.simulate.workload import Cluster, Workload

FIGURES = ("run_s", "wait_s", "energy_kwh", "waiting_tasks")
"""What is summed up for each kappa and block; the objective weighs the first three."""
OBJECTIVES = {"run": (1.0, 0.0, 0.0), "wait": (0.0, 1.0, 0.0), "energy": (0.0, 0.0, 1.0)}
"""alpha, beta, gamma."""
REFERENCE = "easy"
"""What most sites have, beside which the gains are shown; kappa means nothing to it."""
POINTS = 24
"""Kappas that are tried, beside 0 and the present one."""
BEYOND = 4.0
"""How far the grid reaches beyond the break-even kappas of 90 % of the jobs."""
ROUNDS = 2000
"""Of the bootstrap."""
FEWEST_BLOCKS, FEWEST_JOBS = 8, 100
"""With less than this nothing is sure."""
FEWEST_WEEKS = 10
"""Shorter histories are cut into days."""


class TuningError(Exception):
    """Nothing can be tuned; the message says why and what to do."""


@dataclass(frozen=True)
class Sample:
    """A piece of work, and the block that each job counts to."""

    workload: Workload
    cluster: Cluster
    block: Ints
    """(n,), from 0."""
    inputs: Inputs = field(default_factory=Inputs)


@dataclass(frozen=True)
class Setup:
    """What is tuned for what."""

    policy: str
    weights: tuple[float, float, float]
    """alpha, beta, gamma."""
    present: float
    """Kappa as it is now."""
    seed: int = 0
    patience: float = PATIENCE
    longest_wait_s: float = LONGEST_WAIT_S


@dataclass(frozen=True)
class Sweep:
    """What came of each kappa."""

    kappas: Floats
    """(k,), rising; 0 and the present one are among them."""
    sums: Floats
    """FIGURES of each block, (k, blocks, 4)."""
    wait_max_s: Floats
    """The longest wait, (k,)."""


def objective(text: str) -> tuple[float, float, float]:
    """``run``, ``wait``, ``energy`` or ``A,B,C`` as alpha, beta, gamma. Raises ValueError."""
    if text in OBJECTIVES:
        return OBJECTIVES[text]
    try:
        run, wait, energy = (float(part) for part in text.split(","))
    except ValueError:
        run = wait = energy = np.nan
    if not (min(run, wait, energy) >= 0 and 0 < run + wait + energy < np.inf):
        raise ValueError(f"{text!r}: must be run, wait, energy, or three weights from 0 up for them, such as 0,1,2")
    return run, wait, energy


def blocks(submit_s: Floats) -> tuple[Ints, str]:
    """The block of each job (n,), weeks or, in a short history, days from the first submission, and what they are."""
    since = submit_s - submit_s.min(initial=np.inf)
    weeks = since.max(initial=0.0) >= FEWEST_WEEKS * 7 * DAY_S
    length_s = 7 * DAY_S if weeks else DAY_S
    _, number = np.unique(since // length_s, return_inverse=True)
    return number.astype(np.int64), "weeks" if weeks else "days"


def break_even(samples: Sequence[Sample]) -> Floats:
    """The kappas 1 / (a t e) at which pairs of known work are worth nothing, rising. Raises :class:`TuningError`."""
    found = []
    for work in (sample.workload for sample in samples):
        known = work.may & (work.predicted_kwh > 0) & (work.predicted_s > 0)
        found.append(1 / (work.gpus * work.predicted_s * work.predicted_kwh)[known])
    result = np.sort(np.concatenate(found)) if found else np.empty(0)
    if not len(result):
        raise TuningError("no job's energy is known, so there is nothing for kappa to weigh")
    return result


def grid(break_evens: Floats, present: float) -> Floats:
    """0, the present kappa and POINTS between, evenly spread by their logarithms, with two digits."""
    low, high = np.quantile(break_evens, (0.05, 0.95))
    spread = np.geomspace(low / BEYOND, high * BEYOND, POINTS)
    return np.unique([0.0, present, *(float(f"{kappa:.1e}") for kappa in spread)])


def sweep(samples: Sequence[Sample], kappas: Floats, setup: Setup, processes: int | None = None) -> Sweep:
    """Run every sample under every kappa, on all cores. Raises :class:`slurmcast.simulate.engine.SimulationError`."""
    tasks = [(sample, kappa) for kappa in kappas.tolist() for sample in samples]
    found = each(partial(_one, setup), tasks, f"{setup.policy}, {len(kappas)} runs", processes)
    rows = [found[start : start + len(samples)] for start in range(0, len(found), len(samples))]
    sums = np.array([np.concatenate([sums for sums, _ in row]) for row in rows])
    return Sweep(kappas, sums, np.array([max(longest for _, longest in row) for row in rows]))


def _one(setup: Setup, task: tuple[Sample, float]) -> tuple[Floats, float]:
    """FIGURES of each block, (blocks, 4), and the longest wait."""
    sample, kappa = task
    work, cluster = sample.workload, sample.cluster
    rule = named(setup.policy, kappa, patience=setup.patience, longest_wait_s=setup.longest_wait_s)
    # Slurm's executor would start the same jobs, more slowly: the agent puts first what fits.
    schedule = engine.run(work, cluster, sample.inputs.around(rule), skip)
    engine.verify(work, cluster, schedule)
    jobs, wait_s = np.arange(len(work)), schedule.start_s - work.submit_s
    energy_kwh = np.nan_to_num(work.energy_kwh[jobs, schedule.type])  # unknown on one type, unknown on all
    figures = (work.time_s[jobs, schedule.type], wait_s, energy_kwh, wait_s > 0)
    return np.stack([np.bincount(sample.block, figure) for figure in figures], axis=1), float(wait_s.max())


def costs(sums: Floats, weights: tuple[float, float, float], present: int) -> Floats:
    """The objective (..., k) of sums (..., k, 4): the weighted mean of the figures, each as a share of what it is for
    the kappa with index ``present``, so that this one has 1. A figure that is 0 there (nobody waits) is measured by its
    mean over all kappas instead."""
    figures = sums[..., :3]
    unit = figures[..., present : present + 1, :]
    unit = np.where(unit > 0, unit, figures.mean(axis=-2, keepdims=True))
    shares = figures / np.where(unit > 0, unit, 1.0)
    result: Floats = shares @ (np.array(weights) / sum(weights))
    return result


def pareto(wait_s: Floats, energy_kwh: Floats) -> Mask:
    """Which kappas (k,) aren't beaten: no other waits and uses no more, and less of one."""
    less = (wait_s[:, None] >= wait_s) & (energy_kwh[:, None] >= energy_kwh)
    strictly = (wait_s[:, None] > wait_s) | (energy_kwh[:, None] > energy_kwh)
    result: Mask = np.asarray(~(less & strictly).any(axis=1))
    return result


@dataclass(frozen=True)
class Choice:
    """A kappa, and how sure it is."""

    index: int
    gain: tuple[float, float, float]
    """Quantiles 0.05, 0.5 and 0.95 of how much less the objective is than under the present kappa, in blocks that the
    choice wasn't made by; NaN with fewer than two."""
    again: float
    """How often the same kappa or its neighbour was chosen."""


def choose(found: Sweep, setup: Setup) -> Choice:
    """The kappa of the least objective; of equals the one nearest the present."""
    present = int(np.searchsorted(found.kappas, setup.present))
    cost = costs(found.sums.sum(axis=1), setup.weights, present)
    distance = np.abs(np.arange(len(cost)) - present)
    best = int(np.lexsort((distance, np.round(cost, 12)))[0])
    count = found.sums.shape[1]
    if count < 2:
        return Choice(best, (np.nan,) * 3, np.nan)
    rng = np.random.default_rng(setup.seed)
    drawn = rng.multinomial(count, np.full(count, 1 / count), ROUNDS)
    drawn = drawn[(drawn == 0).any(axis=1)]
    chosen = costs(_weighed(drawn, found.sums), setup.weights, present).argmin(axis=1)
    others = costs(_weighed(drawn == 0, found.sums), setup.weights, present)
    gains = others[:, present] - others[np.arange(len(chosen)), chosen]
    low, middle, high = np.quantile(gains, (0.05, 0.5, 0.95)).tolist()
    return Choice(best, (low, middle, high), float((np.abs(chosen - best) <= 1).mean()))


def _weighed(times: Ints | Mask, sums: Floats) -> Floats:
    """Sums over blocks, each so many times: (rounds, blocks) and (k, blocks, 4) to (rounds, k, 4)."""
    result: Floats = np.einsum("rb,kbf->rkf", times.astype(np.float64), sums)
    return result


def report(samples: Sequence[Sample], setup: Setup, kind: str, processes: int | None = None) -> dict[str, Any]:
    """The sweep, the choice and what to say of it, as JSON has it. ``kind``: what the blocks are.

    Raises :class:`TuningError`, :class:`slurmcast.simulate.engine.SimulationError`, and ValueError for a policy that
    isn't there.
    """
    evens = break_even(samples)
    found = sweep(samples, grid(evens, setup.present), setup, processes)
    choice = choose(found, setup)
    totals = found.sums.sum(axis=1)
    present = int(np.searchsorted(found.kappas, setup.present))
    cost = costs(totals, setup.weights, present)
    front = pareto(totals[:, 1], totals[:, 2])
    jobs, count = sum(len(sample.workload) for sample in samples), found.sums.shape[1]
    names = (*FIGURES, "wait_max_s", "kappa", "objective", "pareto")
    columns = (*totals.T, found.wait_max_s, found.kappas, cost, front)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    points = [dict(zip(names, row, strict=True)) for row in rows]
    today = sweep(samples, np.zeros(1), replace(setup, policy=REFERENCE), processes)
    figures = (*today.sums.sum(axis=1)[0].tolist(), float(today.wait_max_s[0]))
    low, middle, high = (None if np.isnan(gain) else gain for gain in choice.gain)
    sure, reason = _verdict(choice, present, jobs, count, kind)
    return {
        "policy": setup.policy,
        "jobs": jobs,
        "blocks": {"kind": kind, "count": count},
        "weights": dict(zip(("alpha", "beta", "gamma"), setup.weights, strict=True)),
        "break_even": dict(zip(("p10", "p50", "p90"), np.quantile(evens, (0.1, 0.5, 0.9)).tolist(), strict=True)),
        "present": points[present],
        "recommended": points[choice.index],
        "gain": {"p05": low, "p50": middle, "p95": high},
        "chosen_again": None if np.isnan(choice.again) else choice.again,
        "sure": sure,
        "reason": reason,
        "points": points,
        REFERENCE: dict(zip(names, figures, strict=False)),
    }


def _verdict(choice: Choice, present: int, jobs: int, count: int, kind: str) -> tuple[bool, str]:
    """Whether to change kappa, and why."""
    if jobs < FEWEST_JOBS or count < FEWEST_BLOCKS:
        enough = f"{FEWEST_JOBS} jobs and {FEWEST_BLOCKS} {kind}"
        here = kind if count > 1 else kind.removesuffix("s")
        return False, f"Too little to go by: {jobs} jobs on {count} {here}; it takes {enough}."
    if choice.index == present:
        return False, "The present kappa is the best of those that were tried."
    if choice.gain[0] <= 0:
        return False, f"No clear gain on {kind} that kappa wasn't chosen by: the present one may be as good."
    return True, f"It does better also on {kind} that it wasn't chosen by."
