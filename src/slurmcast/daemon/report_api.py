"""``slurmcast report``'s request: figures of finished runs, one's own or, for operators, everybody's."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from slurmcast.config import Config
from slurmcast.daemon.footprints import Footprints
from slurmcast.daemon.requests import Answer, Ask, Refused
from slurmcast.drift.trainings import trainings
from slurmcast.drift.watch import last_look
from slurmcast.model import DAY_S
from slurmcast.report.learning import learning
from slurmcast.report.rates import Rates
from slurmcast.report.summary import summary
from slurmcast.series import PRICE
from slurmcast.series_file import SeriesFile
from slurmcast.store.database import StoreError
from slurmcast.store.reports import Reports, Scope

LONGEST_S = 50.0
"""For one report, with its wait for others; the TCP door closes connections after 60 s."""
MAX_REPORTS = 8
"""That may wait at a time; one thread makes them, so nothing else waits for it."""
MAX_OF_ONE_USER = 1
DEFAULT_SPAN_S = 28 * DAY_S
FARTHEST_S = 5e10
"""From 1970, some 1584 years: a run that is said to have ended beyond that is in no report, having no date."""


class ReportApi:
    """Reads the store by a connection of its own, which can't write, in a thread of its own."""

    def __init__(self, config: Config, footprints: Footprints) -> None:
        self._config, self._footprints = config, footprints
        path = config.report.price_file
        otherwise = "report.price_per_kwh, where given, stands in"
        self._prices = SeriesFile(path, "report.price_file", otherwise, (PRICE,)) if path is not None else None
        self._thread = ThreadPoolExecutor(1, "report")
        self._asking: list[int] = []
        self._closed = threading.Event()

    async def get(self, ask: Ask) -> Answer:
        """The report of the query's ``since``, ``until`` (Unix seconds), ``user`` and ``account``."""
        scope, end = self._scope(ask), time.monotonic() + LONGEST_S
        uid = ask.caller.uid
        if len(self._asking) >= MAX_REPORTS or self._asking.count(uid) >= MAX_OF_ONE_USER:
            raise Refused(503, "a report is being made already; try again in a few seconds")
        self._asking.append(uid)
        try:
            figures = await asyncio.get_running_loop().run_in_executor(self._thread, self._made, scope, end)
        finally:
            self._asking.remove(uid)
        return {
            "cluster": self._config.cluster,
            "since": scope.since,
            "until": scope.until,
            "user": scope.user,
            "account": scope.account,
            **figures,
        }

    def _scope(self, ask: Ask) -> Scope:
        until = _time(ask, "until", time.time())
        since = _time(ask, "since", until - DEFAULT_SPAN_S)
        if since >= until:
            raise Refused(400, "since must be before until")
        user, account = ask.query.get("user"), ask.query.get("account")
        if ask.caller.is_operator(self._config.daemon):
            return Scope(since, until, user, account)
        if user not in (None, ask.caller.name):  # in the same words for a user that isn't there
            raise Refused(403, "only operators may see other users' runs; ask your admin")
        return Scope(since, until, ask.caller.name, account, ask.caller.uid)

    def _made(self, scope: Scope, end: float) -> dict[str, Any]:
        def ended() -> bool:
            return self._closed.is_set() or time.monotonic() > end

        reports = Reports(self._config.paths.store, self._config.cluster)
        try:
            reports.stop_when(ended)
            return {**summary(reports.runs(scope), self._rates()), "learning": self._learned(scope)}
        except StoreError:
            if ended():
                raise Refused(503, "the report takes too long; ask for a shorter time (--since, --until)") from None
            raise
        finally:
            reports.close()

    def _learned(self, scope: Scope) -> Answer | None:
        """How models did on everybody's jobs: for operators."""
        if scope.uid is not None:
            return None
        folder = self._config.paths.models
        return learning(trainings(folder), last_look(folder), scope.since, scope.until)

    def _rates(self) -> Rates:
        config = self._config.report
        prices = self._prices.series() if self._prices is not None else None
        return Rates(self._footprints.site(), config.price_per_kwh, prices, config.currency)

    def close(self) -> None:
        """Give up the report that is being made."""
        self._closed.set()
        self._thread.shutdown(wait=False, cancel_futures=True)


def _time(ask: Ask, name: str, default: float) -> float:
    text = ask.query.get(name)
    if text is None:
        return default
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{name} is not a finite number")
    return min(max(value, -FARTHEST_S), FARTHEST_S)
