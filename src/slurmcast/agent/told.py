"""What the daemon is told of a plan: decisions whose substance is new, and everybody's place in the order. Pure."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import replace
from typing import Any

from slurmcast.agent.decisions import Decisions
from slurmcast.codec import to_json

Told = dict[int, Hashable]
"""Job id -> the mark of the decision that was told last (:meth:`Decisions.marks`)."""


def untold(decisions: Decisions, told: Mapping[int, Hashable], made: Collection[int]) -> tuple[dict[str, Any], Told]:
    """The body of ``POST /v1/agent/decisions``, and what the daemon has once it took that.

    ``made``: ids of the jobs that Slurm changed, whose decisions are told in any case. The order is told whole: it is
    two numbers for each job, nearly all of them others when one job arrives.
    """
    now = dict(zip(decisions.job_ids, decisions.marks(), strict=True))
    new = [n for n, (job_id, mark) in enumerate(now.items()) if job_id in made or told.get(job_id) != mark]
    news = [to_json(replace(decision, changed=decision.job_id in made)) for decision in decisions.of(new)]
    return {"decisions": news, "lines": decisions.lines()}, now
