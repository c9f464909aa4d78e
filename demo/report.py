"""The demo's table: three arms side by side, from Slurm's accounting and the energy that the stand-ins left."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from demo import workload

ARMS = ("default", "listed", "slurmcast")
TITLES = {
    "default": "A  Slurm, default partition",
    "listed": "B  Slurm, -p a100,a6000",
    "slurmcast": "C  slurmcast",
}

Run = Mapping[str, Any]


def figures(runs: Sequence[Run], idle_w: Mapping[str, float], gpus: Mapping[str, int]) -> dict[str, Any]:
    """One arm in figures, sums over its jobs. ``gpus``: GPUs of each partition; ``idle_w``: power of one at rest."""
    span = max(run["end"] for run in runs) - min(run["submit"] for run in runs)
    busy = dict.fromkeys(gpus, 0.0)
    for run in runs:
        busy[run["partition"]] += (run["end"] - run["start"]) * run["gpus"]
    idle_kwh = sum((gpus[p] * span - busy[p]) * idle_w[p] for p in gpus) / 3.6e6
    measured = [run["energy_kwh"] for run in runs if run["energy_kwh"] is not None]
    energy = sum(measured)
    return {
        "wait_s": sum(run["start"] - run["submit"] for run in runs),
        "waiting_tasks": sum(run["start"] - run["submit"] > WAITED_S for run in runs),
        "run_s": sum(run["end"] - run["start"] for run in runs),
        "energy_kwh": energy,
        "energy_with_idle_kwh": energy + idle_kwh,
        "timeouts": sum(run["state"] == "TIMEOUT" for run in runs),
        "jobs": len(runs),
        "measured": len(measured),
        "makespan_s": span,
        "on_a100": sum(run["partition"] == "a100" for run in runs),
    }


WAITED_S = 60
"""A job that started within a minute of its submission didn't have to wait: starting one takes Slurm some seconds of
emulated time."""


def report(folder: Path, seed: int, spec: Mapping[str, Any], shape: Mapping[str, int]) -> dict[str, Any]:
    """Print the table and return the JSON of the contract."""
    works, idle = workload.load_works(), {name: float(gpu["idle_w"]) for name, gpu in workload.gpu_table().items()}
    planned = workload.new_jobs(works, seed, **spec)
    loaded = {arm: json.loads((folder / f"{arm}.json").read_text()) for arm in ARMS}
    arms = {arm: figures(result["runs"], idle, shape) for arm, result in loaded.items()}
    bound = workload.bound_kwh(works, planned)
    console = Console(width=120, highlight=False)
    if loaded["slurmcast"]["explain"]:
        console.print("\n[bold]A waiting job, as its user sees it:[/bold]  slurmcast explain JOBID")
        console.print(loaded["slurmcast"]["explain"], markup=False)
    console.print(_table(arms, bound))
    b, c = arms["listed"], arms["slurmcast"]
    room = b["energy_kwh"] - bound
    saved = (b["energy_kwh"] - c["energy_kwh"]) / room if room > 0 else float("nan")
    console.print(
        f"C next to B: waiting {c['wait_s'] / max(b['wait_s'], 1) - 1:+.0%}, energy of jobs"
        f" {c['energy_kwh'] / b['energy_kwh'] - 1:+.1%}; of what B uses above the bound (every job on its better type)"
        f" C saves {saved:.0%}.",
        soft_wrap=True,
    )
    console.print(
        "Emulated: the GPUs, the jobs' times and powers (demo/work.toml), and time itself, which runs faster."
        " Real: Slurm, slurmdbd, pyslurm, the hook, the daemon, the agent, and every decision.",
        soft_wrap=True,
    )
    return {
        "arms": arms,
        "bound": {"energy_kwh": bound},
        "ratio": {"wait_s": c["wait_s"] / max(b["wait_s"], 1), "energy_kwh": c["energy_kwh"] / b["energy_kwh"]},
        "saved_of_bound": saved,
        "seed": seed,
    }


def _table(arms: Mapping[str, Mapping[str, Any]], bound: float) -> Table:
    title = "The same jobs at the same moments on three clusters: sums over all jobs, in emulated hours"
    table = Table(title=title, title_justify="left")
    columns = ("arm", "waiting", "had to wait", "running", "energy of jobs", "with idle GPUs", "hit limit", "on a100")
    for column in columns:
        table.add_column(column, justify="left" if column == "arm" else "right")
    for arm in ARMS:
        f = arms[arm]
        table.add_row(
            TITLES[arm],
            f"{f['wait_s'] / 3600:.2f} h",
            f"{f['waiting_tasks']} of {f['jobs']}",
            f"{f['run_s'] / 3600:.2f} h",
            f"{f['energy_kwh']:.2f} kWh",
            f"{f['energy_with_idle_kwh']:.2f} kWh",
            str(f["timeouts"]),
            str(f["on_a100"]),
        )
    table.add_row("   every job on its better type", "", "", "", f"{bound:.2f} kWh", "", "", "", style="dim")
    return table


def main() -> None:
    folder, seed, spec, shape = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]), json.loads(sys.argv[4])
    print(json.dumps(report(folder, seed, spec, shape)))


if __name__ == "__main__":
    main()
