"""The encoder ``starcoder`` on tiny models with random weights that are saved and loaded as real ones are."""

from __future__ import annotations

import json
import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from slurmcast.config import Config, EncoderConfig, Paths, StarCoderConfig
from slurmcast.daemon.estimator import Estimator
from slurmcast.encoder import EncoderError, load
from slurmcast.encoder.base import Vectors
from slurmcast.encoder.checkpoint import digest
from slurmcast.encoder.kinds import name_of
from slurmcast.encoder.starcoder import StarCoder
from tests.unit.tiny_model import CONTEXT, SIZES, save, starcoder, tokenizer

SCRIPT = "#!/bin/bash\n#SBATCH --gpus=1\npython train.py --epochs 30\n"
TEXTS = ["x = 1", SCRIPT, "", "import torch\n" * 15, "y"]

# What each calls its final norm, whose input is the last block's output.
ARCHITECTURES: dict[str, tuple[Any, str]] = {
    "starcoder2": (starcoder(), "norm"),
    "starcoder2-sliding": (starcoder(sliding_window=16), "norm"),
    "starcoder2-unbounded": (starcoder(sliding_window=None), "norm"),
    "llama": (transformers.LlamaConfig(**SIZES, intermediate_size=96), "norm"),
    "gpt_neox": (transformers.GPTNeoXConfig(**SIZES, intermediate_size=96), "final_layer_norm"),
    # StarCoder, the first: GPTBigCode has names of its own for the same sizes.
    "gpt_bigcode": (
        transformers.GPTBigCodeConfig(
            vocab_size=512, n_embd=48, n_layer=3, n_head=4, n_positions=CONTEXT, bos_token_id=0, eos_token_id=0
        ),
        "ln_f",
    ),
    # As many experts a block as blocks: lists within a block are no list of blocks.
    "mixtral": (
        transformers.MixtralConfig(**SIZES, intermediate_size=96, num_key_value_heads=2, num_local_experts=3),
        "norm",
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("starcoder2"), starcoder())


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A checkpoint that a test may spoil."""
    return save(tmp_path / "model", starcoder())


def config(folder: Path | None, **changes: Any) -> EncoderConfig:
    return EncoderConfig(kind="starcoder", starcoder=StarCoderConfig(**{"path": folder, "device": "cpu", **changes}))


def direct(folder: Path, norm: str, ids: list[int], layer: str, pooling: str) -> Vectors:
    """The vector of one sequence: an unbatched pass of the whole language model, seen from its final norm."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, use_safetensors=True).eval()
    seen: dict[str, torch.Tensor] = {}

    def look(_: torch.nn.Module, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
        seen.update(pre_norm=inputs[0][0], post_norm=output[0])

    attrgetter(norm)(model.base_model).register_forward_hook(look)
    with torch.no_grad():
        model(torch.tensor([ids]))
    states = seen[layer].numpy()
    return np.asarray(states[-1] if pooling == "last" else states.mean(axis=0), np.float32)


@pytest.mark.parametrize("pooling", ["last", "mean"])
@pytest.mark.parametrize("layer", ["pre_norm", "post_norm"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_vectors_are_those_of_a_direct_forward_pass(tmp_path: Path, name: str, layer: str, pooling: str) -> None:
    architecture, norm = ARCHITECTURES[name]
    folder = save(tmp_path, architecture)
    encoder = load(config(folder, layer=layer, pooling=pooling))
    vectors = encoder.encode(TEXTS)
    assert (vectors.shape, vectors.dtype, encoder.dimensions) == ((len(TEXTS), 48), np.float32, 48)
    for text, vector in zip(TEXTS, vectors, strict=True):
        ids = tokenizer().encode(text).ids or [0]
        assert vector == pytest.approx(direct(folder, norm, ids, layer, pooling), rel=1e-4, abs=1e-4)


def test_the_two_layers_and_poolings_differ(folder: Path) -> None:
    made = [
        load(config(folder, layer=layer, pooling=pooling)).encode([SCRIPT])[0]
        for layer in ("pre_norm", "post_norm")
        for pooling in ("last", "mean")
    ]
    assert all(np.abs(a - b).max() > 0.1 for n, a in enumerate(made) for b in made[:n])


@pytest.mark.parametrize("batch_tokens", [1, 100, 100_000])
def test_neither_batch_nor_padding_changes_a_vector(folder: Path, batch_tokens: int) -> None:
    encoder = load(config(folder, batch_tokens=batch_tokens))
    alone = np.stack([encoder.encode([text])[0] for text in TEXTS])
    together = encoder.encode(TEXTS)
    assert together == pytest.approx(alone, rel=1e-4, abs=1e-4)
    assert encoder.encode(TEXTS[::-1])[::-1] == pytest.approx(alone, rel=1e-4, abs=1e-4)
    assert encoder.encode([]).shape == (0, encoder.dimensions)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_short_floats_are_near_long_ones(folder: Path, dtype: str) -> None:
    exact, rounded = (load(config(folder, dtype=kind)) for kind in ("float32", dtype))
    a, b = exact.encode(TEXTS), rounded.encode(TEXTS)
    assert b.dtype == np.float32
    assert 0 < (np.linalg.norm(a - b, axis=1) / np.linalg.norm(a, axis=1)).max() < 0.03
    assert exact.name != rounded.name


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_gpu_makes_the_same_vectors(tmp_path: Path, name: str) -> None:
    folder = save(tmp_path, ARCHITECTURES[name][0])
    here, there = (load(config(folder, device=device, pooling="mean")) for device in ("cpu", "cuda"))
    assert there.encode(TEXTS) == pytest.approx(here.encode(TEXTS), rel=1e-3, abs=1e-3)
    assert there.name == here.name


def test_memory_that_does_not_suffice_says_what_to_lower(folder: Path) -> None:
    encoder = load(config(folder))
    assert isinstance(encoder, StarCoder)

    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nSee the manual.")

    with encoder._model.register_forward_pre_hook(full), pytest.raises(EncoderError) as raised:
        encoder.encode(TEXTS)
    assert str(raised.value).startswith("CUDA out of memory: lower encoder.starcoder.batch_tokens")
    assert np.isfinite(encoder.encode(TEXTS)).all()


def test_auto_is_the_type_that_the_checkpoint_was_saved_in(tmp_path: Path) -> None:
    folder = save(tmp_path, starcoder(), dtype=torch.bfloat16)
    assert "-bfloat16-" in load(config(folder)).name == name_of(config(folder))
    assert "-float32-" in load(config(folder, dtype="float32")).name


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_a_long_text_is_the_average_of_its_windows(folder: Path, pooling: str) -> None:
    text = "".join(f"layer_{n} = {n * n}\n" for n in range(200))[:150]  # one token a character
    encoder = load(config(folder, pooling=pooling, window=64))
    pieces = [text[0:64], text[56:120], text[86:150]]
    assert encoder.encode([text])[0] == pytest.approx(encoder.encode(pieces).mean(axis=0), rel=1e-4, abs=1e-4)
    whole = load(config(folder, pooling=pooling)).encode([text])[0]
    assert np.abs(encoder.encode([text])[0] - whole).max() > 0.1


def test_the_window_is_no_longer_than_the_context(folder: Path) -> None:
    assert "-last256." in load(config(folder)).name
    assert np.isfinite(load(config(folder)).encode(["a" * 3 * CONTEXT])).all()


def test_what_is_left_out_of_a_very_long_text_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("slurmcast.encoder.starcoder.MAX_TOKENS", 256)
    encoder = load(config(folder, window=64))
    text = "".join(chr(97 + n % 26) for n in range(1000))
    with caplog.at_level(logging.WARNING):
        vector = encoder.encode([text])[0]
    assert "a text of 1000 tokens is too long: the 776 in its middle are not read" in caplog.text
    pieces = [text[0:64], text[56:120], text[896:960], text[936:1000]]
    assert vector == pytest.approx(encoder.encode(pieces).mean(axis=0), rel=1e-4, abs=1e-4)


def test_each_window_has_the_tokens_that_the_tokenizer_adds(tmp_path: Path) -> None:
    folder = save(tmp_path, starcoder(), opening=True)
    encoder = load(config(folder, window=33))
    plain = tokenizer().encode("a" * 20 + "b" * 24).ids
    sequences = [[0, *plain[:32]], [0, *plain[12:]]]
    by_hand = np.mean([direct(folder, "norm", ids, "pre_norm", "last") for ids in sequences], axis=0)
    assert encoder.encode(["a" * 20 + "b" * 24])[0] == pytest.approx(by_hand, rel=1e-4, abs=1e-4)


def test_what_users_write_is_text(folder: Path) -> None:
    encoder = load(config(folder))
    marked, no_utf8 = "<|endoftext|>", b"# Caf\xe9\n".decode("utf-8", "surrogateescape")
    assert np.abs(encoder.encode([marked])[0] - encoder.encode([""])[0]).max() > 0.1
    assert np.array_equal(encoder.encode([no_utf8]), encoder.encode(["# Caf?\n"]))


def test_a_limit_that_the_tokenizer_was_saved_with_cuts_nothing(own: Path) -> None:
    before = load(config(own)).encode([SCRIPT])
    cutting = tokenizer()
    cutting.enable_truncation(8)
    cutting.enable_padding(length=300)
    cutting.save(str(own / "tokenizer.json"))
    assert load(config(own)).encode([SCRIPT]) == pytest.approx(before, rel=1e-4, abs=1e-4)


def test_threads_get_their_own_vectors(folder: Path) -> None:
    encoder = load(config(folder))
    texts = [f"x = {n}\n" * (n + 1) for n in range(20)]
    alone = [encoder.encode([text])[0] for text in texts]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda text: encoder.encode([text])[0], texts))
    assert np.array_equal(alone, together)


def test_the_name_tells_all_that_decides_a_vector(folder: Path, tmp_path: Path) -> None:
    other = save(tmp_path, starcoder(), seed=1)
    changes: list[dict[str, Any]] = [
        {"path": other},
        {"dtype": "bfloat16"},
        {"layer": "post_norm"},
        {"pooling": "mean"},
        {"window": 64},
    ]
    names = [load(config(folder, **change)).name for change in [{}, *changes]]
    assert names == [name_of(config(folder, **change)) for change in [{}, *changes]]
    assert len(set(names)) == len(names)
    assert load(config(folder, batch_tokens=5, sha256=digest(folder))).name == names[0]


def test_the_digest_is_that_of_sha256sum(own: Path) -> None:
    command = "sha256sum config.json *.safetensors* tokenizer.json | sha256sum"
    made = subprocess.run(
        command, shell=True, cwd=own, env={**os.environ, "LC_ALL": "C"}, capture_output=True, check=True
    )
    assert digest(own) == made.stdout.decode().split()[0]


def test_what_was_loaded_is_logged(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "slurmcast"):
        encoder = load(config(folder))
        encoder.encode(TEXTS)
    found, pin, done = (record.getMessage() for record in caplog.records)
    model = transformers.AutoModel.from_pretrained(folder)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    assert f"{encoder.name}: {parameters:.4g} parameters on cpu" in found
    assert f'encoder.starcoder.sha256 = "{digest(folder)}"' in pin
    assert "5 texts" in done


def test_weights_in_several_files(tmp_path: Path, folder: Path) -> None:
    parts = save(tmp_path, starcoder(), max_shard_size="50KB")
    assert len(list(parts.glob("*.safetensors"))) > 1
    assert np.array_equal(load(config(parts)).encode(TEXTS), load(config(folder)).encode(TEXTS))


def _edit(name: str, **changes: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        settings = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**settings, **changes}))

    return edit


