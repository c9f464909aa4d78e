"""StarCoder2 with random weights (speed doesn't depend on their values): scripts a second by batch size, and memory.

On CUDA the whole model runs, in bfloat16. Without CUDA one block and two blocks of the same width run, and the whole is
extrapolated from the time and the bytes that the second block adds; it says so. The last line is JSON.
    starcoder.py [--size 3b|7b|15b] [--device cpu|cuda] [--dtype bfloat16|float32] [--batch N ...] [--tokens N]
"""

from __future__ import annotations

import argparse
import json
import random
import time
from typing import Any

from options import parser

from slurmcast.config import StarCoderConfig
from slurmcast.encoder.checkpoint import Checkpoint
from slurmcast.encoder.starcoder import StarCoder

WIDTHS = {
    "3b": {"hidden_size": 3072, "intermediate_size": 12288, "num_attention_heads": 24, "num_key_value_heads": 2},
    "7b": {"hidden_size": 4608, "intermediate_size": 18432, "num_attention_heads": 36, "num_key_value_heads": 4},
    "15b": {"hidden_size": 6144, "intermediate_size": 24576, "num_attention_heads": 48, "num_key_value_heads": 4},
}
BLOCKS = {"3b": 30, "7b": 32, "15b": 40}
TOKENS = 1582
"""Mean length of the paper's 500 programs (its appendix A.2); it took 0.65 s for one on an RTX A6000."""
WORDS = 1000


def checkpoint(size: str, blocks: int, device: str, dtype: str) -> Checkpoint:
    """A StarCoder2 of ``blocks`` blocks, with a tokenizer that makes one token of a word."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    shape = transformers.Starcoder2Config(
        **WIDTHS[size],
        num_hidden_layers=blocks,
        max_position_embeddings=16384,
        sliding_window=4096,
        bos_token_id=0,
        eos_token_id=0,
    )
    torch.manual_seed(0)
    with torch.device(device):
        model = transformers.AutoModel.from_config(shape, dtype=getattr(torch, dtype)).eval()
    tokenizer = Tokenizer(models.WordLevel({f"w{n}": n for n in range(WORDS)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return Checkpoint(model, tokenizer, "random")


def measure(made: Checkpoint, tokens: int, batch: int) -> dict[str, float]:
    """Seconds a script (the best of three passes after one to warm up), GB of the weights, and at the peak on CUDA."""
    import torch

    encoder = StarCoder(made, StarCoderConfig(batch_tokens=tokens * batch))
    on_gpu = made.model.device.type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(made.model.device)
    draw = random.Random(0)
    taken = []
    for _ in range(4):
        texts = [" ".join(f"w{draw.randrange(WORDS)}" for _ in range(tokens)) for _ in range(batch)]
        begun = time.perf_counter()
        encoder.encode(texts)
        taken.append(time.perf_counter() - begun)
    figures = {
        "s_per_script": min(taken[1:]) / batch,
        "weights_gb": sum(parameter.nbytes for parameter in made.model.parameters()) / 1e9,
    }
    return figures | ({"peak_gb": torch.cuda.max_memory_allocated(made.model.device) / 1e9} if on_gpu else {})


def main(args: argparse.Namespace) -> dict[str, Any]:
    """All figures."""
    import torch

    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    whole = device != "cpu"
    where = torch.cuda.get_device_name(device) if whole else f"CPU, {torch.get_num_threads()} threads"
    blocks = BLOCKS[args.size]
    print(f"starcoder2-{args.size}, random weights, {args.dtype}, {args.tokens} tokens a script, on {where}")
    print(f"all {blocks} blocks run" if whole else f"no GPU: 1 and 2 of {blocks} blocks run, the whole is extrapolated")
    made = [checkpoint(args.size, count, device, args.dtype) for count in ([blocks] if whole else [1, 2])]
    results = []
    for batch in args.batch or ([1, 2, 4, 8, 16, 32] if whole else [1, 2]):
        first, *second = (measure(part, args.tokens, batch) for part in made)
        figures = {key: value + (blocks - 1) * (more[key] - value) for more in second for key, value in first.items()}
        figures = figures or first
        rounded = {key: round(value, 4) for key, value in figures.items()}
        results.append({"batch": batch, **rounded, "scripts_per_s": round(1 / figures["s_per_script"], 4)})
        print(results[-1], flush=True)
    return {
        "model": f"starcoder2-{args.size}",
        "dtype": args.dtype,
        "tokens": args.tokens,
        "device": where,
        "extrapolated": not whole,
        "results": results,
    }


if __name__ == "__main__":
    options = parser(__doc__)
    options.add_argument("--size", choices=BLOCKS, default="7b")
    options.add_argument("--device")
    options.add_argument("--dtype", choices=["bfloat16", "float32", "float16"], default="bfloat16")
    options.add_argument("--batch", type=int, nargs="+")
    options.add_argument("--tokens", type=int, default=TOKENS)
    print(json.dumps(main(options.parse_args())))
