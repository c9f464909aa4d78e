"""Whether it is time to train. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slurmcast.config import TrainConfig

SHOWN = 2
"""Alarms that are put into words; most come of one cause."""


@dataclass(frozen=True, slots=True)
class Due:
    """The answer, and the sentence that says why or why not."""

    now: bool
    reason: str


def due(
    config: TrainConfig, labels: int, learned: int | None, tried: int | None, alarms: Sequence[str], lost: bool = False
) -> Due:
    """Train where no model is in use, where estimates have drifted, or where enough jobs have finished.

    ``labels``: finished jobs that could be learned from now; ``learned``: those that the model in use has learned from,
    None: there is none. ``tried``: what ``labels`` was at the last training, whatever came of it, None: there was none.
    A training that came to nothing is tried again only when more jobs have finished: with the same ones it would end in
    the same way. ``alarms``: what has drifted, in words. ``lost``: there is no model because the one that was trained
    last, and put to use, can't be used any more.
    """
    since_model, since_try = labels - (learned or 0), labels - (tried or 0)
    wishes: list[tuple[str, int]] = []
    if lost:
        wishes.append(("the model can't be used any more: damaged, or of another release or encoder", 0))
    elif learned is None:
        wishes.append(("no model is in use", config.least_new))
    if alarms:
        wishes.append((f"estimates have drifted: {_listed(alarms)}", config.least_new))
    if learned is not None and since_model >= config.new_labels:
        wishes.append((f"{since_model} jobs have finished since the model in use was trained", config.new_labels))
    for reason, enough in wishes:
        if since_try >= enough:
            return Due(True, reason)
    if wishes:
        reason, enough = wishes[0]
        return Due(False, f"{reason}, but it takes {enough} finished jobs since the last training: {since_try} so far")
    return Due(
        False, f"no drift, and {max(since_model, 0)} of {config.new_labels} jobs have finished since the last training"
    )


def _listed(alarms: Sequence[str]) -> str:
    more = len(alarms) - SHOWN
    return "; ".join(alarms[:SHOWN]) + (f"; and {more} more tests say so" if more > 0 else "")
