"""From a submission to estimates: read the script, turn it into a vector, ask the probe. The prior is there at once."""

from __future__ import annotations

import logging

from slurmcast.config import Config
from slurmcast.encoder.base import EncoderError, load
from slurmcast.encoder.cache import CachedEncoder
from slurmcast.model import Estimate, Reading, Submission
from slurmcast.probe.model import Model, ModelError
from slurmcast.probe.prior import prior
from slurmcast.probe.registry import Registry
from slurmcast.script.reader import read
from slurmcast.script.sources import OwnedFiles, no_sources

log = logging.getLogger("slurmcast.estimator")


class Estimator:
    """Encoder and probe. Without weights or without a trained model it still estimates, by the prior."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._registry = Registry(config.paths.models)
        self._model: Model | None = None
        self._tried = ""
        self.encoder: CachedEncoder | None = None
        try:
            self.encoder = CachedEncoder(load(config.encoder), config.paths.state_dir / "embeddings.db")
        except EncoderError as error:
            log.error("no encoder, estimates come from the prior: %s", error)

    @property
    def model_version(self) -> str:
        """Name of the model in use; empty where there is none."""
        return self._model.version if self._model is not None else ""

    def reload(self) -> bool:
        """Take over the current model where it has changed; whether it has."""
        current = self._registry.current() or ""
        if current == self._tried or self.encoder is None:
            return False
        self._tried = current
        try:
            self._model = self._registry.load(self.encoder.name, current) if current else None
            log.info("model %s", current or "none")
        except ModelError as error:
            self._model = None
            log.error("model %s can't be used, estimates come from the prior: %s", current, error)
        return True

    def read(self, submission: Submission) -> Reading:
        """What the script says; sources from disk only where the admin allows it. Blocks on files."""
        sources = OwnedFiles(submission.uid) if self._config.daemon.read_sources else no_sources
        return read(submission, sources)

    def text_key(self, text: str) -> str:
        """Key of the text's vector in the cache; empty without an encoder."""
        return self.encoder.key(text) if self.encoder is not None else ""

    def prior(self, reading: Reading) -> tuple[Estimate, ...]:
        """What can be said before any probe: from the time limit, and each partition's configured power."""
        power = {part.name: part.prior_power_w for part in self._config.partition}
        return prior(reading.time_limit_s, self._gpus(reading), power, shared=_shared(reading))

    def encode(self, text: str) -> None:
        """Put the text's vector into the cache. Slow: tens to hundreds of milliseconds."""
        if self.encoder is not None:
            self.encoder.encode([text])

    def predict(self, reading: Reading, text_key: str) -> tuple[Estimate, ...]:
        """The probe's estimates, or the prior where there is no model or no vector."""
        gpus = self._gpus(reading)
        vector = self.encoder.get(text_key) if self.encoder is not None else None
        if self._model is None or vector is None or not gpus:
            return self.prior(reading)
        return self._model.predict(vector, reading.numbers, gpus, shared=_shared(reading))

    def _gpus(self, reading: Reading) -> dict[str, int]:
        """a_ij of the job on each managed partition."""
        return {part.name: reading.gpus_total for part in self._config.partition} if reading.gpus_total else {}


def _shared(reading: Reading) -> bool:
    return reading.gpus is not None and reading.gpus.shared