def _pickled(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")


def _lacking(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.c_fc.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def _overflowing(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["model.embed_tokens.weight"] *= 1e6
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def _more_tokens(folder: Path) -> None:
    larger = tokenizer()
    larger.add_tokens([f"token {n}" for n in range(300)])
    larger.save(str(folder / "tokenizer.json"))


def _nothing(_: Path) -> None:
    """The folder stays as it is."""


@pytest.mark.parametrize(
    ("spoil", "changes", "message"),
    [
        (_nothing, {"path": None}, r"needs encoder\.starcoder\.path"),
        (_nothing, {"path": Path("/nowhere")}, r"/nowhere: no config\.json; encoder\.starcoder\.path must"),
        (lambda folder: (folder / "tokenizer.json").unlink(), {}, r"no tokenizer\.json"),
        (_pickled, {}, r"no \*\.safetensors; pickled weights .* refused"),
        (_lacking, {}, r"the weights lack layers\.1\.mlp\.c_fc\.weight"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"x" * 99), {}, "can't be used: .*Error"),
        (lambda folder: (folder / "config.json").write_text("{"), {}, "can't be used: JSONDecodeError"),
        (lambda folder: (folder / "adapter_config.json").touch(), {}, "holds an adapter"),
        (_edit("config.json", hidden_size=40), {}, "can't be used"),
        (_edit("config.json", model_type="odd"), {}, "model_type 'odd' is unknown; transformers .* must know it"),
        (_edit("config.json", model_type="t5"), {}, "t5 has a separate encoder"),
        (_more_tokens, {}, "more tokens than the model, 512"),
        (_overflowing, {"dtype": "float16"}, "torch.float16 are not finite: it overflows"),
        (_nothing, {"sha256": "0" * 64}, r"sha256 is [0-9a-f]{64}, encoder\.starcoder\.sha256 says 0000"),
        (_nothing, {"device": "gpu"}, r"encoder\.starcoder\.device = \"gpu\": must be \"auto\", \"cpu\""),
        (_nothing, {"device": "meta"}, "must be"),
        (_nothing, {"device": "cuda:99"}, r"finds \d+ GPUs"),
        (_nothing, {"window": 8}, r"encoder\.starcoder\.window = 8: must be at least 16"),
    ],
)
def test_what_cannot_be_used_says_why(
    own: Path, spoil: Callable[[Path], None], changes: dict[str, Any], message: str
) -> None:
    spoil(own)
    with pytest.raises(EncoderError, match=message) as raised:
        load(config(own, **changes))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_another_byte_is_another_digest(own: Path, name: str) -> None:
    pinned = digest(own)
    load(config(own, sha256=pinned))
    (own / name).write_bytes((own / name).read_bytes() + b" ")
    with pytest.raises(EncoderError, match=rf"sha256 is {digest(own)}, encoder\.starcoder\.sha256 says {pinned}"):
        load(config(own, sha256=pinned))


class _Trap:
    """Unpickled, it leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def test_no_code_of_the_folder_is_run(own: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    before = load(config(own)).encode(TEXTS)
    (own / "pytorch_model.bin").write_bytes(pickle.dumps(_Trap(mark)))
    (own / "trap.py").write_text(f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n")
    own_code = {"AutoConfig": "trap.Config", "AutoModel": "trap.Model", "AutoTokenizer": ["trap.Tokenizer", None]}
    _edit("config.json", auto_map=own_code)(own)
    _edit("tokenizer_config.json", auto_map=own_code)(own)
    assert np.array_equal(load(config(own)).encode(TEXTS), before)  # transformers knows starcoder2 itself
    _edit("config.json", model_type="odd")(own)
    with pytest.raises(EncoderError, match=r"model_type 'odd' needs code of its own \(auto_map\), which is never run"):
        load(config(own))
    assert not mark.exists()


@pytest.mark.parametrize("library", ["torch", "transformers", "tokenizers"])
def test_a_missing_library_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(EncoderError, match=rf"{library}.*: pip install '\.\[starcoder\]' in a clone"):
        load(config(folder))


def test_without_it_the_daemon_estimates_by_the_prior(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = Config(encoder=config(None), paths=Paths(state_dir=tmp_path))
    assert Estimator(settings).encoder is None
    assert "no encoder, estimates come from the prior" in caplog.text


def test_neither_network_nor_home_is_touched(folder: Path, tmp_path: Path) -> None:
    program = (
        "import sys, pathlib, os\n"
        "sys.addaudithook(lambda event, _: event.startswith('socket.') and os._exit(9))\n"
        "from slurmcast.config import StarCoderConfig\n"
        "from slurmcast.encoder.starcoder import StarCoder\n"
        "StarCoder.from_folder(StarCoderConfig(pathlib.Path(sys.argv[1]), device='cpu')).encode(['x = 1'])\n"
        "from huggingface_hub import constants\n"
        "assert constants.HF_HUB_OFFLINE and constants.HF_HUB_DISABLE_TELEMETRY\n"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_", "XDG_"))}
    subprocess.run([sys.executable, "-c", program, str(folder)], check=True, env=clean | {"HOME": str(tmp_path)})
    assert list(tmp_path.rglob("*")) == []
