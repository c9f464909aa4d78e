"""BERT's layers (Devlin et al. 2019) on 8-bit integers, as a graph of our own for onnxruntime.

The published int8 files of MiniLM hold integers and turn them back into floats before they multiply. Here the integers
themselves are multiplied: activations are quantised as they come (``DynamicQuantizeMatMul``), which takes about a
quarter of the time. The graph uses onnxruntime's own operators for what BERT repeats in every layer.

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


class _Dense(NamedTuple):
    """A dense layer: y = x (weights x scales) + bias."""

    weights: NDArray[np.int8]
    """(inputs, outputs)"""
    scales: NDArray[np.float32]
    """One for each output."""
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
        rows = self._words[ids].astype(np.float32) * self._word_scales[ids] + self._places[: len(ids)]
        (out,) = self._session.run(None, {"embedded": rows[None]})
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
        weights, scales = tensors[f"{product.input[1]}_q"], tensors[f"{product.input[1]}_scale"][0]
        found[bias.removesuffix(".bias")] = _Dense(*seven_bits(weights, scales), tensors[bias])
    return found


def seven_bits(weights: NDArray[np.int8], scales: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """The same matrix with half as many steps, in [-LARGEST, LARGEST]."""
    return np.clip(np.rint(weights / 2), -LARGEST, LARGEST).astype(np.int8), scales * 2


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

    def dense(self, x: str, layer: _Dense, out: str) -> str:
        weights = self.constant(f"{out}/weights", layer.weights)
        scales, bias = self.constant(f"{out}/scales", layer.scales), self.constant(f"{out}/bias", layer.bias)
        return self.node("DynamicQuantizeMatMul", [x, weights, scales, "", bias], out)


def _graph(dense: dict[str, _Dense], tensors: dict[str, NDArray[Any]]) -> bytes:
    """``embedded`` (1, n, d) to the last layer's output (1, n, d)."""
    graph = _Graph()
    width = len(tensors["embeddings.LayerNorm.weight"])
    thirds = graph.constant("thirds", np.array([width] * 3, np.int64))

    def norm(layer: str) -> list[str]:
        names = [f"{layer}.weight", f"{layer}.bias"]
        return [graph.constant(name, tensors[name]) for name in names]

    x = graph.node(
        "LayerNormalization", ["embedded", *norm("embeddings.LayerNorm")], "x", domain="", epsilon=EPSILON, axis=-1
    )
    for number in range(sum(name.endswith("intermediate.dense") for name in dense)):
        layer = f"encoder.layer.{number}"
        three = [dense[f"{layer}.attention.self.{part}"] for part in ("query", "key", "value")]
        joined = _Dense(*(np.concatenate(parts, axis=-1) for parts in zip(*three, strict=True)))
        parts = [f"{layer}/{part}" for part in ("query", "key", "value")]
        graph.node("Split", [graph.dense(x, joined, f"{layer}/joined"), thirds], *parts, domain="", axis=2)
        seen = graph.node("MultiHeadAttention", parts, f"{layer}/seen", num_heads=HEADS)
        attended = graph.dense(seen, dense[f"{layer}.attention.output.dense"], f"{layer}/attended")
        inner = [x, attended, *norm(f"{layer}.attention.output.LayerNorm")]
        x = graph.node("SkipLayerNormalization", inner, f"{layer}/x", epsilon=EPSILON)
        wide = graph.node(
            "Gelu", [graph.dense(x, dense[f"{layer}.intermediate.dense"], f"{layer}/wide")], f"{layer}/bent"
        )
        outer = [
            x,
            graph.dense(wide, dense[f"{layer}.output.dense"], f"{layer}/narrow"),
            *norm(f"{layer}.output.LayerNorm"),
        ]
        x = graph.node("SkipLayerNormalization", outer, f"{layer}/out", epsilon=EPSILON)
    shape = [1, None, width]
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in ("embedded", x)]
    made = helper.make_graph(graph.nodes, "bert", values[:1], values[1:], graph.constants)
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(made, opset_imports=versions, ir_version=8).SerializeToString())
