"""A trained probe with its intervals: what the daemon asks, and how it lies on disk (safetensors and JSON)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from slurmcast.model import J_PER_KWH, Estimate, Interval, Source
from slurmcast.probe import per_type, size_ratio
from slurmcast.probe.estimator import Estimator, Query
from slurmcast.probe.intervals import Ends, Guess, Predictions, Tails, ends_for
from slurmcast.probe.territory import Territory
from slurmcast.probe.threads import one_thread

FORMAT = 9
SETTINGS_FILE, TENSORS_FILE = "model.json", "model.safetensors"
POWER_MARGIN = 0.1
"""How far a power may lie beyond those measured on its GPU type, in logarithms: a chip has its limits, whatever numbers
a script names."""
FARTHEST = 30.0
"""Bound on predicted logarithms, so that nothing overflows."""

Calibration = Mapping[str, Ends]
"""By class and target, "near/time" for example, then by GPU type. A class or target that isn't there is unknown."""


def key_mark(key: str) -> str:
    """The beginning of a job's key: enough to know it again."""
    return key[:16]


class ModelError(Exception):
    """The model can't be used; the message says which file and what to do."""


@dataclass(frozen=True)
class Model:
    """A trained probe. Times in s, energies in kWh of all the job's GPUs."""

    kind: str
    encoder: str
    """Name of the encoder whose vectors it takes."""
    dimensions: int
    partitions: Mapping[str, str]
    """GPU type of each partition that it speaks of."""
    estimator: Estimator
    territory: Territory
    calibration: Calibration
    scatter: Mapping[str, Mapping[int, float]]
    """By class and target what spreads of each known program are multiplied by; 1 where it isn't there."""
    powers: Mapping[str, tuple[float, float]]
    """By GPU type the least and the largest mean power of one GPU that was measured, in W."""
    keys: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """GPU types on which each job ran that it has learned from, by the job's :func:`key_mark`."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """What training measured: see :mod:`slurmcast.probe.figures`."""
    version: str = ""
    """The folder's name in the registry, empty before it is there."""

    def predict(
        self,
        vector: NDArray[np.floating],
        numbers: Mapping[str, float],
        gpus_by_partition: Mapping[str, int],
        *,
        key: str = "",
        shared: bool = False,
    ) -> tuple[Estimate, ...]:
        """One estimate per partition, in the order of ``gpus_by_partition`` (a_ij).

        ``vector`` (dimensions,) of the encoder, ``numbers`` and ``key`` as the script reader gave them; ``shared``: the
        job asks for parts of GPUs, whose energy and memory aren't its own. Unknown where the partition's GPU type was
        never seen, or the script is farther from those seen than any interval was tested. Raises ValueError for another
        encoder's vector.
        """
        found: dict[str, Estimate] = {}
        distance, program = self._nearest(vector)
        if distance <= self.territory.limit and (asked := self._queries(vector, numbers, gpus_by_partition)):
            regions = {name: self._region(distance, key, query.type) for name, query in asked.items()}
            found = self._estimates(asked, self._predictions(asked), regions, Source.PROBE, shared, program)
        return _for_all(gpus_by_partition, found)

    def predict_rewritten(
        self,
        vector: NDArray[np.floating],
        rewritten: NDArray[np.floating],
        numbers: Mapping[str, float],
        gpus_by_partition: Mapping[str, int],
        *,
        shared: bool = False,
    ) -> tuple[Estimate, ...]:
        """Like :meth:`predict`, for a script that it doesn't know, by its rewriting in a style that it does.

        A rewriting says where to look; it makes the script no better known. So the middle is what the vector
        ``rewritten`` gives, the spread the larger of what the two vectors give and as much more as their middles lie
        apart, and the ends are those of the class *far*. Unknown where no such ends were found, or the rewriting isn't
        known either.
        """
        found: dict[str, Estimate] = {}
        if self.knows(rewritten) and (asked := self._queries(rewritten, numbers, gpus_by_partition)):
            p, own = self._predictions(asked), self._predictions(self._queries(vector, numbers, gpus_by_partition))
            wide = {name: _wide(guess, own[name]) for name, guess in p.items()}
            found = self._estimates(asked, wide, dict.fromkeys(asked, "far"), Source.ALIGN, shared)
        return _for_all(gpus_by_partition, found)

    def knows(self, vector: NDArray[np.floating]) -> bool:
        """Whether a script's ``vector`` is near enough to known ones for anything to be said."""
        return self._nearest(vector)[0] <= self.territory.limit

    def _nearest(self, vector: NDArray[np.floating]) -> tuple[float, int]:
        if vector.shape != (self.dimensions,):
            raise ValueError(f"the vector has shape {vector.shape}, the model takes ({self.dimensions},)")
        return self.territory.nearest(vector)

    @property
    def tested_far(self) -> bool:
        """Whether intervals for scripts unlike the known ones were tested."""
        return "far/time" in self.calibration

    def _region(self, distance: float, key: str, gpu_type: str) -> str:
        """The class whose intervals hold for a job on a type: see :mod:`slurmcast.probe.intervals`."""
        ran_on = self.keys.get(key_mark(key), frozenset())
        if ran_on and "seen/time" in self.calibration:
            return "seen"
        if gpu_type in ran_on:
            return "once"
        return "near" if distance <= self.territory.near else "far"

    def _queries(
        self, vector: NDArray[np.floating], numbers: Mapping[str, float], gpus_by_partition: Mapping[str, int]
    ) -> dict[str, Query]:
        """What to ask the estimator, by partition; without those whose GPU type it doesn't know."""
        return {
            name: Query(vector.astype(np.float32), numbers, gpus, self.partitions[name])
            for name, gpus in gpus_by_partition.items()
            if gpus >= 1 and self.partitions.get(name) in self.estimator.types
        }

    def _predictions(self, asked: Mapping[str, Query]) -> Predictions:
        with one_thread():
            return self.estimator.predict(list(asked.values()))

    def _estimates(
        self,
        asked: Mapping[str, Query],
        p: Predictions,
        regions: Mapping[str, str],
        source: Source,
        shared: bool,
        program: int | None = None,
    ) -> dict[str, Estimate]:
        """Estimates by partition, of the classes ``regions``; one isn't there where nothing can be said."""
        found: dict[str, Estimate] = {}
        for i, (name, query) in enumerate(asked.items()):
            of = {}
            for target, guess in p.items():
                kind = f"{regions[name]}/{target}"
                factor = 1.0 if program is None else self.scatter.get(kind, {}).get(program, 1.0)
                ends = ends_for(self.calibration.get(kind), query.type)
                of[target] = _interval(guess.middle[i], factor * guess.spread[i], ends)
            time, energy, memory = (of.get(target) for target in ("time", "energy", "memory"))
            if time is not None:
                energy = energy and _possible(energy, time, self._powers(query.type), query.gpus)
                energy, memory = (None, None) if shared else (energy, memory)
                found[name] = Estimate(name, query.gpus, time, energy, source, memory)
        return found

    def _powers(self, gpu_type: str) -> tuple[float, float]:
        """The least and the largest power of one GPU that was measured, in W: of the type, else of all."""
        of_all = self.powers.values()
        return self.powers.get(gpu_type, (min(low for low, _ in of_all), max(high for _, high in of_all)))

    def write(self, folder: Path) -> None:
        """Write ``model.safetensors`` and ``model.json`` into ``folder``, which exists."""
        tensors, settings = self.estimator.parts()
        data = save(
            {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
            | {"territory": np.ascontiguousarray(self.territory.vectors), "programs": self.territory.programs}
        )
        (folder / TENSORS_FILE).write_bytes(data)
        table = {
            "format": FORMAT,
            "kind": self.kind,
            "encoder": self.encoder,
            "dimensions": self.dimensions,
            "partitions": dict(self.partitions),
            "estimator": settings,
            "territory": {"near": self.territory.near, "limit": self.territory.limit},
            "calibration": {
                name: {gpu_type: [ends.low, ends.high] for gpu_type, ends in by_type.items()}
                for name, by_type in self.calibration.items()
            },
            "powers": {gpu_type: list(powers) for gpu_type, powers in self.powers.items()},
            "scatter": {
                name: {str(program): factor for program, factor in by_program.items()}
                for name, by_program in self.scatter.items()
            },
            "keys": {mark: sorted(types) for mark, types in sorted(self.keys.items())},
            "figures": self.figures,
            "tensors_sha256": hashlib.sha256(data).hexdigest(),
        }
        (folder / SETTINGS_FILE).write_text(json.dumps(table, indent=1, allow_nan=False) + "\n")


def read(folder: Path, try_out: bool = True) -> Model:
    """The model that :meth:`Model.write` left in ``folder``. ``try_out``: let it predict something, by which parts are
    found that don't fit one another (0.3 s with 1,000 samples). Raises :class:`ModelError`."""
    path = folder / SETTINGS_FILE
    remedy = "train again (slurmcast train) or go back to an older version"
    try:
        table = json.loads(path.read_text(), parse_constant=_no_number)
        data = (folder / TENSORS_FILE).read_bytes()
    except OSError as error:
        raise ModelError(f"{error.filename}: {error.strerror}: {remedy}") from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: {error}: {remedy}") from None
    if not isinstance(table, dict):
        raise ModelError(f"{path}: holds no object: {remedy}")
    if table.get("format") != FORMAT:
        raise ModelError(f"{path}: format is {table.get('format')!r}, this version reads {FORMAT}: {remedy}")
    found = hashlib.sha256(data).hexdigest()
    if found != table.get("tensors_sha256"):
        raise ModelError(f"{folder / TENSORS_FILE}: sha256 is {found}, {SETTINGS_FILE} says otherwise: {remedy}")
    try:
        model = _model(table, load(data), folder.name)
        if try_out:
            model.predict(model.territory.vectors[0], {}, dict.fromkeys(model.partitions, 1))
    except (AttributeError, LookupError, TypeError, ArithmeticError, ValueError, SafetensorError) as error:
        raise ModelError(f"{path}: {type(error).__name__}: {error}: {remedy}") from None
    return model


def _model(table: Mapping[str, Any], tensors: dict[str, NDArray[Any]], version: str) -> Model:
    restore = size_ratio.restore if table["kind"] == "size+ratio" else per_type.restore
    return Model(
        kind=table["kind"],
        encoder=table["encoder"],
        dimensions=table["dimensions"],
        partitions=dict(table["partitions"].items()),
        estimator=restore(tensors, table["estimator"]),
        territory=Territory(
            tensors["territory"], tensors["programs"], table["territory"]["near"], table["territory"]["limit"]
        ),
        scatter={
            name: {int(program): _positive(factor) for program, factor in by_program.items()}
            for name, by_program in table["scatter"].items()
        },
        calibration={
            name: {gpu_type: Tails(low, high) for gpu_type, (low, high) in by_type.items()}
            for name, by_type in table["calibration"].items()
        },
        powers={gpu_type: _range(low, high) for gpu_type, (low, high) in table["powers"].items()},
        keys={mark: frozenset(types) for mark, types in table["keys"].items()},
        figures=dict(table["figures"].items()),
        version=version,
    )


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _positive(factor: float) -> float:
    if not factor > 0:
        raise ValueError(f"no spread is multiplied by {factor}")
    return float(factor)


def _range(low: float, high: float) -> tuple[float, float]:
    """Powers, as they were read. Raises ValueError where none can be."""
    if not 0 < low <= high:
        raise ValueError(f"no power of a GPU lies between {low} and {high} W")
    return float(low), float(high)


def _for_all(gpus_by_partition: Mapping[str, int], found: Mapping[str, Estimate]) -> tuple[Estimate, ...]:
    """An estimate for each partition, unknown where none was ``found``."""
    return tuple(
        found.get(name, Estimate(name, gpus, None, None, Source.UNKNOWN)) for name, gpus in gpus_by_partition.items()
    )


def _wide(aligned: Guess, own: Guess) -> Guess:
    """What is told of a rewriting, no surer than what is told of the script itself, and as far as that lies away."""
    return Guess(aligned.middle, np.hypot(np.fmax(aligned.spread, own.spread), aligned.middle - own.middle))


def _possible(energy: Interval, time: Interval, powers: tuple[float, float], gpus: int) -> Interval:
    """``energy`` in kWh, each of its quantiles as much as GPUs of such ``powers`` (W) can take in that one of ``time``,
    :data:`POWER_MARGIN` more or less. An interval that holds still does, as far as that of time does."""
    low, high = powers[0] * math.exp(-POWER_MARGIN), powers[1] * math.exp(POWER_MARGIN)

    def between(kwh: float, seconds: float) -> float:
        gpu_kwh = seconds * gpus / J_PER_KWH
        return min(max(kwh, gpu_kwh * low), gpu_kwh * high)

    return Interval(between(energy.p10, time.p10), between(energy.p50, time.p50), between(energy.p90, time.p90))


def _interval(middle: float, spread: float, ends: Tails | None) -> Interval | None:
    if ends is None or not math.isfinite(middle):
        return None
    low, mid, high = (
        math.exp(min(max(middle + at * spread, -FARTHEST), FARTHEST)) for at in (ends.low, 0.0, ends.high)
    )
    return Interval(low, mid, high)
