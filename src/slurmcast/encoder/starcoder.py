"""The paper's encoder: the hidden state of a causal code model, StarCoder2 or any other that transformers knows.

The paper (appendix A.2) takes the output of the last transformer block at the last token: ``layer = "pre_norm"``,
``pooling = "last"``. What transformers returns (``last_hidden_state``, and the last of its ``hidden_states`` too) comes
after the model's final norm: ``layer = "post_norm"``. The block's own output has to be caught by a hook.

Sequences of a batch are padded on the right. A token of a causal model sees only what stands before it and is numbered
from the left, so what follows the last real one changes nothing but rounding.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slurmcast.config import StarCoderConfig
from slurmcast.config.sections import STARCODER_NEEDS_PATH
from slurmcast.encoder.base import EncoderError, Vectors, printable
from slurmcast.encoder.checkpoint import Checkpoint, explained, inspect, load
from slurmcast.encoder.windows import batches, head_and_tail, windows

log = logging.getLogger(__name__)

MAX_TOKENS = 32768
"""About what is read of one text; a longer one loses windows in its middle. The script reader's 64 Ki characters are
some 20,000 tokens of code."""
MIN_WINDOW = 16


class StarCoder:
    """The encoder ``starcoder``. May be used by several threads; one at a time has the model."""

    def __init__(self, checkpoint: Checkpoint, config: StarCoderConfig) -> None:
        """Encode by ``checkpoint`` as ``config`` says. Raises :class:`EncoderError`."""
        self._model, self._tokenizer = checkpoint.model, checkpoint.tokenizer
        self._pooling, self._batch_tokens = config.pooling, config.batch_tokens
        settings = self._model.config
        self.window, self._overlap, self._most = _reading(settings, config)
        self.name = _name(checkpoint.digest, settings, str(self._model.dtype).removeprefix("torch."), config)
        self._hooked = [_last_block(self._model)] if config.layer == "pre_norm" else []
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True  # "<|endoftext|>" in a user's text is text
        self._head, self._tail = _added(self._tokenizer)
        if self.window < max(MIN_WINDOW, 2 * len(self._head + self._tail)):
            raise EncoderError(f"encoder.starcoder.window = {self.window}: must be at least {MIN_WINDOW}")
        known = self._model.get_input_embeddings().num_embeddings
        if max(self._tokenizer.get_vocab().values()) >= known:
            raise EncoderError(f"tokenizer.json has more tokens than the model, {known}: copy both from one source")
        opening = settings.get_text_config().bos_token_id
        self._empty = [opening if isinstance(opening, int) and opening < known else 0]
        self._lock = threading.Lock()
        self.dimensions = self._run([self._empty]).shape[1]

    @classmethod
    def from_folder(cls, config: StarCoderConfig) -> StarCoder:
        """Load what ``config.path`` holds. Raises :class:`EncoderError`."""
        began, path = time.perf_counter(), _path(config)
        with explained(path):
            folder = inspect(path, config.sha256)
            checkpoint = load(folder, config.device, folder.dtype(config.dtype))
            encoder = cls(checkpoint, config)
        parameters = list(checkpoint.model.parameters())
        count, size = sum(p.numel() for p in parameters), sum(p.nbytes for p in parameters)
        log.info(
            "%s: %.4g parameters on %s, %.2f GB, windows of %d tokens, %d dimensions, ready in %.1f s",
            *(encoder.name, count, checkpoint.model.device, size / 1e9, encoder.window, encoder.dimensions),
            time.perf_counter() - began,
        )
        if not config.sha256:
            log.info('to accept only these weights: encoder.starcoder.sha256 = "%s"', checkpoint.digest)
        return encoder

    def encode(self, texts: Sequence[str]) -> Vectors:
        """See :meth:`slurmcast.encoder.base.Encoder.encode`.

        A text longer than the window is read in windows that overlap by an eighth; its vector is their average,
        weighted by token counts. Of a text above :data:`MAX_TOKENS` the middle is left out, with a warning in the log.
        """
        began = time.perf_counter()
        read = [self._windows(text) for text in texts]
        sequences = [(n, ids) for n, parts in enumerate(read) for ids in parts]
        lengths = [len(ids) for _, ids in sequences]
        totals = [sum(map(len, parts)) for parts in read]
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        runs = batches(lengths, self._batch_tokens)
        for batch in runs:
            for index, vector in zip(batch, self._run([sequences[index][1] for index in batch]), strict=True):
                text = sequences[index][0]
                vectors[text] += np.float32(lengths[index] / totals[text]) * vector
        log.debug(
            "%d texts, %d tokens, %d batches: %.3f s", len(texts), sum(lengths), len(runs), time.perf_counter() - began
        )
        return vectors

    def _windows(self, text: str) -> list[list[int]]:
        """Token ids of ``text`` by windows, each with the tokens that the tokenizer adds.

        Where that makes none (an empty text), one token that opens a text stands in.
        """
        ids = self._tokenizer.encode(printable(text), add_special_tokens=False).ids
        spans = windows(len(ids), self.window - len(self._head + self._tail), self._overlap)
        kept = head_and_tail(spans, self._most)
        return [[*self._head, *ids[start:end], *self._tail] or self._empty for start, end in kept]

    def _run(self, sequences: list[list[int]]) -> Vectors:
        """The pooled vectors, of shape (len(sequences), dimensions), in one forward pass."""
        import torch

        lengths = torch.tensor([len(ids) for ids in sequences])
        ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids in sequences], batch_first=True)
        device = self._model.device
        lengths, ids = lengths.to(device), ids.to(device)
        mask = torch.arange(ids.shape[1], device=device) < lengths[:, None]
        try:
            with self._lock, torch.inference_mode():
                pooled = _pooled(self._hidden(ids, mask), mask, self._pooling).cpu().numpy()
        except torch.OutOfMemoryError as error:
            reason = str(error).split(". ")[0]
            raise EncoderError(f"{reason}: lower encoder.starcoder.batch_tokens or encoder.starcoder.window") from None
        if not np.isfinite(pooled).all():
            raise EncoderError(
                f'vectors in {self._model.dtype} are not finite: it overflows (encoder.starcoder.dtype = "float32" '
                "doesn't), or the weights are damaged"
            )
        vectors: Vectors = pooled
        return vectors

    def _hidden(self, ids: Any, mask: Any) -> Any:
        """Hidden states of shape (sequences, tokens, dimensions)."""
        outputs: list[Any] = []
        hooks = [block.register_forward_hook(lambda *call: outputs.append(call[-1])) for block in self._hooked]
        try:
            outputs.append(self._model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state)
        finally:
            for hook in hooks:
                hook.remove()
        return outputs[0][0] if isinstance(outputs[0], tuple) else outputs[0]


def name_of(config: StarCoderConfig) -> str:
    """The name of the encoder that :meth:`StarCoder.from_folder` would make; the weights are read, but not loaded.

    Raises :class:`EncoderError`.
    """
    path = _path(config)
    with explained(path):
        folder = inspect(path, config.sha256)
        return _name(folder.digest, folder.settings, folder.dtype(config.dtype), config)


def _path(config: StarCoderConfig) -> Path:
    if config.path is None:
        raise EncoderError(STARCODER_NEEDS_PATH)
    return config.path


def _reading(settings: Any, config: StarCoderConfig) -> tuple[int, int, int]:
    """Tokens in a window, tokens that it shares with the one before, and the most windows of one text."""
    context = getattr(settings.get_text_config(), "max_position_embeddings", None)
    window = min(config.window, context or config.window)
    return window, window // 8, max(MAX_TOKENS // max(window, 1), 2)


def _name(digest: str, settings: Any, dtype: str, config: StarCoderConfig) -> str:
    window, overlap, most = _reading(settings, config)
    return f"starcoder-{digest[:12]}-{dtype}-{config.layer}-{config.pooling}{window}.{overlap}.{most}"


def _pooled(hidden: Any, mask: Any, pooling: str) -> Any:
    """float32 of shape (sequences, dimensions): the last real token's state, or the mean over the real ones."""
    import torch

    lengths = mask.sum(dim=1)
    if pooling == "last":
        return hidden[torch.arange(len(hidden), device=hidden.device), lengths - 1].float()
    return (hidden.float() * mask[..., None]).sum(dim=1) / lengths[:, None]


def _last_block(model: Any) -> Any:
    """The last transformer block: that of the outermost list with as many modules as the model has layers."""
    import torch

    layers = model.config.get_text_config().num_hidden_layers
    for module in model.modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == layers:
            return module[-1]
    kind = model.config.model_type
    raise EncoderError(f'the blocks of a {kind} can\'t be told: set encoder.starcoder.layer = "post_norm"')


def _added(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The ids that the tokenizer puts before and behind each sequence."""
    plain = tokenizer.encode("x", add_special_tokens=False).ids
    whole = tokenizer.encode("x", add_special_tokens=True).ids
    before = next(n for n in range(len(whole)) if whole[n : n + len(plain)] == plain)
    return whole[:before], whole[before + len(plain) :]
