"""What the loop makes of trouble: pauses that grow up to a bound, and few words in the log."""

from __future__ import annotations

import logging

import pytest

from slurmcast.agent.loop import Trouble


@pytest.mark.parametrize(
    ("longest_s", "pauses_s"),
    [(30.0, [1, 2, 4, 8, 16, 30, 30]), (240.0, [1, 2, 4, 8, 16, 32, 64, 128, 240]), (0.2, [0.2, 0.2])],
)
def test_pauses_grow_and_are_bounded(longest_s: float, pauses_s: list[float]) -> None:
    trouble = Trouble("work", longest_s)
    assert [trouble.met("away") for _ in pauses_s] == pauses_s
    for _ in range(5000):  # months
        assert trouble.met("away") == pauses_s[-1]
    trouble.over()
    assert trouble.met("away") == pauses_s[0]


def test_the_log_has_each_problem_once_and_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    trouble = Trouble("work", 30.0)
    trouble.over()
    for problem in ("the daemon is away",) * 2 + (OSError("the disk is full"),) * 2:
        trouble.met(problem)
    trouble.over()
    trouble.over()
    trouble.met("the daemon is away")
    assert [record.message for record in caplog.records] == [
        "work fails, trying again: the daemon is away",
        "work fails, trying again: the disk is full",
        "work goes on after 4 tries",
        "work fails, trying again: the daemon is away",
    ]
