"""The embedded encoder on one core: start-up, a script of 1,500 tokens, the same from the cache, and memory.

The last line is JSON: seconds (medians) and MB.
"""

from __future__ import annotations

import inspect
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slurmcast.config import EncoderConfig
from slurmcast.encoder import CachedEncoder, EncoderError, load
from slurmcast.encoder.minilm import MiniLM

TOKENS = 1500
REPEATS = 9


def seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Median time of ``work``."""
    taken = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def code_of(encoder: MiniLM, tokens: int) -> str:
    """Python code (of the standard library) that is ``tokens`` tokens long."""
    text = inspect.getsource(inspect)
    ends = encoder.tokenizer.encode(text, add_special_tokens=False).offsets
    return text[: ends[tokens - 1][1]]


def main() -> dict[str, Any]:
    """All figures."""
    try:
        begun = time.perf_counter()
        encoder = load(EncoderConfig(kind="minilm"))
        loading = time.perf_counter() - begun
    except EncoderError as error:
        return {"skipped": str(error)}
    assert isinstance(encoder, MiniLM)
    text = code_of(encoder, TOKENS)
    with tempfile.TemporaryDirectory() as folder:
        cached = CachedEncoder(encoder, Path(folder) / "embeddings.db")
        cached.encode([text])
        return {
            "encoder": encoder.name,
            "load_s": round(loading, 3),
            f"script_{TOKENS}_tokens_s": round(seconds(lambda: encoder.encode([text])), 4),
            "script_cached_s": round(seconds(lambda: cached.encode([text]), 99), 6),
            "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        }


if __name__ == "__main__":
    print(json.dumps(main()))
