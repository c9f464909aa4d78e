"""What the outbox may hold: the oldest refused records make room, those that wait only with a loud word."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from slurmcast.config import ConfigError, parse
from slurmcast.meter.files import Outbox
from tests.unit.test_meter_report import RECORD

SIZE = 700
"""About that of a record, in bytes."""
DAY_S = 86400.0


def lie(folder: Path, *names: str, days_ago: float = 0.0) -> None:
    """Put files there, each older than the next."""
    for n, name in enumerate(names):
        path = folder / name
        path.write_bytes(b"x" * SIZE)
        at = time.time() - days_ago * DAY_S - 1000 + n
        os.utime(path, (at, at))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("records", "refused_left", "waiting_left", "dropped"),
    [
        (9.5, ["r1", "r2", "r3"], ["w1", "w2", "w3"], 0),
        (5.5, ["r2", "r3"], ["w1", "w2", "w3"], 0),
        (3.5, [], ["w1", "w2", "w3"], 0),
        (2.5, [], ["w2", "w3"], 1),
        (0.5, [], [], 3),
    ],
)
def test_the_oldest_refused_make_room_first(
    records: float,
    refused_left: list[str],
    waiting_left: list[str],
    dropped: int,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    outbox = Outbox(tmp_path, most_bytes=records * SIZE)
    lie(outbox.refused, "r1", "r2", "r3")
    lie(outbox.folder, "w1", "w2", "w3")
    outbox.put(RECORD)
    assert names(outbox.refused) == refused_left
    assert names(outbox.folder) == sorted([RECORD.name, *waiting_left]), "the new one is always there"
    assert caplog.text.count("WAS NEVER REPORTED") == dropped
    assert caplog.text.count("ERROR") == dropped


def test_refused_records_are_kept_for_some_days(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, refused_s=30 * DAY_S)
    lie(outbox.refused, "older", days_ago=31)
    lie(outbox.refused, "newer", days_ago=29)
    lie(outbox.folder, "waiting", days_ago=99)
    outbox.put(RECORD)
    assert names(outbox.refused) == ["newer"]
    assert names(outbox.folder) == sorted([RECORD.name, "waiting"]), "what waits is never too old"


def test_what_made_room_while_it_was_to_be_sent_is_passed_over(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path)
    outbox.put(RECORD)
    outbox.put(replace(RECORD, job_id=8))
    os.utime(outbox.folder / RECORD.name, (1, 1))
    sent = outbox.waiting(10)
    first, _ = next(sent)
    for path in outbox.folder.iterdir():
        path.unlink()
    assert first.name == RECORD.name and list(sent) == []
    outbox.refuse(first)
    assert names(outbox.refused) == []


def test_the_same_record_twice_costs_nobody_his_place(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, most_bytes=2 * SIZE)
    outbox.put(RECORD)
    outbox.put(replace(RECORD, job_id=8))
    before = names(outbox.folder)
    outbox.put(RECORD)
    assert names(outbox.folder) == before


@pytest.mark.parametrize("settings", [{"keep_mb": 0}, {"keep_days": -1}])
def test_settings_that_make_no_sense(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="keep_"):
        parse({"meter": settings})
