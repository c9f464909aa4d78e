"""The paper's experiment (arXiv 2608.18503, A.3.2): weights tuned on some samples, policies compared on others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from slurmcast.policy.base import Floats
from slurmcast.policy.lookahead import LONGEST_WAIT_S, PATIENCE
from slurmcast.policy.registry import known, named
from slurmcast.simulate import engine, executors
from slurmcast.simulate.calibrations import DEFAULT, calibration, calibrations
from slurmcast.simulate.metrics import Metrics, measure
from slurmcast.simulate.noise import with_noise
from slurmcast.simulate.parallel import each
from slurmcast.simulate.synthetic import Parameters, draw
from slurmcast.simulate.workload import Cluster, Schedule, Workload

OBJECTIVES = {"wait": "wait_s", "run": "run_s", "energy": "energy_kwh"}
"""What the paper tunes for (one of beta, alpha, gamma is 1, the others 0), and the figure that is then to be small."""
GRID = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
"""Weights that are tried, in units of the data centre's own scale (see :func:`unit`)."""
BASELINES = ("simple", "easy")
"""What gains are against: the paper's baseline, and what most sites have."""
NOT_TUNED = {"lookahead": {"patience": PATIENCE, "longest_wait_s": LONGEST_WAIT_S}}
"""What policies have beside the weight that is tuned."""
VALIDATION, TEST = 0, 1
"""Streams of samples, beside the seed."""

METRICS = tuple(field.name for field in fields(Metrics))
PAPER: dict[str, dict[str, float]] = {
    name: dict(zip(("wait_s", "waiting_tasks", "run_s", "energy_kwh"), row, strict=True))
    for name, row in {
        "simple": (2_466_062.56, 27.38, 15_333_868.47, 440.98),
        "value[wait]": (1_810_123.92, 21.16, 15_215_721.21, 245.42),
        "value[run]": (2_045_399.25, 22.13, 15_001_371.15, 243.97),
        "value[energy]": (2_112_773.56, 22.80, 15_291_965.57, 240.07),
    }.items()
}
"""Table 2."""
PAPER_GAINS = {"wait_s": -0.3028, "waiting_tasks": -0.2447, "run_s": -0.0212, "energy_kwh": -0.3158}
"""Table 1: value-based against the Simple rule in the data centre itself."""


@dataclass(frozen=True)
class Setup:
    """An experiment, but for the data centre."""

    policies: tuple[str, ...]
    samples: int = 100
    validation: int = 50
    executor: str = "skip"
    noise: float = 0.0
    """Error of the predictions, see :mod:`slurmcast.simulate.noise`."""
    unknown: float = 0.0
    """Share of the jobs of which nothing is predicted."""
    seed: int = 0


@dataclass(frozen=True)
class Candidate:
    """A policy with its weight, 0 where it has none."""

    policy: str
    weight: float = 0.0

    def schedule(self, workload: Workload, cluster: Cluster, executor: str) -> Schedule:
        """Run, and verify."""
        rule = named(self.policy, **{knob: self.weight for knob in (known(self.policy).knob,) if knob})
        schedule = engine.run(workload, cluster, rule, executors.EXECUTORS[executor])
        engine.verify(workload, cluster, schedule)
        return schedule


def report(setup: Setup, calibration_name: str) -> dict[str, Any]:
    """The experiment in one data centre, or ``all``: beside the paper's figures, as JSON has it.

    Gains are against each of BASELINES that was asked for. Raises ValueError for a name that isn't there.
    """
    executors.known(setup.executor)
    every = calibration_name == "all"
    chosen = calibrations() if every else {calibration_name: calibration(calibration_name)}
    found = {name: experiment(parameters, setup, name) for name, parameters in chosen.items()}
    name = DEFAULT if every else calibration_name
    answer = {
        "setup": asdict(setup),
        "not_tuned": {name: dict(kept) for name, kept in NOT_TUNED.items() if name in setup.policies},
        "calibration": name,
        "policies": found[name],
        "gains": {base: gains(found[name], base) for base in BASELINES if base in found[name]},
        "paper": {"table_2": PAPER, "table_1_gains": PAPER_GAINS},
    }
    if every:
        answer |= {"calibrations": found, "ranges": ranges(list(found.values()))}
        answer["gain_ranges"] = {
            base: ranges([gains(rows, base) for rows in found.values()]) for base in answer["gains"]
        }
    return answer


def experiment(parameters: Parameters, setup: Setup, label: str, processes: int | None = None) -> dict[str, Any]:
    """Each policy's figures: means over the test samples, ``weight``, standard errors (``se``, None of one sample).

    A policy with a weight is there once for each of OBJECTIVES, as ``name[objective]``. Raises ValueError for a policy
    or an executor that isn't there.
    """
    tuned = tune(parameters, setup, label, processes)
    labels = {
        label: candidate
        for policy in setup.policies
        for label, candidate in (tuned[policy] if policy in tuned else {policy: Candidate(policy)}).items()
    }
    candidates = sorted(set(labels.values()), key=lambda c: (c.policy, c.weight))
    found = _figures(parameters, setup, TEST, candidates, f"{label} test", processes)
    return {label: _row(candidate, found[candidates.index(candidate)]) for label, candidate in labels.items()}


