"""The remote encoder against llama.cpp's real server with SmolLM2's weights, offline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurmcast.config import RemoteConfig
from slurmcast.encoder.base import EncoderAway, EncoderError
from slurmcast.encoder.remote import Remote
from tests.unit.llama_server import KEY, llama

DIMENSIONS = 576
TRAINING = "#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py --model resnet50 --epochs 90 --batch-size 256\n"
LONGER = TRAINING.replace("90", "100")
POEM = "Over the hills and far away, the river sings of yesterday.\n"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with llama() as address:
        yield address


@pytest.fixture
def settings(url: str, tmp_path: Path) -> dict[str, Any]:
    key = tmp_path / "key"
    key.write_text(KEY)
    key.chmod(0o600)
    return {"url": url, "model": "smollm2", "key_file": key, "max_chars": 120, "overlap_chars": 20, "retries": 0}


def test_like_texts_have_like_vectors(settings: dict[str, Any]) -> None:
    remote = Remote(RemoteConfig(**settings, dimensions=DIMENSIONS, batch_size=2))
    vectors = remote.encode([TRAINING, POEM, LONGER, ""])
    assert vectors.shape == (4, DIMENSIONS) and vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    assert vectors[0] @ vectors[2] > 0.99
    assert vectors[0] @ vectors[1] < 0.9


def test_a_text_s_vector_does_not_depend_on_its_neighbours(settings: dict[str, Any]) -> None:
    remote = Remote(RemoteConfig(**settings))
    texts = [TRAINING, POEM]
    alone = np.concatenate([remote.encode([text]) for text in texts])
    np.testing.assert_allclose((remote.encode(texts) * alone).sum(axis=1), 1, atol=1e-5)


def test_a_text_beyond_the_server_s_context_is_read_in_windows(settings: dict[str, Any]) -> None:
    text = "x = 12345\n" * 28
    with pytest.raises(EncoderError, match=r"too large to process.*max_chars") as caught:
        Remote(RemoteConfig(**{**settings, "max_chars": 1000})).encode([text])
    assert not isinstance(caught.value, EncoderAway)
    remote = Remote(RemoteConfig(**settings))
    whole, changed_end = remote.encode([text, text[: -len(POEM)] + POEM])
    assert whole @ changed_end < 0.9999, "the end of the text must be read too"


def test_a_wrong_key_and_a_wrong_path(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(EncoderAway, match="404"):
        Remote(RemoteConfig(**{**settings, "url": settings["url"] + "/v1"})).encode([TRAINING])
    settings["key_file"].write_text("sk-wrong")
    with pytest.raises(EncoderAway, match=r"status 401 \(Invalid API Key\); it refuses the key in"):
        Remote(RemoteConfig(**settings)).encode([TRAINING])
    with pytest.raises(EncoderAway, match="set key_file"):
        Remote(RemoteConfig(**{**settings, "key_file": None})).encode([TRAINING])


def test_another_length_than_configured(settings: dict[str, Any]) -> None:
    with pytest.raises(EncoderAway, match=f"vectors of {DIMENSIONS} dimensions, not 768"):
        Remote(RemoteConfig(**settings, dimensions=768)).encode([TRAINING])
