"""What is published about GPU types: relative training speed and power (``gpus.toml``, with its sources)."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from statistics import fmean, pstdev

SHARE = 0.563
"""Mean power while training as a share of the power limit, for types where it wasn't measured: the mean over the four
types where it was (Zeus, see ``gpus.toml``)."""
SHARE_SPREAD = 0.56
"""Standard deviation of a job's logarithmic share around its type's mean: 0.42 to 0.70 between the six workloads of
Zeus, by type; the mean over the four."""
LEAST_SPREAD = 0.3
"""What the logarithmic ratio between two types spreads at least from job to job. Tables of jobs that keep the GPU busy
say less (0.06 for the RTX A6000 next to the A100); in Zeus, where some jobs wait for the host, it is 0.27 to 0.32."""
UNPUBLISHED_SPREAD = 0.7
"""The same of a ratio of speeds that isn't published: about as far as the types of the table are apart."""
_NO_MODEL = frozenset({"nvidia", "tesla", "quadro", "geforce", "gpu", "generation", "hbm2", "hbm2e", "hbm3"})
_FORM = re.compile(r"(sxm|pcie)\d?")
_MEMORY = re.compile(r"(\d+)gb?")
_PART = re.compile(r"\d+g\.\d+gb|mig")


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU type; what isn't published is None."""

    tdp_w: float
    """The maker's power limit for one GPU in W."""
    share: float | None = None
    """Mean power while training as a share of that."""
    speed: float | None = None
    """Training speed next to one A100 40 GB PCIe."""
    spread: float = 0.0
    """Standard deviation of the speed's logarithm between jobs."""

    @property
    def power_w(self) -> float:
        """Mean power of one GPU while training, in W."""
        return self.tdp_w * (SHARE if self.share is None else self.share)


@dataclass(frozen=True, slots=True)
class Ratio:
    """Logarithm of how much longer a job runs on one type than on another, and its standard deviation between jobs."""

    log: float
    spread: float


def find(gpu_type: str) -> Gpu | None:
    """The published figures of ``gpu_type``, however a site spells it (``a100``, ``nvidia_a100-sxm4-80gb``).

    A name that fits several cards (``a100``: three) gives their geometric means, with a wider spread. None for a type
    that isn't in the table and for a part of a GPU (``1g.5gb``).
    """
    name = gpu_type.lower()
    if _PART.search(name):
        return None
    words = [word for word in re.split(r"[^a-z0-9]+", name) if word and word not in _NO_MODEL]
    marks = {mark for word in words if (mark := _mark(word))}
    model = "".join(word for word in words if not _mark(word))
    cards = [(card, own) for names, own, card in _table() if model in names]
    exact = [card for card, own in cards if marks <= own]
    found = exact or [card for card, _ in cards]
    return _merged(found) if found else None


def ratio(from_type: str, to_type: str) -> Ratio | None:
    """How much longer a job runs on ``to_type`` than on ``from_type``; None where that isn't published."""
    if from_type == to_type:
        return Ratio(0.0, 0.0)
    a, b = find(from_type), find(to_type)
    if a is None or b is None or a.speed is None or b.speed is None:
        return None
    return Ratio(math.log(a.speed / b.speed), max(math.hypot(a.spread, b.spread), LEAST_SPREAD))


def longer(from_type: str, types: Mapping[str, str]) -> dict[str, Ratio]:
    """How much longer a job runs on each partition (GPU type by partition) than on ``from_type``.

    A type without a published speed counts as slow as the slowest of the others, with a wide spread: no partition looks
    better for want of a number.
    """
    known = {name: found for name, gpu_type in types.items() if (found := ratio(from_type, gpu_type)) is not None}
    slowest = max((found.log for found in known.values()), default=0.0)
    return {name: known.get(name, Ratio(max(slowest, 0.0), UNPUBLISHED_SPREAD)) for name in types}


def _mark(word: str) -> str:
    """``sxm``, ``pcie`` or the memory (``80gb``) that a word of a name stands for; empty: it is part of the model."""
    if match := _FORM.fullmatch(word):
        return match[1]
    match = _MEMORY.fullmatch(word)
    return f"{match[1]}gb" if match else ""


def _merged(cards: Sequence[Gpu]) -> Gpu:
    shares = [card.share for card in cards if card.share is not None]
    known = [card for card in cards if card.speed is not None]
    logs = [math.log(card.speed) for card in known if card.speed]
    return Gpu(
        tdp_w=math.exp(fmean(math.log(card.tdp_w) for card in cards)),
        share=fmean(shares) if shares else None,
        speed=math.exp(fmean(logs)) if logs else None,
        spread=math.hypot(fmean(card.spread for card in known), pstdev(logs)) if logs else 0.0,
    )


@cache
def _table() -> tuple[tuple[frozenset[str], frozenset[str], Gpu], ...]:
    """Names, marks and figures of each card."""
    text = files("slurmcast.probe").joinpath("gpus.toml").read_text(encoding="utf-8")
    return tuple(
        (
            frozenset(card["names"]),
            frozenset(card.get("marks", [])),
            Gpu(card["tdp_w"], card.get("share"), card.get("speed"), card.get("spread", 0.0)),
        )
        for card in tomllib.loads(text)["gpu"]
    )
