"""Domain objects survive JSON; what doesn't fit is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slurmcast.codec import CodecError, from_json, to_json
from slurmcast.model import Decision, Estimate, GpuRequest, Interval, Job, May, Partition, Source, Value, Verdict

OBJECTS: list[Any] = [
    Estimate("a100", 2, Interval(1.0, 2.0, 3.0), None, Source.PROBE),
    Job(1, "alice", 1000, "x", "PENDING", "Resources", ("a100", "a6000"), 5, gpus=GpuRequest(per_node=1, type="a100")),
    Partition("a100", "a100", allow_accounts=frozenset({"b", "a"})),
    Decision(
        1, 5, 7.5, "a100", "why", 0, 10, None, (Verdict("a100", May.MOVE, "ok"),), (Value("a100", 1, 2, None, 0, 3),)
    ),
]


@pytest.mark.parametrize("value", OBJECTS, ids=lambda value: type(value).__name__)
def test_round_trip(value: Any) -> None:
    assert from_json(type(value), json.loads(json.dumps(to_json(value)))) == value


def test_newer_peers_may_send_more() -> None:
    assert from_json(Interval, {"p10": 1, "p50": 2, "p90": 3, "p99": 4}) == Interval(1.0, 2.0, 3.0)


@pytest.mark.parametrize(
    ("cls", "value", "where"),
    [
        (Interval, {"p10": 1, "p50": 2}, "Interval.p90: missing"),
        (Interval, {"p10": "x", "p50": 2, "p90": 3}, "Interval.p10"),
        (Interval, [], "expected an object"),
        (Verdict, {"partition": "a", "may": "perhaps", "reason": ""}, "Verdict.may"),
        (GpuRequest, {"per_node": True}, "GpuRequest.per_node"),
        (
            Estimate,
            {"partition": "a", "gpus": 1, "time_s": {"p10": 1}, "energy_kwh": None, "source": "probe"},
            "time_s.p50",
        ),
    ],
)
def test_errors_name_the_field(cls: type, value: Any, where: str) -> None:
    with pytest.raises(CodecError, match=where.replace(".", r"\.")):
        from_json(cls, value)
