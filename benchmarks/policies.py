"""The look-ahead rule and the value rule between EASY and what no schedule can beat, on made-up work like the paper's.

Both are tuned on validation samples for waiting time, running time, energy (as in the paper, A.3.2), and for waiting
time and energy alike, then compared on others. ``share`` is how much of a gap is closed: between EASY, or the value
rule tuned for the same, and the lower bound (:mod:`slurmcast.simulate.bound`). The bound knows every arrival and every
true time; no policy does. The last line is JSON.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

import numpy as np
from options import names, numbers, parser, whole

from slurmcast.policy.lookahead import PATIENCE
from slurmcast.policy.registry import known, named
from slurmcast.simulate import engine
from slurmcast.simulate.bound import Objective, lower_bound
from slurmcast.simulate.calibrations import DEFAULT, calibration, calibrations
from slurmcast.simulate.executors import EXECUTORS
from slurmcast.simulate.metrics import measure
from slurmcast.simulate.paper import GRID, TEST, VALIDATION, Setup, sample, unit
from slurmcast.simulate.parallel import each

OBJECTIVES = {"wait_s": Objective(beta=1.0), "run_s": Objective(alpha=1.0), "energy_kwh": Objective(gamma=1.0)}
FIGURES = (*OBJECTIVES, "with_idle_kwh", "slowdown_p99", "wait_max_s")
TUNINGS = {"wait": (1, 0, 0), "run": (0, 1, 0), "energy": (0, 0, 1), "both": (1, 0, 1)}
"""Weights of the OBJECTIVES, each as a share of its mean over all candidates."""
PATIENCES = (0.1, 0.5, inf)


@dataclass(frozen=True)
class Candidate:
    """A policy with its weights; ``kappa`` in units of the data centre's own scale."""

    policy: str
    kappa: float = 0.0
    patience: float = PATIENCE


@dataclass(frozen=True)
class Case:
    """What is tried."""

    calibration: str
    executor: str
    noise: float

    @property
    def setup(self) -> Setup:
        """As ``simulate paper`` has it."""
        return Setup((), executor=self.executor, noise=self.noise)


FIXED = [Candidate("simple"), Candidate("easy"), Candidate("lookahead")]
TUNED = [
    *(Candidate("value", kappa) for kappa in GRID),
    *(Candidate("lookahead", kappa, patience) for kappa, patience in itertools.product(GRID, PATIENCES)),
]


def figures(case: Case, stream: int, candidates: Sequence[Candidate], number: int) -> list[list[float]]:
    """FIGURES of each candidate on one sample; on test samples last the lower bounds, NaN where there is none."""
    workload, cluster = sample(calibration(case.calibration), case.setup, stream, number)
    scale, rows, best = unit(calibration(case.calibration), "kappa"), [], None
    for one in candidates:
        policy = named(one.policy, one.kappa * scale, patience=one.patience)
        schedule = engine.run(workload, cluster, policy, EXECUTORS[case.executor])
        engine.verify(workload, cluster, schedule)
        found = measure(workload, cluster, schedule)
        rows.append([getattr(found, name) for name in FIGURES])
        if best is None or found.wait_s < best[0]:
            best = found.wait_s, schedule
    if stream == TEST and best is not None:
        bounds = [lower_bound(workload, cluster, objective, best[1]) for objective in OBJECTIVES.values()]
        rows.append(bounds + [np.nan] * (len(FIGURES) - len(bounds)))
    return rows


def means(case: Case, stream: int, candidates: Sequence[Candidate], samples: int) -> np.ndarray:
    """(candidates and the bound, FIGURES)."""
    work = partial(figures, case, stream, candidates)
    return np.mean(each(work, range(samples), f"{case} {stream}"), axis=0)


def tuned(case: Case, samples: int) -> dict[str, Candidate]:
    """The best of each policy for each tuning on the validation samples; of equals the first."""
    found = means(case, VALIDATION, TUNED, samples)[:, : len(OBJECTIVES)]
    costs = found / found.mean(axis=0) @ np.array(list(TUNINGS.values())).T
    chosen = {}
    for policy in ("value", "lookahead"):
        own = np.array([candidate.policy == policy for candidate in TUNED])
        best = np.where(own[:, None], costs, inf).argmin(axis=0)
        chosen |= {f"{policy}[{name}]": TUNED[place] for name, place in zip(TUNINGS, best.tolist(), strict=True)}
    return chosen


def compare(case: Case, validation: int, samples: int) -> dict[str, Any]:
    """The table of a case, and the shares of the gaps that are closed."""
    chosen = {candidate.policy: candidate for candidate in FIXED} | tuned(case, validation)
    candidates = list(dict.fromkeys(chosen.values()))
    found = means(case, TEST, candidates, samples)
    rows = {
        name: {
            **dict(zip(FIGURES, found[candidates.index(candidate)].tolist(), strict=True)),
            **({"kappa": candidate.kappa, "patience": candidate.patience} if known(candidate.policy).knob else {}),
        }
        for name, candidate in chosen.items()
    }
    bound = dict(zip(OBJECTIVES, found[-1].tolist(), strict=False))
    shares = {
        f"{figure} of {against}, tuned for {name}": share(rows[against], rows[f"lookahead[{name}]"], bound, figure)
        for name, weights in TUNINGS.items()
        for figure, weight in zip(OBJECTIVES, weights, strict=True)
        if weight
        for against in ("easy", f"value[{name}]")
    }
    return {"policies": rows | {"bound": bound}, "share": shares}


def share(above: dict[str, float], ours: dict[str, float], bound: dict[str, float], figure: str) -> float:
    """How much of the gap is closed."""
    gap = above[figure] - bound[figure]
    return (above[figure] - ours[figure]) / gap if gap > 0 else np.nan


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--calibrations", type=names([*calibrations(), "all"]), default=[DEFAULT])
    options.add_argument("--noise", type=numbers(0, 3), default=[0.3])
    options.add_argument("--executors", type=names(EXECUTORS), default=["skip"])
    options.add_argument("--validation", type=whole(1), default=12)
    options.add_argument("--samples", type=whole(1), default=30)
    asked = options.parse_args()
    centres = list(calibrations()) if "all" in asked.calibrations else asked.calibrations
    results = {}
    for case in itertools.starmap(Case, itertools.product(centres, asked.executors, asked.noise)):
        found = compare(case, asked.validation, asked.samples)
        label = f"{case.calibration} {case.executor} noise {case.noise:g}"
        results[label] = found
        print(f"\n{label}\n{'':24}" + "".join(f"{figure:>14}" for figure in FIGURES))
        for name, row in found["policies"].items():
            cells = "".join(f"{row[figure]:14,.1f}" if figure in row else f"{'':14}" for figure in FIGURES)
            print(
                f"{name:24}{cells}"
                + (f"  kappa {row['kappa']:g} patience {row['patience']:g}" if "kappa" in row else "")
            )
        print(
            "\n".join(f"closes {value:5.2f} of the gap in {name}" for name, value in found["share"].items()), flush=True
        )
    print(json.dumps(results))


if __name__ == "__main__":
    main()
