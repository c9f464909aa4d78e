"""BERT's layers (Devlin et al. 2019) on 8-bit integers, as a graph of our own for onnxruntime.

The published int8 files of MiniLM hold integers and turn them back into floats before they multiply. Here the integers
themselves are multiplied: activations are quantised as they come (``DynamicQuantizeMatMul``), which takes a third
of the time. The graph uses onnxruntime's own operators for what BERT repeats in every layer.

Versions of a script differ by little, and one scale for all activations of a chunk would bury that: a few are a hundred
times as large as most. Those of the normalisations belong to few channels, which are divided before and multiplied into
the weights (Xiao et al. 2023, SmoothQuant; how large a channel gets is read off the normalisation itself). Those
behind Gelu belong to few tokens, so there each token has a scale of its own.

Weights are cut to 7 bits. Processors without VNNI instructions add two products of an unsigned and a signed byte in 16
bits; with 8-bit weights these sums could overflow there, and a text's vector would depend on the machine.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from slurmcast.encoder.base import Vectors

# From 1.29 on its official builds report to their maker unless told not to before the import.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import onnxruntime

LARGEST = 64
"""Largest magnitude of a weight: 2 x 255 x 64 fits 16 bits."""
EPSILON = 1e-12
HEADS = 12
SMOOTHING = 0.7
"""Power of a channel's size that moves from activations to weights: 0 none, 1 all."""


class _Dense(NamedTuple):
    """A dense layer: y = x weights + bias."""

    weights: NDArray[np.float32]
    """(inputs, outputs)"""
    bias: NDArray[np.float32]


class IntegerBert:
    """The model of one ONNX file. May be used by several threads at once."""

    def __init__(self, model: bytes) -> None:
        """``model``: a BERT whose matrices ``NAME`` are stored as ``NAME_q`` (int8) and ``NAME_scale`` (a scale per row
        of a table, per output of a dense layer)."""
        stored = onnx.load_model_from_string(model).graph
        tensors = {t.name.removeprefix("inner."): numpy_helper.to_array(t) for t in stored.initializer}
        self._words = tensors["embeddings.word_embeddings.weight_q"]
        self._word_scales = tensors["embeddings.word_embeddings.weight_scale"]
        places = tensors["embeddings.position_embeddings.weight_q"].astype(np.float32)
        places *= tensors["embeddings.position_embeddings.weight_scale"]
        self._places = places + tensors["embeddings.token_type_embeddings.weight"][0]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session: Any = onnxruntime.InferenceSession(
            _graph(_dense_layers(stored, tensors), tensors), options, providers=["CPUExecutionProvider"]
        )

    def hidden(self, ids: Sequence[int]) -> Vectors:
        """Output of the last layer for one sequence of n token ids, of shape (n, dimensions).

        Sequences run one by one: activations are scaled by the range of all that run together, so in a batch each would
        change the others.
        """
        words = self._words[ids].astype(np.float32) * self._word_scales[ids]
        (out,) = self._session.run(None, {"words": words[None], "places": self._places[None, : len(ids)]})
        hidden: Vectors = out[0]
        return hidden


def _dense_layers(stored: Any, tensors: dict[str, NDArray[Any]]) -> dict[str, _Dense]:
    """Dense layers by name. Matrices have none in the file: the bias that is added to a product tells its layer."""
    follows = {name: node for node in stored.node for name in node.input}
    found = {}
    for product in stored.node:
        if product.op_type != "MatMul" or f"{product.input[1]}_q" not in tensors:
            continue
        bias = next(n for name in follows[product.output[0]].input if (n := name.removeprefix("inner.")) in tensors)
        weights = tensors[f"{product.input[1]}_q"] * tensors[f"{product.input[1]}_scale"]
        found[bias.removesuffix(".bias")] = _Dense(weights, tensors[bias])
    return found


