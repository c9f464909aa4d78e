"""The embedded encoder on its real weights."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from slurmcast.config import EncoderConfig
from slurmcast.encoder import EncoderError, load
from slurmcast.encoder.minilm import MiniLM
from slurmcast.probe.territory import SAME_SCRIPT

VISION = "import torchvision\nmodel = torchvision.models.resnet50()\nfor images, labels in loader:\n    train(images)\n"
LANGUAGE = "from transformers import BertModel\nmodel = BertModel.from_pretrained('bert-base-uncased')\n"


@pytest.fixture(scope="module")
def minilm() -> MiniLM:
    encoder = load(EncoderConfig(kind="minilm"))
    assert isinstance(encoder, MiniLM)
    return encoder


def test_vectors_have_the_promised_shape_and_length(minilm: MiniLM) -> None:
    vectors = minilm.encode([VISION, LANGUAGE, ""])
    assert vectors.shape == (3, minilm.dimensions)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 1], abs=1e-5)
    assert minilm.encode([]).shape == (0, minilm.dimensions)


def test_a_vector_does_not_depend_on_its_neighbours(minilm: MiniLM) -> None:
    alone = minilm.encode([VISION])[0]
    assert np.array_equal(alone, minilm.encode([LANGUAGE * 40, VISION, ""])[1])


def test_like_work_is_nearer_than_other_work(minilm: MiniLM) -> None:
    a, b, c = minilm.encode([VISION, VISION.replace("resnet50", "resnet18"), LANGUAGE])
    assert a @ b > 0.9
    assert a @ c < 0.6


def test_another_number_leaves_it_the_same_script(minilm: MiniLM) -> None:
    texts = [f"srun python train.py --epochs {number}\n{VISION * 5}{LANGUAGE * 5}" for number in (1, 10, 64, 200)]
    vectors = minilm.encode(texts)
    assert np.linalg.norm(vectors - vectors[0], axis=1).max() < SAME_SCRIPT


def test_the_end_of_a_long_text_is_read(minilm: MiniLM) -> None:
    filler = "x = 1\n" * 600
    a, b = minilm.encode([filler + VISION, filler + LANGUAGE])
    assert a @ b < 0.999


def test_what_is_left_out_of_a_very_long_text_is_said(
    minilm: MiniLM, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("slurmcast.encoder.minilm.MAX_CHUNKS", 4)
    filler = "alpha beta gamma delta\n"
    with caplog.at_level(logging.WARNING):
        short, long = minilm.encode([filler * 100, filler * 1000])
    assert short @ long > 0.99
    assert ["too long" in record.message for record in caplog.records] == [True]


def test_bytes_that_are_no_utf8_are_read(minilm: MiniLM) -> None:
    text = b"# Caf\xe9\nimport torch\n".decode("utf-8", "surrogateescape")
    assert np.isfinite(minilm.encode([text])).all()


def test_a_users_text_makes_no_special_tokens(minilm: MiniLM) -> None:
    ids = minilm.tokenizer.encode("[CLS] [SEP] [PAD]", add_special_tokens=False).ids
    assert not {minilm.tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]", "[PAD]")} & set(ids)


def test_other_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"other weights")
    with pytest.raises(EncoderError, match=r"model\.onnx: sha256 is .*, must be 8199be6f.*reinstall"):
        MiniLM(tmp_path / "model.onnx")
    with pytest.raises(EncoderError, match=r"none\.onnx: No such file"):
        MiniLM(tmp_path / "none.onnx")


def test_nothing_is_written_to_the_home_folder(tmp_path: Path) -> None:
    code = "from slurmcast.encoder.minilm import MiniLM; MiniLM().encode(['x = 1'])"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "HOME": str(tmp_path), "CI": ""})
    assert list(tmp_path.rglob("*")) == []
