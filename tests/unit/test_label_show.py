"""What labelling says to people: amounts, ends of runs, the answer to its question."""

from __future__ import annotations

from typing import Any

import click
import pytest

from slurmcast.label.main import spendable
from slurmcast.label.show import amount, limits, results
from slurmcast.label.words import Budget, Cost


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (Budget(0.370833), "0.371 GPU h"),
        (Budget(0.00333333, 12.0), "0.00333 GPU h and 12 kWh"),
        (Budget(12345.6), "12346 GPU h"),
    ],
)
def test_limits(budget: Budget, said: str) -> None:
    assert limits(budget) == said


def test_amounts_have_no_exponent() -> None:
    assert amount(Cost(1234.5, 2345.6)) == "1234 GPU h, 2346 kWh"


@pytest.mark.parametrize(
    ("answer", "budget"),
    [("4", Budget(gpu_hours=4)), (" 2.5 kWh", Budget(kwh=2.5)), ("2KWH", Budget(kwh=2)), ("0.5", Budget(0.5))],
)
def test_a_budget_is_hours_or_an_energy(answer: str, budget: Budget) -> None:
    assert spendable(answer) == budget


@pytest.mark.parametrize("answer", ["", "0", "-1 kWh", "nan", "kWh", "3 J", "inf kWh"])
def test_no_budget(answer: str) -> None:
    with pytest.raises(click.BadParameter):
        spendable(answer)


@pytest.mark.parametrize(
    ("start", "nodes", "said"),
    [
        (0, "", "a run was cancelled before it began. See sacct -j 332_1\n"),
        (1000, "n1", "a run was cancelled on n1. See /logs/*-332_1.out, and sacct -j 332_1\n"),
    ],
)
def test_output_is_named_where_there_is_some(
    capsys: pytest.CaptureFixture[str], start: int, nodes: str, said: str
) -> None:
    facts = {"array": 332, "task": 1, "start": start, "nodes": nodes}
    cell: dict[str, Any] = {"script": "/s/a.sh", "arguments": [], "partition": "p", "stage": "failed", "runs": []}
    cell |= {"difference": None, "energy_kwh": None, "time_s": None, "accepted": False, "resolved": False}
    cell |= {"reason": "a run was cancelled", "failed_run": facts}
    results({"cells": [cell], "logs": "/logs", "spent": {"gpu_hours": 0.0, "kwh": None}, "budget": {"gpu_hours": 1.0}})
    assert f"a.sh on p: {said}" in capsys.readouterr().out
