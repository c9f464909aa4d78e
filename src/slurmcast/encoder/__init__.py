"""Code to vectors: encoders and the cache of their vectors."""

from slurmcast.encoder.base import Encoder, EncoderError
from slurmcast.encoder.cache import CachedEncoder, VectorCache, text_key
from slurmcast.encoder.kinds import load

__all__ = ["CachedEncoder", "Encoder", "EncoderError", "VectorCache", "load", "text_key"]
