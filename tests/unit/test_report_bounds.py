"""How much of the daemon reports may take up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmcast.config import Config, FootprintConfig, Paths, ReportConfig
from slurmcast.daemon import report_api
from slurmcast.daemon.footprints import Footprints
from slurmcast.daemon.report_api import MAX_REPORTS, ReportApi
from slurmcast.daemon.requests import Ask, Caller, Refused
from slurmcast.model import Outcome
from slurmcast.store import reports
from slurmcast.store.columns import Runs
from slurmcast.store.store import Store

NOBODY = 4_000_000_000


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ReportApi]:
    monkeypatch.setattr(reports, "CHECK_EVERY", 1)
    paths = Paths(tmp_path, tmp_path, tmp_path)
    prices = tmp_path / "prices.csv"
    prices.write_text("time,price_per_kwh\n0,0.5\n1000,0.5\n")
    store = Store(paths.store, "test")
    store.add_outcomes([Outcome(1, 1, "a100", "a100", 1, "COMPLETED", 2, 902, 900.0, 2.0, user=str(NOBODY))])
    store.close()
    made = ReportApi(Config("test", paths, report=ReportConfig(price_file=prices)), Footprints(FootprintConfig()))
    yield made
    made.close()


def ask(uid: int = 0) -> Ask:
    return Ask(Caller(uid), {"since": "0", "until": "2000"}, None)


def test_prices_come_from_the_file(api: ReportApi) -> None:
    assert asyncio.run(api.get(ask()))["total"]["cost"] == pytest.approx(1.0)


def test_one_takes_too_long(api: ReportApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_api, "LONGEST_S", -1.0)
    with pytest.raises(Refused, match="ask for a shorter time") as refused:
        asyncio.run(api.get(ask()))
    assert refused.value.status == 503


@pytest.mark.parametrize(
    ("uids", "made"), [([NOBODY] * 3, 1), (range(NOBODY, NOBODY + MAX_REPORTS + 2), MAX_REPORTS), ([1, 2, 3], 3)]
)
def test_so_many_at_a_time(api: ReportApi, uids: list[int], made: int) -> None:
    async def all_at_once() -> list[object]:
        return await asyncio.gather(*(api.get(ask(uid)) for uid in uids), return_exceptions=True)

    answers = asyncio.run(all_at_once())
    assert [isinstance(answer, dict) for answer in answers] == [True] * made + [False] * (len(answers) - made)
    assert all(isinstance(answer, Refused) and answer.status == 503 for answer in answers[made:])
    assert isinstance(asyncio.run(api.get(ask(uids[0]))), dict), "there is room again"


def test_a_daemon_that_ends_waits_for_none(api: ReportApi, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = reports.Reports.runs

    def ended_meanwhile(self: reports.Reports, scope: reports.Scope) -> Iterator[Runs]:
        api.close()
        yield from whole(self, scope)

    monkeypatch.setattr(reports.Reports, "runs", ended_meanwhile)
    with pytest.raises(Refused):
        asyncio.run(api.get(ask()))
