"""Measure the corpus: how long each program takes with each setting on each partition, alone on the machine.

``python -m benchmarks.corpus.measure`` goes on where it was stopped: programs that haven't changed and are in
``measured.csv`` with all their settings, calmly measured, aren't measured again. A run in which others used the CPUs is
thrown away and repeated, so that a machine's quiet moments can be used; where ``CORPUS_LOCK`` names a file, each run
holds an exclusive lock on it. The last line is JSON.

A virtual machine's speed changes by the minute with what its neighbours do (by a factor of 1.9 in an hour, where this
was looked at), and what can be seen from inside tells only part of it. So a program is measured in one sitting: a
setting on its partitions one right after the other, all settings in random order, then all in the reverse order, so
that the mean of a work's two runs has the same share of a steady drift as every other's. Where the first two runs still
lie far apart, the speed jumped within the sitting: the program is measured anew the next time.

Programs may be named, then only these are measured. ``--check`` runs their smallest and largest setting once, on one
CPU, and records nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import importlib.metadata
import json
import os
import platform
import random
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .run import Failed, Reading, exclusive, run_once
from .table import (
    HERE,
    MEASURED,
    PARTITIONS,
    Program,
    Run,
    Work,
    accepted,
    closest,
    difference,
    programs,
    read_runs,
    times_of,
    works,
)

MIN_RUNS, MAX_RUNS = 2, 5
MAX_FOREIGN = 0.06
"""Share of one CPU that others may use during a run."""
TRIES = 20
"""How often a disturbed run is tried again before its work is left for the next time."""
PAUSE_S = 1.0
RESTLESS = 0.06
"""A program whose works' first two runs differ by more than this, as a median, is measured anew the next time."""
COLUMNS = ("program", "setting", "partition", "run", "time_s", "cpu_s", "foreign_share", "accepted", "at", "digest")
PACKAGES = ("torch", "numpy", "scikit-learn")


def in_turn(program: Program, seed: int) -> list[Work]:
    """The works of a program in the order of their first runs: a setting's beside one another, settings in random
    order."""
    settings = list(program.settings)
    random.Random(seed).shuffle(settings)
    order = {setting: place for place, setting in enumerate(settings)}
    return sorted(works([program]), key=lambda work: order[work.setting])


def finished(times: Sequence[float]) -> bool:
    """Whether a work needs no further run: two agree, or it had as many as it may."""
    return len(times) >= MAX_RUNS or (len(times) >= MIN_RUNS and accepted(times))


def restless(program: Program, times: Mapping[Work, Sequence[float]]) -> bool:
    """Whether the machine's speed changed too much while the program was measured: by the repeats alone, so that what
    anyone predicts has no say in it."""
    found = [times[work] for work in works([program]) if len(times.get(work, ())) >= MIN_RUNS]
    return bool(found) and statistics.median(difference(*pair[:2]) for pair in found) > RESTLESS


def summary(runs: Iterable[Run]) -> dict[str, Any]:
    """What the file holds: works, the share accepted, and the noise between runs of the same work."""
    runs = list(runs)
    times = {work: found for work, found in times_of(runs).items() if len(found) >= MIN_RUNS}
    if not times:
        return {"works": 0}
    first_two = [difference(found[0], found[1]) for found in times.values()]
    agreed = [statistics.mean(closest(found)) for found in times.values() if accepted(found)]
    return {
        "programs": len({work.program for work in times}),
        "works": len(times),
        "runs": len(runs),
        "accepted": round(len(agreed) / len(times), 4),
        "noise_median": round(statistics.median(first_two), 4),
        "noise_p90": round(statistics.quantiles(first_two, n=10)[-1], 4) if len(first_two) > 1 else None,
        "foreign_share_median": round(statistics.median(run.foreign_share for run in runs), 4),
        "time_s": [round(f(agreed), 2) for f in (min, statistics.median, max)] if agreed else None,
    }


def undisturbed(work: Work, corpus: Path, lock: str | None) -> Reading | None:
    """A run of the work with nobody else on the machine; None where that couldn't be had in TRIES attempts."""
    folder = corpus / "programs" / work.program
    for _ in range(TRIES):
        with exclusive(lock) as held:
            reading = run_once(folder, work.setting, PARTITIONS[work.partition]) if held else None
        if reading and reading.foreign_share <= MAX_FOREIGN:
            return reading
        time.sleep(PAUSE_S)
    return None


