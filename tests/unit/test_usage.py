"""What other programs measured: Slurm's ConsumedEnergy with its traps, and jobstats' summaries."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from slurmcast.cluster.usage import READERS, Finished, alone, read
from slurmcast.config import ConfigError, parse
from slurmcast.labels import of_one_kind, runs
from slurmcast.model import Outcome, Reading
from slurmcast.store.records import MOST_KIN, Label, Origin

OUTCOME = Outcome(7, 990, "a100", "a100", 2, "COMPLETED", 1000, 1012, 12.0)
NO_VAL, NO_VAL64 = 0xFFFFFFFE, 0xFFFFFFFFFFFFFFFE


def record(nodes: int, *steps: tuple[Any, int, int | None, int | None], comment: str | None = None) -> Any:
    """An accounting record with steps of (name, nodes, seconds, joules), as pyslurm shows one."""
    made = {
        name: SimpleNamespace(num_nodes=on, elapsed_time=time_s, stats=SimpleNamespace(consumed_energy=joules))
        for name, on, time_s, joules in steps
    }
    return SimpleNamespace(num_nodes=nodes, steps=made, admin_comment=comment)


@pytest.mark.parametrize(
    ("seen", "joules", "why"),
    [
        (record(1, ("batch", 1, 12, 3600), (0, 1, 5, 1500)), 3600, "the step inside is part of the batch step"),
        (record(1, ("batch", 1, 12, 3600), (0, 1, 12, 3590)), 3600, "two that hold the same"),
        (record(1, ("extern", 1, 12, 3600), ("batch", 1, 12, 3550), (0, 1, 5, 1500)), 3600, "three"),
        (record(2, ("batch", 1, 12, 3600), (0, 2, 12, 7200)), 7200, "the batch step is on one node alone"),
        (record(2, ("batch", 1, 12, 3600), ("extern", 2, 12, 7200), (0, 2, 6, 3600)), 7200, "PrologFlags=Contain"),
        (record(2, ("batch", 1, 12, 3600), (0, 2, 6, 3600), (1, 2, 6, 3600)), None, "no step was there all the time"),
        (record(1, (0, 1, 11, 3300)), None, "a second in twelve is missing"),
        (record(1), None, "no steps"),
        (record(1, ("batch", 1, 12, 0)), None, "0 is unknown"),
        (record(1, ("batch", 1, 12, NO_VAL)), None, "NO_VAL is unknown"),
        (record(1, ("batch", 1, 12, NO_VAL64)), None, "NO_VAL64 is unknown"),
        (record(1, ("batch", 1, 12, NO_VAL64), ("extern", 1, 12, 3600)), 3600, "one is known"),
        (record(1, ("batch", 1, None, None)), None, "a step without figures"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_consumed_energy(seen: Any, joules: float | None, why: str) -> None:
    found = READERS["slurm"](Finished(seen, True), OUTCOME)
    if joules is None:
        assert found == OUTCOME, why
    else:
        assert (found.energy_kwh, found.energy_method) == (pytest.approx(joules / 3.6e6), "slurm"), why
    assert READERS["slurm"](Finished(seen, False), OUTCOME) == OUTCOME, "with others on its nodes it is nobody's own"


@pytest.mark.parametrize(
    ("cpus", "nodes", "is_alone"),
    [(32, ["a"], True), (31, ["a"], False), (64, ["a", "b"], True), (40, ["a", "b"], False), (99, ["a", "new"], False)],
)
def test_alone(cpus: int, nodes: list[str], is_alone: bool) -> None:
    assert alone(cpus, nodes, {"a": 32, "b": 32}) is is_alone


def packed(data: bytes) -> str:
    return "JS1:" + base64.b64encode(gzip.compress(data, mtime=0)).decode()


def js1(value: Any) -> str:
    return packed(json.dumps(value).encode())


def node(used: Any, percent: Any) -> dict[str, Any]:
    return {"cpus": 12, "used_memory": 8, "gpu_total_memory": {}, "gpu_used_memory": used, "gpu_utilization": percent}


GIB = 2**30
SUMMARY = {"gpus": 2, "total_time": 12, "nodes": {"n1": node({"0": 3 * GIB, "1": 5 * GIB}, {"0": 90.0, "1": 50})}}
TWO_NODES = {"nodes": {"n1": node({"0": 3 * GIB}, {"0": 90.0}), "n2": node({"0": 7 * GIB}, {"0": 30.0})}}


@pytest.mark.parametrize(
    ("comment", "memory_gb", "utilisation"),
    [
        (js1(SUMMARY), 5, 0.7),
        (js1(TWO_NODES), 7, 0.6),
        (js1({"nodes": {"n1": node({"0": 3 * GIB}, {"0": 90.0})}}), None, None),  # a GPU of two isn't told
        (js1({"nodes": {"n1": node({"0": 1, "1": "5"}, {"0": 90.0, "1": 101})}}), None, None),
        (js1({"nodes": {"n1": node({"0": 1, "1": -5}, [90, 91])}}), None, None),
        (js1({"nodes": {"n1": {"cpus": 12}, "n2": None}}), None, None),  # a job without GPUs
        (js1({"nodes": {"n1": node({"0": 1, "1": 10**400}, {"0": 90.0, "1": float("inf")})}}), None, None),
        (packed(b"[" * 100_000), None, None),
        (js1({"nodes": 7}), None, None),
        (js1([]), None, None),
        (js1(SUMMARY)[:-30], None, None),
        ("JS1:Short", None, None),
        ("JS1:None", None, None),
        (packed(bytes(1 << 24)), None, None),  # grows without measure
        ("a note", None, None),
        (None, None, None),
    ],
)
def test_jobstats(comment: str | None, memory_gb: float | None, utilisation: float | None) -> None:
    found = READERS["jobstats"](Finished(record(1, comment=comment), False), OUTCOME)
    assert (found.gpu_memory_gb, found.gpu_utilisation) == (memory_gb, pytest.approx(utilisation))
    assert found.energy_kwh is None


@pytest.mark.parametrize(
    ("methods", "known"),
    [
        (["counter", "sampled", ""], [True, True, False]),
        (["slurm", "slurm"], [True, True]),
        (["slurm", "counter", "slurm", "sampled"], [False, True, False, True]),
        (["counter", "slurm", ""], [False, True, False]),
    ],
)
def test_labels_of_one_kind(methods: list[str], known: list[bool]) -> None:
    labels = [
        Label(
            "k", "t", Reading("k", "", {}),
            replace(OUTCOME, end_time=n, energy_kwh=1.0 if method else None, energy_method=method),
            Origin(1, "k", "", ""),
        )
        for n, method in enumerate(methods)
    ]  # fmt: skip
    assert [label.outcome.energy_kwh is not None for label in of_one_kind(labels)] == known


@pytest.mark.parametrize(
    ("amount", "counts"), [({}, True), ({"energy_kwh": -1.0}, False), ({"elapsed_s": 1e300}, False)]
)
def test_runs_that_can_not_be_are_no_history(amount: dict[str, float], counts: bool) -> None:
    label = Label("k", "t", Reading("k", "", {}), replace(OUTCOME, **amount), Origin(1, "k", "", ""))
    assert len(runs([label], label.origin)) == counts


def test_history_is_told_from_the_latest_runs_of_its_kin() -> None:
    origin, other = Origin(1, "k", "s", "n"), Origin(2, "k", "s", "n")
    mine = [(replace(OUTCOME, start_time=n, end_time=n + 1, energy_kwh=1.0), origin) for n in range(MOST_KIN + 5)]
    old = replace(mine[0][0], energy_method="slurm")
    later = replace(OUTCOME, start_time=10**6, end_time=10**6 + 1, energy_kwh=1.0, energy_method="slurm")
    labels = [Label("k", "t", Reading("k", "", {}), *one) for one in [(old, origin), *mine[1:], (later, other)]]
    found = runs(labels, origin)
    assert [run.ended for run in found] == list(range(MOST_KIN + 5, 5, -1))
    assert all(run.energy_kwh == 1.0 for run in found), "another user's and older energies of another kind don't matter"


def test_energy_is_of_one_kind() -> None:
    assert parse({"agent": {"usage_from": ["jobstats"]}, "meter": {"nodes": ["a"]}}).agent.usage_from == ("jobstats",)
    with pytest.raises(ConfigError, match="drop one"):
        parse({"agent": {"usage_from": ["slurm"]}, "meter": {"nodes": ["a"]}})
    with pytest.raises(ConfigError, match="usage_from"):
        parse({"agent": {"usage_from": ["ipmi"]}})


def test_what_no_run_can_have_is_not_taken() -> None:
    """A counter that was reset while a step ran: Slurm then shows the difference as it is without a sign."""
    seen = record(1, ("batch", 1, 12, 2**64 - 3600))
    assert read(["slurm"], Finished(seen, alone=True), OUTCOME) == OUTCOME
    assert read(["slurm"], Finished(record(1, ("batch", 1, 12, 3600)), alone=True), OUTCOME).energy_kwh == 0.001
