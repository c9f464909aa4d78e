"""How long ``slurmcast tune`` takes on a month of a busy site, and what each kappa does to it."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace

from options import parser

from slurmcast.simulate.calibrations import DEFAULT, calibration
from slurmcast.simulate.noise import with_noise
from slurmcast.simulate.parallel import cores
from slurmcast.simulate.synthetic import DAY_S, draw
from slurmcast.simulate.tuning import Sample, Setup, blocks, report

DAYS, JOBS, NOISE = 31, 6000, 0.3
"""The days of one month; the jobs of two, as the generator counts; the error of predicted times."""
TIME_S, ENERGY_KWH = (4500.0, 6000.0), (1.5, 0.9)
"""Means on each type: a load of about 0.7."""
BURST_SHARE = 0.1
"""Of the jobs, that come in days of their own."""
WEIGHTS, PRESENT = (0.0, 1.0, 1.0), 1e-4
SHOWN = ("kappa", "wait_s", "wait_max_s", "run_s", "energy_kwh", "objective")


def month() -> Sample:
    """A month of made-up work."""
    means = {"time_s": TIME_S, "time_sd_s": TIME_S, "energy_kwh": ENERGY_KWH, "energy_sd_kwh": ENERGY_KWH}
    site = replace(calibration(DEFAULT), jobs=JOBS, burst_share=BURST_SHARE, **means)
    workload, cluster = draw(site, (0, 0, 0))
    workload = with_noise(workload.take(workload.submit_s < DAYS * DAY_S), NOISE, 0.0, 0)
    block, _ = blocks(workload.submit_s)
    return Sample(workload, cluster, block)


def main() -> None:
    parser(__doc__).parse_args()
    sample = month()
    found = {}
    for policy in ("value", "patient"):
        start = time.perf_counter()
        answer = report([sample], Setup(policy, WEIGHTS, PRESENT), "days")
        seconds = round(time.perf_counter() - start, 1)
        points = [{name: point[name] for name in SHOWN} for point in answer["points"]]
        outcome = {name: answer[name] for name in ("easy", "gain", "sure", "reason")}
        best = answer["recommended"]["kappa"]
        found[policy] = {"seconds": seconds, "recommended": best, **outcome, "points": points}
        print(f"{policy}: {seconds} s, kappa = {best:g}. {answer['reason']}", file=sys.stderr)
    gpus = dict(zip(sample.cluster.types, sample.cluster.gpus.tolist(), strict=True))
    print(json.dumps({"jobs": len(sample.workload), "days": DAYS, "gpus": gpus, "cores": cores(), "runs": found}))


if __name__ == "__main__":
    main()
