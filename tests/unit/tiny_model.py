"""Tiny causal language models with random weights and a tokenizer, saved as transformers saves real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

VOCABULARY = 512
CONTEXT = 256
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
STARCODER = {"intermediate_size": 96, "num_key_value_heads": 2, "sliding_window": 128, "norm_epsilon": 1e-5}


def starcoder(**changes: Any) -> Any:
    """The configuration of a tiny StarCoder2."""
    return transformers.Starcoder2Config(**{**SIZES, **STARCODER, **changes})


def tokenizer(opening: bool = False) -> Tokenizer:
    """One token a byte; id 0 is "<|endoftext|>", put before each sequence where ``opening``."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({"<|endoftext|>": 0, **{c: n for n, c in enumerate(alphabet, 1)}}, []))
    made.add_special_tokens(["<|endoftext|>"])
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    if opening:
        made.post_processor = processors.TemplateProcessing(
            single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)]
        )
    return made


def save(
    folder: Path, config: Any, seed: int = 0, opening: bool = False, dtype: torch.dtype = torch.float32, **kwargs: Any
) -> Path:
    """A checkpoint with its language-model head, as models are published, in ``folder``."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():  # norms that do nothing would hide on which side of them a vector was taken
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.to(dtype).save_pretrained(folder, **kwargs)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer(opening)).save_pretrained(folder)
    return folder
