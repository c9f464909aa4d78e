"""What a contestant costs on one core, in a process of its own: ``python -m contest.cost NAME`` prints JSON.

Times are the process's CPU time (ms), since the machine has other things to do; ``wall_ms`` stands beside them.
"""

from __future__ import annotations

import argparse
import ast
import calendar
import inspect
import json
import os
import pdb
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from corpus.table import programs

from contest.contestants import CONTESTANTS
from contest.versions import text_of
from slurmcast.encoder import CachedEncoder
from slurmcast.encoder.minilm import _tokenizer

TOKENS = 1500
MODULES = (argparse, ast, calendar, inspect, pdb, tarfile)
REPEATS = 4


class _Named:
    """A contestant as the cache wants it."""

    name = "contestant"

    def __init__(self, encode: Callable[..., Any], dimensions: int) -> None:
        self.encode, self.dimensions = encode, dimensions


def texts() -> list[str]:
    """Python code (of the standard library), each text :data:`TOKENS` of BERT's tokens long."""
    tokenizer = _tokenizer()
    sources = [inspect.getsource(module) for module in MODULES]
    ends = [tokenizer.encode(source, add_special_tokens=False).offsets[TOKENS - 1][1] for source in sources]
    return [source[:end] for source, end in zip(sources, ends, strict=True)]


def main(name: str) -> dict[str, Any]:
    """All figures of one contestant."""
    asked = texts()
    begun = time.perf_counter()
    contestant = CONTESTANTS[name]
    encode = contestant.make([text_of(program) for program in programs()] if contestant.fitted else [])
    loading = time.perf_counter() - begun
    dimensions = encode(asked[:1]).shape[1]
    cpu, wall = [], []
    for text in asked * REPEATS:
        before = time.perf_counter(), time.process_time()
        encode([text])
        wall.append(1e3 * (time.perf_counter() - before[0]))
        cpu.append(1e3 * (time.process_time() - before[1]))
    with tempfile.TemporaryDirectory() as folder:
        cached = CachedEncoder(_Named(encode, dimensions), Path(folder) / "embeddings.db")
        cached.encode(asked)
        again = []
        for text in asked * 20:
            before_again = time.process_time()
            cached.encode([text])
            again.append(1e3 * (time.process_time() - before_again))
    return {
        "dimensions": dimensions,
        "load_s": loading,
        "cpu_ms": cpu,
        "wall_ms": wall,
        "cached_ms": float(np.median(again)),
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measure(names: Sequence[str], rounds: int) -> dict[str, dict[str, Any]]:
    """Figures by name, medians over ``rounds`` processes each, run in turns; ``error`` where a contestant can't run."""
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    errors = {}
    for _ in range(rounds):
        for name in names:
            command = [sys.executable, "-m", "contest.cost", name]
            one_core = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            folder = Path(__file__).parents[1]
            done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, env=one_core)
            if done.returncode:
                errors[name] = {"error": done.stderr.strip().splitlines()[-1]}
            else:
                runs[name].append(json.loads(done.stdout.splitlines()[-1]))
    return {name: _summary(found) if found else errors[name] for name, found in runs.items()}


def _summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    cpu, wall = (np.concatenate([run[key] for run in runs]) for key in ("cpu_ms", "wall_ms"))
    return {
        "dimensions": runs[0]["dimensions"],
        f"cpu_ms_{TOKENS}_tokens": {
            "p50": round(float(np.median(cpu)), 1),
            "p90": round(float(np.quantile(cpu, 0.9)), 1),
        },
        "wall_ms": round(float(np.median(wall)), 1),
        "cached_ms": round(float(np.median([run["cached_ms"] for run in runs])), 3),
        "load_s": round(float(np.median([run["load_s"] for run in runs])), 2),
        "memory_mb": round(max(run["memory_mb"] for run in runs)),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
