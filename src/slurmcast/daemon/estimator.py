"""From a submission to estimates: read the script, turn it into a vector, ask history and probe. The prior is there at
once."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slurmcast.align import Rewriter
from slurmcast.config import Config
from slurmcast.encoder.base import EncoderError, Vectors
from slurmcast.encoder.cache import CachedEncoder
from slurmcast.encoder.kinds import load
from slurmcast.model import Estimate, Reading, Submission
from slurmcast.openai_client import OpenAIError
from slurmcast.probe.choice import choose, learned_until
from slurmcast.probe.history import Run, history, relevant
from slurmcast.probe.model import Model, ModelError
from slurmcast.probe.prior import Site, prior
from slurmcast.probe.registry import Registry
from slurmcast.script.reader import read
from slurmcast.script.sources import HandedOver, OwnedFiles, no_sources

log = logging.getLogger("slurmcast.estimator")


@dataclass(frozen=True, slots=True)
class Work:
    """A submission, read, as far as estimates need it."""

    reading: Reading
    """Its text may be empty where the vector is in the cache."""
    text_key: str
    encoded: bool = False
    """Whether the vector was in the cache when it was read, so that its best estimate is quickly made."""


class Estimator:
    """Encoder and probe, safe for several threads. Without weights or a trained model it estimates by the prior."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._site = Site(
            types={part.name: part.gpu_type or part.name for part in config.partition},
            power_w={part.name: part.prior_power_w for part in config.partition},
        )
        self._registry = Registry(config.paths.models)
        self._model: Model | None = None
        self._tried: str | None = None
        self.trouble = ""
        """Why there is no encoder, or why the last text that was new couldn't be encoded; empty where it could."""
        self.model_trouble = ""
        """Why the model in use can't be used; empty where it can."""
        self.encoder: CachedEncoder | None = None
        try:
            self.encoder = CachedEncoder(load(config.encoder), config.paths.state_dir / "embeddings.db")
        except (EncoderError, sqlite3.Error) as error:
            self.trouble = str(error)
            log.error("no encoder, estimates come from the prior: %s", error)

        self.rewriter = self._new_rewriter()

    def close(self) -> None:
        """End what the encoder and the rewriter are at."""
        if self.encoder is not None:
            self.encoder.close()
        if self.rewriter is not None:
            self.rewriter.close()

    def _new_rewriter(self) -> Rewriter | None:
        if self.encoder is None or not self._config.align.url:
            return None
        try:
            return Rewriter(self._config.align, self.encoder)
        except OpenAIError as error:
            log.error("no script is rewritten: align: %s", error)
            return None

    @property
    def model_version(self) -> str:
        """Name of the model in use; empty where there is none."""
        return self._model.version if self._model is not None else ""

    def reload(self) -> bool:
        """Take over the current model where it has changed; whether it has. Blocks on files."""
        current = self._registry.current() or ""
        if current == self._tried or self.encoder is None:
            return False
        self._tried = current
        try:
            self._model = self._registry.load(self.encoder.name, current) if current else None
            self.model_trouble = ""
        except ModelError as error:
            self.model_trouble = str(error)
            log.error("model %s can't be used, going on with %s: %s", current, self.model_version or "the prior", error)
            return False
        log.info("model %s", current or "none yet: estimates come from history and the prior")
        return True

    def read(
        self, submission: Submission, handed_over: Mapping[str, bytes] | None = None, *, from_disk: bool = True
    ) -> Work:
        """What the script says, and the sources that the submitter ``handed_over``; ``from_disk`` only where the admin
        allows it. Blocks on files."""
        may = from_disk and self._config.daemon.read_sources
        own = OwnedFiles(submission.uid) if may else no_sources
        reading = read(submission, HandedOver(handed_over or {}, own))
        if self.encoder is None:
            return Work(reading, "")
        key = self.encoder.key(reading.text)
        try:
            return Work(reading, key, self.encoder.get(key) is not None)
        except sqlite3.Error:
            return Work(reading, key)

    def prior(self, reading: Reading) -> tuple[Estimate, ...]:
        """What can be said before any run: from the time limit, each partition's GPU type and configured power."""
        gpus, shared = self._gpus(reading), _shared(reading)
        named = () if reading.opted_in else reading.partitions
        return prior(reading.time_limit_s, gpus, self._site, named=named, shared=shared)

    def encode(self, work: Work) -> None:
        """Have the text's vector in the cache, from where :meth:`estimate` takes it. Slow: a new text takes tenths of
        seconds. Raises :class:`EncoderError`, and sqlite3.Error where the vector can't be kept."""
        if self.encoder is None or not work.reading.text or self.encoder.get(work.text_key) is not None:
            return
        try:
            self.encoder.encode([work.reading.text])
        except EncoderError as error:
            if not self.trouble:
                log.error("scripts can't be encoded: %s", error)
            self.trouble = str(error)
            raise
        if self.trouble:
            log.info("scripts are encoded again")
        self.trouble = ""

    def estimate(self, work: Work, past: Sequence[Run] = ()) -> tuple[tuple[Estimate, ...], str]:
        """The best estimates and the name of the model in use, empty where there is none.

        ``past``: the submitter's finished runs that are related to the work. Without the text's vector the probe isn't
        asked. Raises sqlite3.Error where the cache of vectors can't be read.
        """
        model, reading = self._model, work.reading
        vector = self._vector(work.text_key, model)
        gpus, shared = self._gpus(reading), _shared(reading)
        told = history(reading.numbers, gpus, self._site.types, past, shared=shared)
        if model is None or vector is None or not gpus:
            version = model.version if model is not None else ""
            return choose(self.prior(reading), told, (), news=True), version
        guessed = model.predict(vector, reading.numbers, gpus, key=reading.key, shared=shared)
        if all(estimate.time_s is None for estimate in guessed):
            guessed = self._aligned(model, vector, work)
        rests_on = relevant(reading.numbers, set(gpus.values()), past)
        news = any(run.ended > learned_until(model) for run, _ in rests_on)
        return choose(self.prior(reading), told, guessed, news=news), model.version

    def _vector(self, text_key: str, model: Model | None) -> Vectors | None:
        """The vector of a text; None where there is none that ``model`` takes."""
        vector = self.encoder.get(text_key) if self.encoder is not None else None
        if model is None or vector is None or len(vector) == model.dimensions:
            return vector
        lengths = model.dimensions, len(vector)
        log.error("the model takes vectors of %d numbers, the encoder makes %d: run slurmcast train", *lengths)
        return None

    def _aligned(self, model: Model, vector: Vectors, work: Work) -> tuple[Estimate, ...]:
        """Estimates from the script's rewriting, none where it hasn't been rewritten."""
        rewritten = self.rewriter.known(work.text_key, model.knows) if self.rewriter is not None else None
        if rewritten is None:
            return ()
        reading = work.reading
        gpus, shared = self._gpus(reading), _shared(reading)
        return model.predict_rewritten(vector, rewritten, reading.numbers, gpus, shared=shared)

    def align(self, work: Work) -> bool:
        """Have a script rewritten that the probe doesn't know; whether another estimate can be made now.

        Not where its text isn't at hand any more, nor where the user has opted out. Blocks as long as the server takes.
        """
        model, rewriter, reading = self._model, self.rewriter, work.reading
        vector = self._vector(work.text_key, model)
        if model is None or rewriter is None or vector is None or not reading.text or reading.opted_out:
            return False
        if model.knows(vector) or not model.tested_far:
            return False
        rewritten = rewriter.rewrite(reading.text, model.knows)
        return rewritten is not None and model.knows(rewritten)

    def _gpus(self, reading: Reading) -> dict[str, int]:
        """a_ij of the job on each managed partition."""
        return {part.name: reading.gpus_total for part in self._config.partition} if reading.gpus_total else {}


def _shared(reading: Reading) -> bool:
    return reading.gpus is not None and reading.gpus.shared
