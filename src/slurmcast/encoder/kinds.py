"""Every encoder by its name in the configuration. Each is imported only where it is asked for: some take seconds."""

from __future__ import annotations

from slurmcast.config import EncoderConfig
from slurmcast.encoder.base import Encoder


def load(config: EncoderConfig) -> Encoder:
    """The encoder that the configuration names, ready to use. Raises :class:`EncoderError`."""
    match config.kind:
        case "minilm":
            from slurmcast.encoder.minilm import MiniLM

            return MiniLM()
        case "starcoder":
            from slurmcast.encoder.starcoder import StarCoder

            return StarCoder.from_folder(config.starcoder)
        case "remote":
            from slurmcast.encoder.remote import Remote

            return Remote(config.remote)


def name_of(config: EncoderConfig) -> str:
    """The name of the encoder that :func:`load` would make, without its memory where that is large.

    Raises :class:`EncoderError`.
    """
    if config.kind == "starcoder":
        from slurmcast.encoder import starcoder

        return starcoder.name_of(config.starcoder)
    return load(config).name
