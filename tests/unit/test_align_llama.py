"""The rewriter against llama.cpp's real server with SmolLM2-135M, offline: its requests are understood, its answers
judged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from slurmcast.align import Rewriter
from slurmcast.align.answer import Unusable, code, rewriting
from slurmcast.align.prompt import request
from slurmcast.config import AlignConfig
from slurmcast.encoder import CachedEncoder
from slurmcast.encoder.base import Vectors
from slurmcast.openai_client import OpenAIClient
from tests.unit.llama_server import KEY, llama

EXAMPLE = "#!/bin/sh\npython train.py --epochs 10"
SCRIPT = "#!/bin/sh\nE=37\npython3 fit.py -n $E"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with llama() as address:
        yield address


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(KEY)
    path.chmod(0o600)
    return path


class Lengths:
    """An encoder whose vectors can be read."""

    name, dimensions = "lengths", 1

    def encode(self, texts: list[str]) -> Vectors:
        return np.array([[len(text)] for text in texts], np.float32)

    def close(self) -> None:
        """Nothing to end."""


def test_the_answer_is_certain_and_judged(url: str, key_file: Path) -> None:
    client = OpenAIClient(url, key_file=key_file, timeout_s=60)
    body = request(EXAMPLE, SCRIPT, "smollm2", max_tokens=32)
    first, second = (client.post("/chat/completions", body) for _ in range(2))
    content = first["choices"][0]["message"]["content"]
    assert content and content == second["choices"][0]["message"]["content"], "temperature 0"
    assert first["choices"][0]["finish_reason"] in ("stop", "length")
    assert first["usage"]["completion_tokens"] <= 32
    try:
        text = rewriting(first, EXAMPLE, SCRIPT, 1000)
    except Unusable:
        return  # as a model of this size may deserve
    assert set(text.split("\n")) <= {line.rstrip() for line in code(content).split("\n")}


def test_an_answer_that_is_cut_short_is_of_no_use(url: str, key_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "exemplars"
    folder.mkdir()
    (folder / "train.sh").write_text(EXAMPLE)
    config = AlignConfig(url=url, model="smollm2", key_file=key_file, exemplars=folder, max_tokens=3, timeout_s=60)
    rewriter = Rewriter(config, CachedEncoder(Lengths(), tmp_path / "embeddings.db"))
    rewriter.load()
    assert rewriter.rewrite(SCRIPT, lambda _: True) is None
    assert rewriter.results == {"unusable": 1}


def test_a_wrong_key_is_a_failure_that_passes(
    url: str, key_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key_file.write_text("sk-wrong")
    (tmp_path / "train.sh").write_text(EXAMPLE)
    config = AlignConfig(url=url, model="smollm2", key_file=key_file, exemplars=tmp_path, timeout_s=60)
    rewriter = Rewriter(config, CachedEncoder(Lengths(), tmp_path / "embeddings.db"))
    rewriter.load()
    assert rewriter.rewrite(SCRIPT, lambda _: True) is None
    assert rewriter.results == {"failed": 1} and "refuses the key" in caplog.text and "sk-wrong" not in caplog.text
