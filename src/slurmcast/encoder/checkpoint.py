"""A causal language model in a local folder, as transformers' ``save_pretrained`` lays it out.

Nothing is fetched and no code of the folder is run: weights are safetensors only, the architecture must be one that
transformers itself knows, and the tokenizer is ``tokenizer.json``, which is data.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from slurmcast.encoder.base import EncoderError

INSTALL = "pip install 'slurmcast[starcoder]'"


@dataclass(frozen=True)
class Checkpoint:
    """A model in evaluation mode, with its tokenizer. ``digest``: see :func:`digest`."""

    model: Any
    tokenizer: Any
    digest: str


def load(folder: Path, sha256: str, device: str, dtype: str) -> Checkpoint:
    """Load the model of ``folder``, without its language-model head.

    ``sha256``: what :func:`digest` must give, empty for anything. ``device``: "cpu", "cuda", "cuda:N", or "auto" for
    CUDA where there is one. ``dtype``: torch's name of a floating-point type, or "auto" for that of the checkpoint.
    Raises :class:`EncoderError` for what an admin may well get wrong; for damaged files what the libraries raise.
    """
    torch, transformers, tokenizers = _libraries()
    place = _device(torch, device)
    _check(folder, transformers)
    found = digest(folder)
    if sha256 and sha256 != found:
        raise EncoderError(
            f"{folder}: sha256 is {found}, encoder.starcoder.sha256 says {sha256}: restore the files or correct the key"
        )
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    model, loading = transformers.AutoModel.from_pretrained(
        folder,
        dtype=dtype,
        use_safetensors=True,
        trust_remote_code=False,
        local_files_only=True,
        output_loading_info=True,
    )
    if loading["missing_keys"]:  # transformers has filled them with random numbers
        raise EncoderError(f"{folder}: the weights lack {min(loading['missing_keys'])}: copy the folder anew")
    return Checkpoint(model.to(place).eval(), tokenizer, found)


def digest(folder: Path) -> str:
    """sha256 of all that decides a vector; ``sha256sum config.json *.safetensors* tokenizer.json | sha256sum`` gives
    the same (names in the order of ``LC_ALL=C``)."""
    files = {folder / "config.json", folder / "tokenizer.json", *folder.glob("*.safetensors*")}
    lines = []
    for path in sorted(files, key=lambda path: path.name):
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _check(folder: Path, transformers: Any) -> None:
    """Whether ``folder`` is a checkpoint that can be loaded as it is. Raises :class:`EncoderError` or OSError."""
    for name in ("config.json", "tokenizer.json"):
        if not (folder / name).exists():
            raise EncoderError(
                f"{folder}: no {name}; encoder.starcoder.path must name the folder of a model and its tokenizer"
            )
    if not any(folder.glob("*.safetensors")):
        raise EncoderError(
            f"{folder}: no *.safetensors; pickled weights (*.bin, *.pt) can run code and are refused: get the model's "
            "safetensors, or convert it by save_pretrained() on a machine where that does no harm"
        )
    if (folder / "adapter_config.json").exists():
        raise EncoderError(f"{folder}: holds an adapter (adapter_config.json); merge it into the model first")
    settings = json.loads((folder / "config.json").read_text("utf-8"))
    kind = settings.get("model_type")
    if kind not in transformers.CONFIG_MAPPING:
        why = "needs code of its own (auto_map), which is never run" if "auto_map" in settings else "is unknown"
        raise EncoderError(f"{folder}: model_type {kind!r} {why}; transformers {transformers.__version__} must know it")
    if settings.get("is_encoder_decoder"):
        raise EncoderError(f"{folder}: {kind} is an encoder-decoder; a causal language model is needed")


def _libraries() -> tuple[Any, Any, Any]:
    # Read when huggingface_hub is imported. Loading from a folder asks nobody; these make sure.
    os.environ["HF_HUB_OFFLINE"] = os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    try:
        torch, transformers, tokenizers = map(import_module, ("torch", "transformers", "tokenizers"))
    except ImportError as error:
        raise EncoderError(f'encoder.kind = "starcoder": {error}: {INSTALL}') from None
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return torch, transformers, tokenizers


def _device(torch: Any, name: str) -> Any:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in {"cpu", "cuda"}:
        raise EncoderError(f'encoder.starcoder.device = "{name}": must be "auto", "cpu", "cuda" or "cuda:N"')
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise EncoderError(
            f'encoder.starcoder.device = "{name}": torch {torch.__version__} finds {torch.cuda.device_count()} GPUs'
        )
    return device
