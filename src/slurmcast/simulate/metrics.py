"""What a schedule costs. Sums over all jobs, as in the paper's tables 1 and 2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slurmcast.model import J_PER_KWH
from slurmcast.simulate.workload import Cluster, Schedule, Workload

SHORT_S = 10.0
"""Bound of the bounded slowdown: jobs shorter than this count as this long (Feitelson et al. 1997)."""


@dataclass(frozen=True)
class Metrics:
    """Of one schedule. ``energy_kwh`` is that of the jobs whose energy is known; ``with_idle_kwh`` adds GPUs that do
    nothing between the first submission and the last end."""

    wait_s: float
    waiting_tasks: int
    run_s: float
    energy_kwh: float
    with_idle_kwh: float
    makespan_s: float
    slowdown_p50: float
    slowdown_p95: float
    slowdown_p99: float
    wait_max_s: float
    energy_unknown: int
    """Jobs that aren't in the energies, since theirs isn't known."""


def measure(workload: Workload, cluster: Cluster, schedule: Schedule) -> Metrics:
    """The metrics of a schedule in which every job ran."""
    jobs = np.arange(len(workload))
    wait_s = schedule.start_s - workload.submit_s
    run_s = workload.time_s[jobs, schedule.type]
    gpu_s = workload.gpus[jobs, schedule.type] * run_s
    energies = workload.energy_kwh[jobs, schedule.type]
    energy_kwh = float(np.nansum(energies))
    makespan_s = float((schedule.start_s + run_s).max() - workload.submit_s[0]) if len(jobs) else 0.0
    used_s = np.bincount(schedule.type, gpu_s, len(cluster.types))
    idle_kwh = float(((cluster.gpus * makespan_s - used_s) * cluster.idle_power_w).sum() / J_PER_KWH)
    slowdown = np.maximum((wait_s + run_s) / np.maximum(run_s, SHORT_S), 1.0)
    p50, p95, p99 = np.quantile(slowdown, (0.5, 0.95, 0.99)) if len(jobs) else (1.0, 1.0, 1.0)
    return Metrics(
        wait_s=float(wait_s.sum()),
        waiting_tasks=int((wait_s > 0).sum()),
        run_s=float(run_s.sum()),
        energy_kwh=energy_kwh,
        with_idle_kwh=energy_kwh + idle_kwh,
        makespan_s=makespan_s,
        slowdown_p50=float(p50),
        slowdown_p95=float(p95),
        slowdown_p99=float(p99),
        wait_max_s=float(wait_s.max(initial=0.0)),
        energy_unknown=int(np.isnan(energies).sum()),
    )