def machine() -> dict[str, Any]:
    """What the times depend on beside the programs."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in info if line.startswith("model name")), platform.machine())
    return {
        "cpu": model,
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "python": platform.python_version(),
        **{package: importlib.metadata.version(package) for package in PACKAGES},
    }


def measure(corpus: Path, names: Sequence[str], seed: int, lock: str | None) -> dict[str, Any]:
    """Measure those of the programs of those names, by default all, of which something is missing, each as a whole; a
    line for each run on standard output. A work that fails, or is never undisturbed, is passed over: ``missing`` counts
    what is still to be measured. Raises SystemExit."""
    facts = machine()
    if facts["cpus"] < max(PARTITIONS.values()):
        raise SystemExit(f"the corpus needs {max(PARTITIONS.values())} CPUs, this process may use {facts['cpus']}")
    known = corpus / "machine.json"
    try:
        measured_on = json.loads(known.read_text()) if known.exists() else facts
    except (ValueError, RecursionError) as error:
        raise SystemExit(f"{known}: {error}; restore it (git checkout), or remove it with {MEASURED} first") from None
    if measured_on != facts:
        raise SystemExit(f"{MEASURED} is from another machine or other packages (see {known.name}); remove both first")
    known.write_text(json.dumps(facts, indent=2) + "\n")
    found = programs(corpus)
    _keep(corpus, set(works(found)))
    chosen = [program for program in found if not names or program.name in names]
    times = times_of(read_runs(corpus))
    pending = [program for program in chosen if _missing([program], times) or restless(program, times)]
    print(f"{len(chosen)} programs, {len(pending)} to be measured", flush=True)
    if pending:
        with contextlib.suppress(Failed):  # this run only brings the libraries into the page cache
            run_once(pending[0].folder, pending[0].settings[0], 1)
    for done, program in enumerate(pending, 1):
        before = None if _missing([program], times) else (corpus / MEASURED).read_bytes()
        _keep(corpus, set(works(found)) - set(works([program])))
        _sitting(program, corpus, seed, lock)
        if before is not None and _missing([program], times_of(read_runs(corpus))):
            (corpus / MEASURED).write_bytes(before)  # restless runs are better than none
        print(f"{done}/{len(pending)} programs", flush=True)
    runs = read_runs(corpus)
    times = times_of(runs)
    again = [program.name for program in chosen if restless(program, times)]
    return summary(runs) | {"missing": _missing(chosen, times), "restless": again}


def _missing(of: Iterable[Program], times: Mapping[Work, Sequence[float]]) -> int:
    """How many works of the programs are still to be measured, beside the ``times`` that there are."""
    return sum(not finished(times.get(work, [])) for work in works(of))


def _sitting(program: Program, corpus: Path, seed: int, lock: str | None) -> None:
    """Measure all works of a program, to and fro until none needs a further run."""
    times: dict[Work, list[float]] = {}
    turn = in_turn(program, seed)
    while turn := [work for work in turn if not finished(times.get(work, []))]:
        turn = [work for work in turn if _measure_one(work, corpus, times, lock)][::-1]


def _measure_one(work: Work, corpus: Path, times: dict[Work, list[float]], lock: str | None) -> bool:
    """Make and record one run; False where it failed or the machine was never quiet."""
    try:
        reading = undisturbed(work, corpus, lock)
    except Failed as error:
        print(f"left out: {error}", flush=True)
        return False
    if reading is None:
        print(f"{work.program} {work.setting} [{work.partition}]: never undisturbed, left out", flush=True)
        return False
    found = times.setdefault(work, [])
    time_s = round(reading.time_s, 4)  # as it is written, so that what is read back agrees as well
    found.append(time_s)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    run = Run(work, time_s, reading.cpu_s, reading.foreign_share, at)
    _append(corpus / MEASURED, _line(run, len(found), accepted(found)))
    print(f"{work.program} {work.setting} [{work.partition}] {reading.time_s:.2f} s, run {len(found)}", flush=True)
    return True


def _line(run: Run, number: int, agreed: bool) -> dict[str, Any]:
    """The run as a line of the file. ``agreed``: whether the work is accepted with this run."""
    work = run.work
    return {
        "program": work.program,
        "setting": work.setting,
        "partition": work.partition,
        "run": number,
        "time_s": f"{run.time_s:.4f}",
        "cpu_s": f"{run.cpu_s:.3f}",
        "foreign_share": f"{run.foreign_share:.4f}",
        "accepted": int(agreed),
        "at": run.at,
        "digest": work.digest,
    }


def _append(file: Path, line: dict[str, Any]) -> None:
    fresh = not file.exists()
    with file.open("a", newline="") as out:
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        if fresh:
            writer.writeheader()
        writer.writerow(line)


def _keep(corpus: Path, wanted: set[Work]) -> None:
    """Take out of the file what was measured of programs and settings that have changed or gone."""
    file = corpus / MEASURED
    if not file.exists():
        return
    with file.open(newline="") as lines:
        kept = [line for line, run in zip(csv.DictReader(lines), read_runs(corpus), strict=True) if run.work in wanted]
    temporary = file.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    for line in kept:
        _append(temporary, line)
    if kept:
        temporary.replace(file)
    else:
        file.unlink()


def check(names: Sequence[str]) -> bool:
    """Print what the smallest and the largest setting of each program take on one CPU; whether all ended well."""
    well = True
    for program in programs():
        if names and program.name not in names:
            continue
        try:
            small, large = (run_once(program.folder, program.settings[place], 1) for place in (0, -1))
        except Failed as error:
            print(error, flush=True)
            well = False
            continue
        both = "  ".join(f"{end.time_s:6.2f} s (CPU {end.cpu_s:5.2f} s)" for end in (small, large))
        print(f"{program.name:24} {both}  x {large.cpu_s / small.cpu_s:.1f}", flush=True)
    return well


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Measure the corpus of training programs.")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="default: all")
    parser.add_argument("--check", action="store_true", help="run smallest and largest setting, record nothing")
    parser.add_argument("--seed", type=int, default=1, help="of the order in which settings are measured")
    options = parser.parse_args()
    if unknown := set(options.programs) - {program.name for program in programs()}:
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    if options.check:
        raise SystemExit(not check(options.programs))
    try:
        result = measure(HERE, options.programs, options.seed, os.environ.get("CORPUS_LOCK"))
    except KeyboardInterrupt:
        print(json.dumps(summary(read_runs())))
        raise SystemExit(130) from None
    print(json.dumps(result))
    raise SystemExit(result["missing"] > 0)


if __name__ == "__main__":
    main()
