"""Find data centres and write them where the package keeps them; an hour of one core. Each is checked on samples of its
own, and kept where all four figures come within TOLERANCE.

Usage: python -m benchmarks.calibrate [--sets 24] [--processes 2] [--out FILE]. The same sets for any number of
processes.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from benchmarks.calibrate.search import FIGURES, SIMPLE, figures, fitted, guess, rounded

from slurmcast.simulate import calibrations

SEED = 2024
COARSE, FINE = (40, 8), (200, 4)
"""Samples and rounds of the two steps of a fit."""
CHECK = 300
"""Samples of the check."""
TOLERANCE = 0.08


def candidate(k: int) -> dict[str, object] | None:
    """The k-th data centre, None where it can't be fitted or the check fails."""
    found = guess(np.random.default_rng((SEED, k)))
    for step, (samples, rounds) in enumerate((COARSE, FINE)):
        better = fitted(found, (SEED, k, step), samples, rounds)
        if better is None:
            return None
        found = better
    found = rounded(found)
    checked = figures(found, (SEED, k, 2), CHECK)
    if (np.abs(checked / SIMPLE - 1) > TOLERANCE).any():
        return None
    return {"parameters": asdict(found), "simple": dict(zip(FIGURES, checked.round(2).tolist(), strict=True))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=24)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=calibrations.FILE)
    options = parser.parse_args()
    sets: list[dict[str, object]] = []
    with Pool(options.processes) as pool:
        for k, found in enumerate(pool.imap(candidate, range(options.sets * 10))):
            print(f"{k}: {found['simple'] if found else 'not kept'}", flush=True)
            if found:
                sets.append({"name": f"c{len(sets) + 1:02d}", **found})
            if len(sets) == options.sets:
                break
        pool.terminate()
    about = {
        "about": "Data centres whose Simple rule does as in Table 2 of arXiv 2608.18503; see docs/simulation.md.",
        "found_by": f"python -m benchmarks.calibrate --sets {options.sets}",
        "simple": f"the Simple rule's figures, means of {CHECK} samples that no parameter was fitted to",
    }
    rows = ",\n".join(json.dumps(one) for one in sets)
    options.out.write_text(f'{json.dumps(about, indent=1)[:-2]},\n "sets": [\n{rows}\n]}}\n')


if __name__ == "__main__":
    main()
