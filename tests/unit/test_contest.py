"""The encoders' contest: what its own contestants read, and that foreign weights are the pinned ones."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from contest import versions, wheels, words
from corpus import table

VISION = "model = resnet50(num_classes=1000)\nfor images, labels in loader:\n    train_step(model, images)\n"
LANGUAGE = "bert = AutoModel.from_pretrained('bert-base-uncased')\ntokens = tokenizer(tweets, max_length=128)\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nn.CrossEntropyLoss()", ["nn", "cross", "entropy", "loss"]),
        ("train_step2 = HTTPServer", ["train", "step", "0", "http", "server"]),
        ("--batch-size 1024 1e-3", ["batch", "size", "0", "0", "e", "0"]),
        ("  \n", []),
    ],
)
def test_pieces(text: str, expected: list[str]) -> None:
    assert words.pieces(text) == expected


def test_ngrams_see_words_not_numbers() -> None:
    a, b, c, empty = words.ngrams(256)([VISION, VISION.replace("1000", "7"), LANGUAGE, ""])
    assert np.array_equal(a, b)
    assert a @ c < 0.5
    assert not empty.any()
    assert np.linalg.norm(a) == pytest.approx(1, abs=1e-6)


def test_factors_tell_the_texts_apart_that_they_were_fitted_on() -> None:
    texts = [VISION, VISION.replace("images", "pictures"), LANGUAGE, LANGUAGE + VISION]
    vectors = words.factors(64, texts)(texts)
    assert vectors.shape == (4, 3)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]


@pytest.mark.parametrize("edit", versions.EDITS.values(), ids=versions.EDITS.keys())
def test_every_edit_changes_every_program(edit: versions.Edit) -> None:
    texts = [versions.text_of(program) for program in table.programs()]
    assert all(len(text) > 500 for text in texts)
    assert sum(edit(text) != text for text in texts) > 0.9 * len(texts)


def test_other_bytes_than_the_pinned_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "FOLDER", tmp_path)
    (tmp_path / "wordllama-0.4.0.post1-cp311-cp311-linux_x86_64.whl").write_bytes(b"something else")
    with pytest.raises(wheels.WheelMissing, match=r"wordllama.*sha256 is not 42c2c889.*delete it"):
        wheels.member("wordllama", "weights")
