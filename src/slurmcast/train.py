"""``slurmcast train``: from the store's finished jobs to a new model, which the daemon takes over by itself."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import Any, get_args, get_type_hints

from slurmcast.config import Config, ProbeConfig
from slurmcast.encoder.base import EncoderError, load
from slurmcast.encoder.cache import CachedEncoder
from slurmcast.probe.examples import Example, TrainingError
from slurmcast.probe.registry import Registry
from slurmcast.probe.train import train
from slurmcast.store.store import Label, Store, StoreError


class TrainError(Exception):
    """No model could be trained; the message says what to do."""


def train_from_store(config: Config, kind: str | None = None) -> dict[str, Any]:
    """Train on every completed job whose submission the store knows, promote the model, and return its figures."""
    allowed = get_args(get_type_hints(ProbeConfig)["kind"])
    if kind is not None and kind not in allowed:
        raise TrainError(f"--kind {kind}: must be one of {', '.join(allowed)}")
    probe = replace(config.probe, kind=kind) if kind is not None else config.probe  # type: ignore[arg-type]
    try:
        encoder = CachedEncoder(load(config.encoder), config.paths.state_dir / "embeddings.db")
        store = Store(config.paths.store, config.cluster)
        examples = _examples(store.labels(), encoder)
        types = {part.name: part.gpu_type for part in config.partition if part.gpu_type}
        result = train(examples, probe, encoder=encoder.name, partitions=types)
        registry = Registry(config.paths.models)
        version = registry.add(result.model)
        registry.promote(version)
    except (EncoderError, StoreError, TrainingError) as error:
        raise TrainError(str(error)) from None
    except sqlite3.Error as error:
        raise TrainError(f"{config.paths.state_dir}: {error}; run as the user of slurmcastd") from None
    except OSError as error:
        raise TrainError(f"{error.filename}: {error.strerror}; run as the user of slurmcastd") from None
    return {"model": version, "kind": probe.kind, "examples": len(examples), "figures": dict(result.figures)}


def _examples(labels: list[Label], encoder: CachedEncoder) -> list[Example]:
    """Labels with their vectors; one whose vector the cache doesn't have (another encoder's) is left out."""
    vectors = encoder.vectors({label.text_key for label in labels})
    return [
        Example(
            key=label.key,
            vector=vectors[label.text_key],
            numbers=label.reading.numbers,
            gpus=label.outcome.gpus,
            partition=label.outcome.partition,
            gpu_type=label.outcome.gpu_type,
            time_s=max(label.outcome.elapsed_s, 1.0),
            energy_kwh=label.outcome.energy_kwh,
        )
        for label in labels
        if label.text_key in vectors
    ]
