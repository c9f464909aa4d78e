"""``slurmcast train``: from the store's finished jobs to a new model, which the daemon takes over by itself."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from slurmcast.codec import to_json
from slurmcast.config import Config
from slurmcast.drift.changes import Changes, changes
from slurmcast.drift.figures import Alarm
from slurmcast.drift.trainings import Busy, Training, recorded
from slurmcast.drift.watch import Look, keep, last_look, look
from slurmcast.encoder.base import EncoderError
from slurmcast.encoder.cache import VectorCache
from slurmcast.encoder.kinds import name_of
from slurmcast.evaluation.cases import Case, TooFewJobs, cases, site
from slurmcast.evaluation.estimators import trained
from slurmcast.evaluation.promotion import Verdict, trial
from slurmcast.probe.examples import TrainingError
from slurmcast.probe.model import Model, ModelError
from slurmcast.probe.registry import Registry
from slurmcast.store.store import Store, StoreError

P = ParamSpec("P")
T = TypeVar("T")


class TrainError(Exception):
    """It can't be done; the message says what to do."""


def said(function: Callable[P, T]) -> Callable[P, T]:
    """Let every expected fault of ``function`` come as a :class:`TrainError` that says what to do."""

    @wraps(function)
    def inner(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except (EncoderError, StoreError, TrainingError, ModelError, Busy) as error:
            raise TrainError(str(error)) from None
        except sqlite3.Error as error:
            raise TrainError(f"store.db or embeddings.db: {error}; run as the user of slurmcastd") from None
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            remedy = "; run as the user of slurmcastd (slurmcast doctor, as root, tells whose files are in its way)"
            told = remedy if isinstance(error, PermissionError) else ""
            raise TrainError(f"{where}{error.strerror or error}{told}") from None

    return inner


@said
def train_from_store(config: Config, kind: str | None = None, force: bool = False) -> dict[str, Any]:
    """Test a model of ``kind`` (default: the configuration's) on the newest jobs; where it passes, or with ``force``,
    train it on all completed jobs whose submission the store knows and put it to use. What was done, for printing."""
    if kind is not None:
        config = replace(config, probe=replace(config.probe, kind=cast(Any, kind)))
    with opened(config) as store:
        return _recorded(config, store, "by hand", _watched(config, store), force)


@said
def train_when_due(config: Config) -> dict[str, Any]:
    """Look whether estimates hold what they promise, and train where it is time to; else say why not."""
    with opened(config) as store:
        seen = _watched(config, store)
        answer = {"due": seen.due.now, "because": seen.due.reason}
        return answer | _recorded(config, store, seen.due.reason, seen) if seen.due.now else answer


def _recorded(config: Config, store: Store, because: str, seen: Look, force: bool = False) -> dict[str, Any]:
    """Train, and write down what came of it. ``seen``: a look at the model in use."""
    registry = Registry(config.paths.models)
    training = Training(time.time(), because, store.label_count(), registry.current() or "")
    with recorded(registry.folder, training) as end:
        answer = _train(config, registry, store, seen.alarms, force)
        end(answer["promoted"], answer["reason"], answer.get("model", ""))
    _watched(config, store)
    return answer


def _watched(config: Config, store: Store) -> Look:
    """What is seen now, also left for the metrics."""
    seen = look(config, store, in_use(Registry(config.paths.models), name_of(config.encoder)))
    keep(config.paths.models, seen)
    return seen


def _train(config: Config, registry: Registry, store: Store, alarms: Sequence[Alarm], force: bool) -> dict[str, Any]:
    probe, encoder = config.probe, name_of(config.encoder)
    found = known_jobs(config, store)
    ordered = found.cases
    where, type_of = site(config, ordered)
    present = in_use(registry, encoder, ordered)
    new = changes(alarms, type_of)
    known = (dict(present.figures.get("changes", {})) if present is not None else {}) | new

    def train(cases: Sequence[Case], kind: str, heeded: Changes) -> Model:
        return trained(cases, replace(probe, kind=cast(Any, kind)), encoder, type_of, heeded)

    verdict: Verdict | None = None
    try:
        verdict = trial(ordered, probe.kind, train, present, where, type_of, known, min(new.values(), default=None))
        reason = verdict.reason
    except TooFewJobs as error:
        reason = str(error)
    except TrainingError as error:
        reason = f"no model could be trained on the older jobs: {error}"
    answer: dict[str, Any] = {
        "promoted": force or (verdict is not None and verdict.promote),
        "forced": force,
        "tested": verdict is not None,
        "former": present.version if present is not None else None,
        "reason": reason,
        "kind": probe.kind,
        "examples": len(ordered),
        "impossible": found.impossible,
    }
    if not answer["promoted"]:
        return answer
    heeded = dict(verdict.changes if verdict is not None else known)
    model = train(ordered, probe.kind, heeded)
    figures = {**model.figures, "learned_until": max(case.ended for case in ordered), "promoted_because": reason}
    figures["changes"] = heeded
    figures["tested"] = to_json(verdict.rows) if verdict is not None else []
    version = registry.add(replace(model, figures=figures))
    registry.promote(version, ("forced; " if force else "") + reason)
    return {**answer, "model": version, "figures": figures, "pruned": registry.prune(config.probe.keep)}


@said
def rollback(config: Config, version: str = "") -> dict[str, Any]:
    """Put ``version``, by default the one before the present one, to use again; not one that can't be used."""
    registry = Registry(config.paths.models)
    former, before = registry.current(), registry.before()
    if not version and not before:
        raise TrainError(f"{config.paths.models}: no version was in use before {former or 'now'}; see train --list")
    chosen = version or before[-1]
    if chosen in registry.versions():
        registry.load(name_of(config.encoder), chosen)
    registry.promote(chosen, f"rolled back from {former}")
    return {"model": chosen, "former": former}


@said
def versions(config: Config) -> dict[str, Any]:
    """All versions with their figures, the newest first, and what was seen of drift when somebody last looked. Of those
    that aren't in use only damage is told that shows before they are put to use (:func:`rollback` looks closer)."""
    registry = Registry(config.paths.models)
    current, before, seen = registry.current(), registry.before(), last_look(config.paths.models)
    found: list[dict[str, Any]] = []
    for version in reversed(registry.versions()):
        state = "in use" if version == current else "before" if version in before else ""
        try:
            model = registry.read(version, try_out=version == current)
        except ModelError as error:
            found.append({"version": version, "state": state, "error": str(error)})
            continue
        facts: dict[str, Any] = {"kind": model.kind, "encoder": model.encoder, "figures": dict(model.figures)}
        found.append({"version": version, "state": state, **facts})
    return {"versions": found, "watch": None if seen is None else to_json(seen)}


@dataclass(frozen=True, slots=True)
class KnownJobs:
    """The store's finished jobs, as far as they can be learned from."""

    cases: list[Case]
    """Those whose vector the cache has, in the order in which they ended."""
    impossible: int
    """How many others were left out because of times or energies that no run can have."""


def known_jobs(config: Config, store: Store) -> KnownJobs:
    """What there is to learn from. Raises :class:`TrainError` and what :func:`said` turns into it."""
    path = config.paths.state_dir / "embeddings.db"
    cache = VectorCache(path)
    stored = store.labels()
    labels = [label for label in stored if label.outcome.is_possible]
    vectors = cache.vectors({label.text_key for label in labels})
    if len(lengths := {len(vector) for vector in vectors.values()}) > 1:
        told = " and ".join(map(str, sorted(lengths)))
        raise TrainError(
            f"{path}: vectors of {told} numbers, of several models behind one name; correct [encoder], or "
            "delete the file: scripts are encoded anew as they come"
        )
    return KnownJobs(cases(labels, vectors), len(stored) - len(labels))


@contextmanager
def opened(config: Config) -> Iterator[Store]:
    """The store, which is there. Raises :class:`TrainError` where it isn't."""
    if not config.paths.store.exists():
        raise TrainError(f"{config.paths.store}: no such file; run this where slurmcastd runs, once jobs have finished")
    store = Store(config.paths.store, config.cluster)
    try:
        yield store
    finally:
        store.close()


def in_use(registry: Registry, encoder: str, of: Sequence[Case] = ()) -> Model | None:
    """The model in use, None where there is none that could be used, nor for the vectors ``of`` cases: a server may
    have got another model under the same name, whose vectors have another length."""
    try:
        model = registry.load(encoder)
    except ModelError:
        return None
    return model if all(len(case.vector) == model.dimensions for case in of) else None
