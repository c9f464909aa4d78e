"""Published figures of GPU types: found under whatever a site calls them, and what isn't published is absent."""

from __future__ import annotations

import math
import tomllib
from importlib.resources import files

import pytest

from slurmcast.probe import gpus


@pytest.mark.parametrize(
    ("name", "tdp_w", "speed"),
    [
        ("nvidia_a100-sxm4-80gb", 400, 1.238),
        ("A100-PCIE-40GB", 250, 1.0),
        ("a100_80gb_pcie", 300, 1.182),
        ("rtx_a6000", 300, 0.622),
        ("a6000", 300, 0.622),
        ("nvidia_rtx_6000_ada_generation", 300, 0.827),
        ("quadro_rtx_6000", 260, 0.273),
        ("tesla_v100-sxm2-16gb", 300, 0.363),
        ("nvidia_h100_80gb_hbm3", math.sqrt(350 * 700), math.sqrt(1.47 * 2.06)),
        ("p100", 250, 0.178),
        ("geforce_rtx_3090", 350, 0.533),
    ],
)
def test_a_type_is_found_however_it_is_spelled(name: str, tdp_w: float, speed: float) -> None:
    found = gpus.find(name)
    assert found is not None and found.speed is not None
    assert (found.tdp_w, found.speed) == (pytest.approx(tdp_w), pytest.approx(speed))


@pytest.mark.parametrize("name", ["gpu", "", "a100_1g.5gb", "1g.10gb", "nvidia_a100_mig", "mi250", "a1000", "rtx"])
def test_what_is_not_published_is_not_found(name: str) -> None:
    assert gpus.find(name) is None


def test_a_name_of_several_cards_is_their_mean_and_less_certain() -> None:
    whole, cards = gpus.find("a100"), [gpus.find(f"a100_{c}") for c in ("pcie_40gb", "pcie_80gb", "sxm4_80gb")]
    assert whole is not None and whole.speed is not None
    speeds = [card.speed for card in cards if card is not None and card.speed]
    assert whole.speed == pytest.approx(math.prod(speeds) ** (1 / 3))
    assert min(speeds) < whole.speed < max(speeds)
    assert whole.spread > min(card.spread for card in cards if card is not None)


def test_a_ratio_is_the_inverse_of_that_back() -> None:
    there, back = gpus.ratio("a100", "a6000"), gpus.ratio("a6000", "a100")
    assert there is not None and back is not None
    assert there.log == pytest.approx(-back.log)
    assert there.log > 0 and there.spread == back.spread > 0


def test_the_same_type_needs_no_table() -> None:
    assert gpus.ratio("homemade", "homemade") == gpus.Ratio(0.0, 0.0)
    assert gpus.ratio("homemade", "a100") is None
    assert gpus.ratio("t4", "a100") is None  # power is published, speed isn't


def test_for_want_of_a_number_no_type_is_faster() -> None:
    found = gpus.longer("a100", {"a": "a100", "b": "v100", "c": "h100", "d": "homemade", "e": "t4"})
    assert found["c"].log < found["a"].log == 0 < found["b"].log
    assert found["d"] == found["e"] == gpus.Ratio(found["b"].log, gpus.UNPUBLISHED_SPREAD)
    assert gpus.longer("v100", {"c": "h100", "d": "homemade"})["d"].log == 0


def test_the_table_is_sound() -> None:
    table = tomllib.loads(files("slurmcast.probe").joinpath("gpus.toml").read_text())["gpu"]
    seen = set()
    for card in table:
        assert set(card) <= {"names", "tdp_w", "speed", "spread", "share", "marks"}
        assert 50 < card["tdp_w"] < 1500 and 0 < card.get("speed", 1) < 10 and 0 < card.get("share", 0.5) < 1
        assert ("speed" in card) == ("spread" in card)
        for name in card["names"]:
            entry = (name, *sorted(card.get("marks", [])))
            assert entry not in seen
            seen.add(entry)
            assert gpus.find(" ".join(entry)) is not None
