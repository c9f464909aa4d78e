"""A causal language model in a local folder, as transformers' ``save_pretrained`` lays it out.

Nothing is fetched and no code of the folder is run: weights are safetensors only, the architecture must be one that
transformers itself knows, and the tokenizer is ``tokenizer.json``, which is data.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from slurmcast.encoder.base import EncoderError
from slurmcast.extras import install


@dataclass(frozen=True)
class Folder:
    """The files of a checkpoint, checked. ``settings``: transformers' configuration; ``digest``: see :func:`digest`."""

    path: Path
    settings: Any
    digest: str

    def dtype(self, wanted: str) -> str:
        """torch's name of the type to compute in: ``wanted``, or for "auto" that in which the model was saved."""
        return wanted if wanted != "auto" else str(self.settings.dtype or "float32").removeprefix("torch.")


@dataclass(frozen=True)
class Checkpoint:
    """A model in evaluation mode, without its language-model head, and its tokenizer."""

    model: Any
    tokenizer: Any
    digest: str


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn whatever the libraries raise over the content of ``path`` into an :class:`EncoderError` of one line."""
    try:
        yield
    except EncoderError:
        raise
    except OSError as error:
        raise EncoderError(f"{error.filename or path}: {error.strerror or ' '.join(str(error).split())}") from None
    except Exception as error:
        reason = " ".join(str(error).split())
        raise EncoderError(f"{path} can't be used: {type(error).__name__}: {reason}") from error


def inspect(path: Path, sha256: str = "") -> Folder:
    """Check the files of ``path``, whose :func:`digest` must be ``sha256`` where that isn't empty.

    Raises :class:`EncoderError` for what an admin may well get wrong; for damaged files what the libraries raise.
    """
    _, transformers, _ = _libraries()
    _check(path, transformers)
    found = digest(path)
    if sha256 and sha256 != found:
        raise EncoderError(
            f"{path}: sha256 is {found}, encoder.starcoder.sha256 says {sha256}: restore the files or correct the key"
        )
    settings = transformers.AutoConfig.from_pretrained(path, trust_remote_code=False, local_files_only=True)
    if settings.is_encoder_decoder:
        raise EncoderError(f"{path}: {settings.model_type} has a separate encoder; a causal language model is needed")
    return Folder(path, settings, found)


def load(folder: Folder, device: str, dtype: str) -> Checkpoint:
    """Load the model. ``device``: "cpu", "cuda", "cuda:N", or "auto" for CUDA where there is one; ``dtype`` as torch
    calls it. Raises as :func:`inspect` does."""
    torch, transformers, tokenizers = _libraries()
    place = _device(torch, device)
    tokenizer = tokenizers.Tokenizer.from_file(str(folder.path / "tokenizer.json"))
    model, loading = transformers.AutoModel.from_pretrained(
        folder.path,
        config=folder.settings,
        dtype=dtype,
        use_safetensors=True,
        trust_remote_code=False,
        local_files_only=True,
        output_loading_info=True,
    )
    if loading["missing_keys"]:  # transformers has filled them with random numbers
        raise EncoderError(f"{folder.path}: the weights lack {min(loading['missing_keys'])}: copy the folder anew")
    return Checkpoint(model.to(place).eval(), tokenizer, folder.digest)


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


def _libraries() -> tuple[Any, Any, Any]:
    """torch, transformers and tokenizers, kept off the network. Raises :class:`EncoderError` where one is missing."""
    # Read when huggingface_hub is imported. Loading from a folder asks nobody; these make sure.
    os.environ["HF_HUB_OFFLINE"] = os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    try:
        torch, transformers, tokenizers = map(import_module, ("torch", "transformers", "tokenizers"))
    except ImportError as error:
        raise EncoderError(f'encoder.kind = "starcoder": {error}: {install("starcoder")}') from None
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