def tune(
    parameters: Parameters, setup: Setup, label: str, processes: int | None = None
) -> dict[str, dict[str, Candidate]]:
    """For each policy that has a weight, the best on the validation samples for each objective; the least of equals."""
    weighty = [policy for policy in setup.policies if known(policy).knob]
    candidates = [Candidate(p, share * unit(parameters, known(p).knob)) for p in weighty for share in GRID]
    if not candidates:
        return {}
    means = _figures(parameters, setup, VALIDATION, candidates, f"{label} validation", processes).mean(axis=1)
    tuned: dict[str, dict[str, Candidate]] = {}
    for number, policy in enumerate(weighty):
        own = slice(number * len(GRID), (number + 1) * len(GRID))
        tuned[policy] = {
            f"{policy}[{objective}]": candidates[own][int(means[own, METRICS.index(metric)].argmin())]
            for objective, metric in OBJECTIVES.items()
        }
    return tuned


def unit(parameters: Parameters, knob: str) -> float:
    """The weight with which time and energy of the mean job count alike: kappa in 1/(GPU s kWh), gamma in s/kWh."""
    time_s, energy_kwh = np.mean(parameters.time_s), np.mean(parameters.energy_kwh)
    gpus = np.average(parameters.gpus, weights=parameters.gpu_shares)
    return float(1 / (gpus * time_s * energy_kwh) if knob == "kappa" else time_s / energy_kwh)


def sample(parameters: Parameters, setup: Setup, stream: int, number: int) -> tuple[Workload, Cluster]:
    """Sample ``number`` of a stream, with its predictions."""
    workload, cluster = draw(parameters, (setup.seed, stream, number))
    if setup.noise or setup.unknown:
        seed = np.random.SeedSequence((setup.seed, stream, number, 1)).generate_state(1)
        workload = with_noise(workload, setup.noise, setup.unknown, int(seed[0]))
    return workload, cluster


def first_sample(setup: Setup, answer: Mapping[str, Any]) -> tuple[Workload, dict[str, dict[str, Schedule]]]:
    """The first test sample of a report: the work, and what became of it, in a column for each objective with the
    policies that were tuned for it beside those that have nothing to tune."""
    name = answer["calibration"]
    workload, cluster = sample(calibration(name), setup, TEST, 0)
    columns: dict[str, dict[str, Schedule]] = {objective: {} for objective in OBJECTIVES}
    for label, row in answer["policies"].items():
        policy, _, tuned = label.partition("[")
        schedule = Candidate(policy, row["weight"] or 0.0).schedule(workload, cluster, setup.executor)
        for objective in (tuned.rstrip("]"),) if tuned else OBJECTIVES:
            columns[objective][label] = schedule
    if not any(known(policy).knob for policy in setup.policies):
        columns = {"": columns["wait"]}
    counts = " and ".join(f"{count:.0f} {kind}" for kind, count in zip(cluster.types, cluster.gpus, strict=True))
    title = f"{name}, sample 0 of seed {setup.seed}: {len(workload)} jobs, {counts}, {conditions(answer['setup'])}"
    return workload, {f"{title}\ntuned for {one}" if one else title: found for one, found in columns.items()}


def conditions(setup: Mapping[str, Any]) -> str:
    """Who starts the jobs of a report's ``setup``, and how good the predictions are."""
    unknown = f", {setup['unknown']:.0%} unknown" if setup["unknown"] else ""
    return f"executor {setup['executor']}, noise {setup['noise']:.0%}{unknown}"


def gains(rows: Mapping[str, Mapping[str, Any]], base: str) -> dict[str, dict[str, float]]:
    """By which share each other policy's metrics are above those of ``base``; those that are 0 there are left out."""
    return {
        name: {metric: row[metric] / rows[base][metric] - 1 for metric in METRICS if rows[base][metric]}
        for name, row in rows.items()
        if name != base
    }


def ranges(found: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, list[float]]]:
    """Least, median and greatest of each policy's figures over data centres."""
    return {
        name: {
            metric: np.quantile([one[name][metric] for one in found], (0, 0.5, 1)).tolist()
            for metric in METRICS
            if all(metric in one[name] for one in found)
        }
        for name in found[0]
    }


def _figures(
    parameters: Parameters,
    setup: Setup,
    stream: int,
    candidates: Sequence[Candidate],
    label: str,
    processes: int | None,
) -> Floats:
    """(candidates, samples, METRICS)."""
    numbers = range(setup.validation if stream == VALIDATION else setup.samples)
    work: Callable[[int], list[list[float]]] = partial(_one, parameters, setup, stream, tuple(candidates))
    return np.array(each(work, numbers, label, processes)).swapaxes(0, 1)


def _one(
    parameters: Parameters, setup: Setup, stream: int, candidates: tuple[Candidate, ...], number: int
) -> list[list[float]]:
    workload, cluster = sample(parameters, setup, stream, number)
    found = (measure(workload, cluster, c.schedule(workload, cluster, setup.executor)) for c in candidates)
    return [[float(value) for value in asdict(metrics).values()] for metrics in found]


def _row(candidate: Candidate, found: Floats) -> dict[str, Any]:
    """``found``: (samples, METRICS)."""
    errors = (found.std(axis=0, ddof=1) / np.sqrt(len(found))).tolist() if len(found) > 1 else [None] * len(METRICS)
    weight = candidate.weight if known(candidate.policy).knob else None
    return {
        **dict(zip(METRICS, found.mean(axis=0).tolist(), strict=True)),
        "weight": weight,
        "se": dict(zip(METRICS, errors, strict=True)),
    }