def seven_bits(weights: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """The matrix as integers in [-LARGEST, LARGEST], and the scale of each output."""
    scales = np.abs(weights).max(axis=0) / np.float32(LARGEST)
    return np.rint(weights / np.where(scales > 0, scales, 1)).astype(np.int8), scales


def _channels(gain: NDArray[np.float32], offset: NDArray[np.float32]) -> NDArray[np.float32]:
    """By what each channel behind a normalisation is divided: three standard deviations, where that is much."""
    size = np.abs(offset) + 3 * np.abs(gain)
    divisors: NDArray[np.float32] = np.maximum(size / np.median(size), 1) ** np.float32(SMOOTHING)
    return divisors


@dataclass
class _Graph:
    """An ONNX graph under construction; a value is known by its name."""

    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def constant(self, name: str, value: NDArray[Any]) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(
        self, kind: str, inputs: list[str], *outputs: str, domain: str = "com.microsoft", **attributes: Any
    ) -> str:
        self.nodes.append(helper.make_node(kind, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def plain(self, kind: str, inputs: list[str], out: str, **attributes: Any) -> str:
        return self.node(kind, inputs, out, domain="", **attributes)

    def dense(self, x: str, layer: _Dense, out: str) -> str:
        bias = self.constant(f"{out}/bias", layer.bias)
        return self.node("DynamicQuantizeMatMul", [x, *self.integers(layer.weights, out), "", bias], out)

    def dense_by_channel(self, x: str, divisors: NDArray[np.float32], layer: _Dense, out: str) -> str:
        x = self.plain("Mul", [x, self.constant(f"{out}/by", 1 / divisors)], f"{out}/in")
        return self.dense(x, _Dense(layer.weights * divisors[:, None], layer.bias), out)

    def dense_by_token(self, x: str, layer: _Dense, out: str) -> str:
        sizes = self.plain("ReduceMax", [self.plain("Abs", [x], f"{out}/abs")], f"{out}/sizes", axes=[2], keepdims=1)
        largest = self.plain(
            "Max", [sizes, self.constant(f"{out}/least", np.array(1e-6, np.float32))], f"{out}/largest"
        )
        x = self.plain("Div", [x, largest], f"{out}/in")
        small = self.node("DynamicQuantizeMatMul", [x, *self.integers(layer.weights, out)], f"{out}/small")
        product = self.plain("Mul", [small, largest], f"{out}/product")
        return self.plain("Add", [product, self.constant(f"{out}/bias", layer.bias)], out)

    def integers(self, weights: NDArray[np.float32], out: str) -> list[str]:
        small, scales = seven_bits(weights)
        return [self.constant(f"{out}/weights", small), self.constant(f"{out}/scales", scales)]


def _graph(dense: dict[str, _Dense], tensors: dict[str, NDArray[Any]]) -> bytes:
    """From the vectors of words and of their places, (1, n, d) each, to the last layer's output (1, n, d)."""
    graph = _Graph()
    width = len(tensors["embeddings.LayerNorm.weight"])
    thirds = graph.constant("thirds", np.array([width] * 3, np.int64))

    def normalise(x: str, added: str, name: str) -> tuple[str, NDArray[np.float32]]:
        """x + added, normalised, and by what its channels are divided before integers are made of them."""
        gain, offset = (tensors[f"{name}.{part}"] for part in ("weight", "bias"))
        constants = [graph.constant(f"{name}.weight", gain), graph.constant(f"{name}.bias", offset)]
        out = graph.node("SkipLayerNormalization", [x, added, *constants], f"{name}/out", epsilon=EPSILON)
        return out, _channels(gain, offset)

    x, divisors = normalise("words", "places", "embeddings.LayerNorm")
    for number in range(sum(name.endswith("intermediate.dense") for name in dense)):
        layer = f"encoder.layer.{number}"
        names = [f"{layer}.attention.self.{part}" for part in ("query", "key", "value")]
        joined = _Dense(*(np.concatenate(parts, axis=-1) for parts in zip(*(dense[n] for n in names), strict=True)))
        graph.node("Split", [graph.dense_by_channel(x, divisors, joined, layer), thirds], *names, domain="", axis=2)
        seen = graph.node("MultiHeadAttention", names, f"{layer}/seen", num_heads=HEADS)
        attended = graph.dense(seen, dense[f"{layer}.attention.output.dense"], f"{layer}/attended")
        x, divisors = normalise(x, attended, f"{layer}.attention.output.LayerNorm")
        wide = graph.dense_by_channel(x, divisors, dense[f"{layer}.intermediate.dense"], f"{layer}/wide")
        bent = graph.node("Gelu", [wide], f"{layer}/bent")
        narrow = graph.dense_by_token(bent, dense[f"{layer}.output.dense"], f"{layer}/narrow")
        x, divisors = normalise(x, narrow, f"{layer}.output.LayerNorm")
    values = [
        helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, None, width]) for n in ("words", "places", x)
    ]
    made = helper.make_graph(graph.nodes, "bert", values[:2], values[2:], graph.constants)
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(made, opset_imports=versions, ir_version=8).SerializeToString())
