"""Every policy by its name: for the commands, the simulator and the agent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from slurmcast.policy.base import Floats, Policy
from slurmcast.policy.conservative import conservative
from slurmcast.policy.easy import Easy
from slurmcast.policy.greedy import Greedy
from slurmcast.policy.lookahead import LONGEST_WAIT_S, PATIENCE, LookAhead
from slurmcast.policy.multifactor import Multifactor
from slurmcast.policy.patient import Patient
from slurmcast.policy.simple import simple
from slurmcast.policy.value import ValueRule


@dataclass(frozen=True)
class Weights:
    """What a policy may weigh by; each takes what it knows."""

    kappa: float | Floats = 0.0
    """Energy against time, in 1/(GPU s kWh): one for all, or an array that broadcasts to the pairs (n, m)."""
    gamma: float = 0.0
    """What a kWh is worth, in s (Greedy)."""
    patience: float = PATIENCE
    """Seconds of waiting for each second of running that the better type saves (LookAhead)."""
    longest_wait_s: float = LONGEST_WAIT_S
    """From when on a job may no longer be passed over (LookAhead)."""


@dataclass(frozen=True)
class Known:
    """A policy that can be asked for."""

    build: Callable[[Weights], Policy]
    summary: str
    knob: Literal["kappa", "gamma", ""] = ""
    """The weight that there is to tune; empty where there is none."""


POLICIES: dict[str, Known] = {
    "simple": Known(lambda _: simple, "the paper's Simple rule: first come, first served, the most powerful type"),
    "greedy": Known(lambda w: Greedy(1.0, w.gamma), "Algorithm 1: by submission, each on its cheapest type", "gamma"),
    "value": Known(lambda w: ValueRule(w.kappa), "Algorithm 2: all pairs by falling value", "kappa"),
    "easy": Known(lambda _: Easy(), "EASY backfilling by the users' time limits: what most sites have"),
    "easy_predicted": Known(lambda _: Easy("high"), "EASY by the predicted 0.9 quantile of the running time"),
    "easy_median": Known(lambda _: Easy("median"), "EASY by the predicted median"),
    "conservative": Known(lambda _: conservative, "conservative backfilling by the users' time limits"),
    "multifactor": Known(lambda _: Multifactor(), "Slurm's priority by age and fairshare, conservative backfilling"),
    "patient": Known(lambda w: Patient(w.kappa), "value, but no job where its value is negative", "kappa"),
    "lookahead": Known(
        lambda w: LookAhead(w.kappa, w.patience, w.longest_wait_s),
        "value, but a job waits for a better type that comes free soon, and none is passed over for ever",
        "kappa",
    ),
}


def known(name: str) -> Known:
    """The policy of that name. Raises ValueError with the names that there are."""
    if name not in POLICIES:
        raise ValueError(f"there is no policy {name!r}; there are: {', '.join(POLICIES)}")
    return POLICIES[name]


def names(text: str) -> tuple[str, ...]:
    """Policies' names with commas between them, each once. Raises ValueError with the names that there are."""
    found = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in found:
        known(name)
    return found


def named(
    name: str,
    kappa: float | Floats = 0.0,
    gamma: float = 0.0,
    patience: float = PATIENCE,
    longest_wait_s: float = LONGEST_WAIT_S,
) -> Policy:
    """The policy of that name with its weights. Raises ValueError with the names that there are."""
    return known(name).build(Weights(kappa, gamma, patience, longest_wait_s))
