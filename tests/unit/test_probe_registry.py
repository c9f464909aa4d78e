"""Models on disk: equal after loading, without pickle or torch; refused when damaged or of another encoder."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurmcast.config import ProbeConfig
from slurmcast.probe import Model, ModelError, Registry, network, train
from slurmcast.probe.model import FORMAT
from tests.unit.probe_world import World, known_scripts, trained_world

BOTH = {"fast": 1, "slow": 2}


@pytest.fixture
def model() -> Model:
    return trained_world(0)[1]


@pytest.fixture
def registry(tmp_path: Path, model: Model) -> Registry:
    registry = Registry(tmp_path / "models")
    registry.promote(registry.add(model))
    return registry


def test_a_loaded_model_estimates_the_same(registry: Registry, model: Model) -> None:
    loaded = registry.load("test")
    script, numbers = known_scripts(trained_world(0)[0])[0], {"epochs": 33.0, "batch_size": 32.0}
    assert loaded.predict(script.vector, numbers, BOTH) == model.predict(script.vector, numbers, BOTH)
    assert loaded.figures == json.loads(json.dumps(model.figures))
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{8}", loaded.version)
    assert registry.current() == loaded.version


def test_networks_load_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "EPOCHS", 3)
    world = World(0, kinds=3, scripts=2)
    examples = world.history(30, world.scripts, both=1.0)
    model = train(examples, ProbeConfig(kind="log+numbers"), encoder="test").model
    registry = Registry(tmp_path)
    loaded = registry.load("test", registry.add(model))
    vector, numbers = examples[0].vector, examples[0].numbers
    assert loaded.predict(vector, numbers, BOTH) == model.predict(vector, numbers, BOTH)


def test_loading_and_estimating_need_neither_torch_nor_pickle(registry: Registry) -> None:
    program = (
        "import sys, pathlib, numpy as np\n"
        "from slurmcast.probe import Registry\n"
        "model = Registry(pathlib.Path(sys.argv[1])).load('test')\n"
        "model.predict(model.territory.vectors[0], {'epochs': 3.0}, {'fast': 1})\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(registry.folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in (registry.folder / str(registry.current())).iterdir()) == [
        "model.json",
        "model.safetensors",
    ]


def test_a_model_of_another_encoder_is_refused(registry: Registry) -> None:
    with pytest.raises(ModelError, match="trained on vectors of test, the encoder is other: run slurmcast train"):
        registry.load("other")


def test_damaged_tensors_are_refused(registry: Registry) -> None:
    path = registry.folder / str(registry.current()) / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(ModelError, match=r"model\.safetensors: sha256 is .* train again"):
        registry.load("test")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "{", "model.json: Expecting"),
        (lambda text: "[]", "model.json: holds no object"),
        (lambda text: text.replace('"near/time": {', '"none": [], "near/time": {'), "AttributeError"),
        (
            lambda text: text.replace(f'"format": {FORMAT}', '"format": 99'),
            f"format is 99, this version reads {FORMAT}",
        ),
        (lambda text: text.replace('"territory"', '"teritory"'), "KeyError: 'territory'"),
    ],
)
def test_damaged_settings_are_refused(registry: Registry, change, message: str) -> None:  # type: ignore[no-untyped-def]
    path = registry.folder / str(registry.current()) / "model.json"
    path.write_text(change(path.read_text()))
    with pytest.raises(ModelError, match=message):
        registry.load("test")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"dimensions": 32', '"dimensions": 768'),
        ('"partitions": {', '"partitions": [], "former": {'),
        ('"batch_size",\n    "epochs"', '"batch_size"'),
        ('"own": []', '"own": ["--clusters"]'),
        ('"figures": {', '"figures": [], "former": {'),
    ],
)
def test_settings_that_give_no_estimate_are_refused(registry: Registry, old: str, new: str) -> None:
    path = registry.folder / str(registry.current()) / "model.json"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(ModelError, match=r"model\.json: .*train again"):
        registry.load("test")


@pytest.mark.parametrize(
    ("place", "damaged"),
    [
        (("powers", "a100"), [0, 0]),
        (("powers", "a100"), [300, 200]),
        (("powers", "a100"), [-300, 200]),
        (("powers", "a100"), [200, math.nan]),
        (("powers", "a100"), [200, math.inf]),
        (("scatter", "near/time"), {"0": -1}),
        (("scatter", "near/time"), {"0": 0}),
        (("scatter", "near/time"), {"program": 1}),
        (("scatter", "near/time"), [1]),
        (("estimator", "recalibrations", "time", "slope"), -1),
        (("estimator", "recalibrations", "time", "slope"), math.nan),
        (("estimator", "recalibrations", "time", "centre"), [1, 2]),
        (("estimator", "recalibrations", "time", "centre"), math.nan),
        (("estimator", "recalibrations", "power", "offsets"), [0]),
        (("estimator", "recalibrations", "power", "offsets"), [0, 0, 0]),
        (("estimator", "recalibrations", "power", "offsets"), [0, math.nan]),
    ],
)
def test_settings_whose_numbers_cannot_be_are_refused(
    registry: Registry, place: tuple[str, ...], damaged: object
) -> None:
    path = registry.folder / str(registry.current()) / "model.json"
    table = json.loads(path.read_text())
    inside = table
    for name in place[:-1]:
        inside = inside[name]
    assert inside[place[-1]] is not None
    inside[place[-1]] = damaged
    path.write_text(json.dumps(table))
    with pytest.raises(ModelError, match=r"model\.json: .*train again"):
        registry.load("test")


def test_missing_files_are_named(registry: Registry) -> None:
    (registry.folder / str(registry.current()) / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"model\.safetensors: No such file"):
        registry.load("test")


def test_an_empty_registry_says_what_to_do(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "none")
    assert (registry.current(), registry.versions()) == (None, [])
    with pytest.raises(ModelError, match="no model yet: run slurmcast train"):
        registry.load("test")


def test_promotion_and_back(registry: Registry) -> None:
    first = registry.current()
    world = World(1)
    second = registry.add(train(world.history(40, world.scripts), ProbeConfig(), encoder="test").model)
    assert registry.current() == first
    registry.promote(second)
    assert registry.current() == second
    registry.promote(str(first))
    assert registry.load("test").version == first
    assert set(registry.versions()) == {first, second}
    with pytest.raises(ModelError, match=r"no version 'nonsense'; there are: \d{8}"):
        registry.promote("nonsense")


@pytest.mark.parametrize("cut", [b'{"at": 17000', b"\xff", 100_000 * b"["], ids=["cut", "bytes", "deep"])
def test_a_line_that_cannot_be_read_costs_no_other(registry: Registry, model: Model, cut: bytes) -> None:
    first = str(registry.current())
    with (registry.folder / "promotions.jsonl").open("ab") as log:
        log.write(cut)
    second, third = (registry.add(replace(model, figures={"number": number})) for number in (2, 3))
    for version in (second, third):
        registry.promote(version)
    assert registry.before() == [first, second]


def test_a_version_that_cannot_be_deleted_keeps_no_other(registry: Registry, model: Model) -> None:
    stuck, gone, *_, last = sorted(registry.add(replace(model, figures={"number": number})) for number in range(5))
    registry.promote(last)
    subprocess.run(["mount", "-t", "tmpfs", "none", registry.folder / stuck], check=True)
    try:
        (registry.folder / stuck / "model.json").touch()
        assert stuck in registry.versions()
        pruned = registry.prune(1)
    finally:
        subprocess.run(["umount", registry.folder / stuck], check=True)
    assert gone in pruned and stuck not in pruned and registry.load("test").version == last


def test_a_draft_left_behind_is_no_version(registry: Registry, model: Model) -> None:
    (registry.folder / ".draft-1").mkdir()
    assert registry.versions() == [registry.current()]
    assert np.isfinite(model.territory.limit)
