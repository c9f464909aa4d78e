"""Replays of Gavel's traces under every policy, and what errors of the predictions do. The last line is JSON.

The traces are read where ``SLURMCAST_DATA`` points (default: ``shared/data`` beside the checkout); without them there
is only made-up work. Clusters have as many V100 as P100 and K80, as in Gavel's own simulations, for a load of 0.9.
Sums are in s and kWh, kappa in multiples of the one with which time and energy of the median job count alike.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from options import names, parser

from slurmcast.policy.lookahead import DAY_S
from slurmcast.policy.registry import POLICIES, Weights, known
from slurmcast.simulate.calibrations import DEFAULT, calibration
from slurmcast.simulate.parallel import each
from slurmcast.simulate.replay import gavel
from slurmcast.simulate.replay.compare import Setup, compare
from slurmcast.simulate.replay.trace import Trace, break_even_kappa, on, pools
from slurmcast.simulate.synthetic import draw

DATA = Path(os.environ.get("SLURMCAST_DATA", Path(__file__).parents[2] / "shared" / "data")) / "gavel"
TRACES = ("0e4a51", "ed69ec", "11cb48", "6c71a0")
LOAD, GPUS = 0.9, "v100=1,p100=1,k80=1"
WEIGHTS = (0.0, 0.1, 1.0)
LONGEST_WAITS_D = (7.0, 60.0)
"""Of the look-ahead rule: its default, and one for queues that are weeks old."""
REPLAY_NOISE = (0.0, 0.3)
NOISE, UNKNOWN, SEEDS = (0.0, 0.1, 0.3, 0.6), (0.0, 0.1, 0.3), (2, 24)
"""How often errors are drawn on a trace, and how many samples there are of made-up work."""
MADE_UP = "made-up"
"""Work like the paper's."""
TRIED_ON = ("0e4a51", MADE_UP)


@dataclass(frozen=True)
class Task:
    """One run, for one process."""

    part: str
    trace: str
    policy: str
    weight: float
    noise: float
    longest_wait_d: float | None = None
    """Of the look-ahead rule."""
    unknown: float = 0.0
    seed: int = 0


@cache
def work(name: str, seed: int = 0) -> Trace:
    """A trace on its cluster, the same for every seed, or made-up work. Raises
    :class:`slurmcast.simulate.replay.trace.TraceError`."""
    if name == MADE_UP:
        return Trace(*draw(calibration(DEFAULT), seed))
    if seed:
        return work(name)
    lines, table = gavel.read(DATA / "traces" / f"{name}.trace"), gavel.speeds(DATA / "simulation_throughputs.json")
    return on(pools(GPUS), LOAD, lambda chosen: gavel.trace(lines, table, chosen, seed=0))


def result(task: Task) -> dict[str, Any]:
    """Figures of one run."""
    trace = work(task.trace, task.seed)
    weights = Weights(longest_wait_s=(task.longest_wait_d or 0.0) * DAY_S)
    kappa = task.weight * break_even_kappa(trace.workload)
    setup = Setup((task.policy,), (kappa,), weights, noise=task.noise, unknown=task.unknown, seed=task.seed)
    (found,) = compare(trace, setup)
    return {**asdict(task), "jobs": len(trace.workload), **asdict(found.metrics)}


def replays(traces: Sequence[str], policies: Sequence[str]) -> Iterator[Task]:
    """Every policy on every trace, without and with errors of the predictions."""
    for trace, policy, noise in itertools.product(traces, policies, REPLAY_NOISE):
        for weight in WEIGHTS if known(policy).knob == "kappa" else (0.0,):
            for longest_wait_d in LONGEST_WAITS_D if policy == "lookahead" else (None,):
                yield Task("replays", trace, policy, weight, noise, longest_wait_d)


def errors(traces: Sequence[str], policies: Sequence[str]) -> Iterator[Task]:
    """Policies that use predictions, with every error and share of unknown jobs, and EASY by time limits once."""
    tried = [name for name in policies if known(name).knob == "kappa" or name == "easy_predicted"]
    for trace in traces:
        for seed in range(SEEDS[trace == MADE_UP]):
            yield Task("errors", trace, "easy", 0.0, 0.0, seed=seed)
            for policy, noise, unknown in itertools.product(tried, NOISE, UNKNOWN):
                longest_wait_d = LONGEST_WAITS_D[-1] if policy == "lookahead" else None
                yield Task("errors", trace, policy, WEIGHTS[-1], noise, longest_wait_d, unknown, seed)


def means(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over the seeds, and the standard deviation of the waiting time."""
    same = ("part", "trace", "policy", "weight", "noise", "longest_wait_d", "unknown")
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in same), []).append(row)
    figures = [name for name in rows[0] if name not in (*same, "seed")] if rows else []
    return [
        {
            **dict(zip(same, key, strict=True)),
            "seeds": len(group),
            **{name: round(float(np.mean([row[name] for row in group])), 3) for name in figures},
            "wait_s_sd": round(float(np.std([row["wait_s"] for row in group])), 3),
        }
        for key, group in groups.items()
    ]


def main(arguments: Sequence[str]) -> dict[str, Any]:
    """Run what is asked for."""
    options = parser(__doc__)
    options.add_argument("--traces", default=",".join(TRACES))
    options.add_argument("--policies", type=names(POLICIES), default=list(POLICIES))
    options.add_argument("--parts", type=names(("replays", "errors")), default=["replays", "errors"])
    asked = options.parse_args(arguments)
    policies, skipped = asked.policies, {}
    there = [name for name in asked.traces.split(",") if (DATA / "traces" / f"{name}.trace").exists()]
    if missing := [name for name in asked.traces.split(",") if name not in there]:
        skipped["traces"] = f"{', '.join(missing)}: not in {DATA / 'traces'}; SLURMCAST_DATA names the folder of gavel/"
    tasks: list[Task] = []
    if "replays" in asked.parts:
        tasks += replays(there, policies)
    if "errors" in asked.parts:
        tasks += errors([name for name in TRIED_ON if name in there or name == MADE_UP], policies)
    rows = means(each(result, tasks, "replays"))
    for row in rows:
        print(json.dumps(row), flush=True)
    traces = {
        name: {"gpus": dict(zip(trace.cluster.types, trace.cluster.gpus.tolist(), strict=True)), "notes": trace.notes}
        for name, trace in ((name, work(name)) for name in there)
    }
    return {"results": rows, "traces": traces, "skipped": skipped}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
