"""Kappa as it is set now: by the command, else by the configuration, in general, for partitions and for QOS."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from slurmcast.codec import to_json
from slurmcast.config import MOST_KAPPA, Config
from slurmcast.daemon.desk import Desk
from slurmcast.daemon.news import News
from slurmcast.daemon.requests import Answer, Ask, Refused
from slurmcast.model import Job
from slurmcast.policy.kappa import Kappas
from slurmcast.store.store import KappaSetting, Store

GENERAL = ("", "")
"""The scope (partition, QOS) of the kappa that holds where no other does."""
LONGEST_NAME = 256
"""Characters of a QOS. Slurm isn't asked which there are; it keeps their names in lower case."""
HISTORY = 100
"""How many settings ``slurmcast kappa --history`` shows."""


def kappas(store: Store, config: Config) -> Kappas:
    """What holds now."""
    known = _settings(store, config)
    return Kappas(
        known[GENERAL].value or 0.0,
        {partition: s.value for (partition, _), s in known.items() if partition and s.value is not None},
        {qos: s.value for (_, qos), s in known.items() if qos and s.value is not None},
    )


def _settings(store: Store, config: Config) -> dict[tuple[str, str], KappaSetting]:
    """By scope (partition, QOS), the general one first: what was set last, else the configuration's, without a name."""
    given = {GENERAL: config.agent.kappa}
    given |= {(part.name, ""): part.kappa for part in config.partition if part.kappa is not None}
    given |= {("", qos.name.lower()): qos.kappa for qos in config.qos}
    known = {scope: KappaSetting(*scope, value, 0.0, "") for scope, value in given.items()}
    return known | {(s.partition, s.qos): s for s in store.kappas() if s.value is not None}


class KappaApi:
    """The requests about kappa."""

    def __init__(self, config: Config, desk: Desk, news: News, pending: Callable[[], Iterable[Job]]) -> None:
        """``pending``: the jobs that the agent saw last, asked for in the store's thread."""
        self._config, self._desk, self._news, self._pending = config, desk, news, pending

    async def get(self, ask: Ask) -> Answer:
        """The general kappa and the others, or, for ``partition`` and ``qos``, the one that holds for such a job."""
        partition, qos = ask.query.get("partition", ""), ask.query.get("qos", "").lower()
        self._check(partition)
        return await self._desk.do(lambda store: self._answer(store, partition, qos))

    async def put(self, ask: Ask) -> Answer:
        """Set kappa in general, for ``partition`` or for ``qos``; null goes back to the configuration. For a QOS the
        answer counts the pending jobs that have it: with none the name may be a slip."""
        if not ask.caller.is_operator(self._config.daemon):
            raise Refused(403, "only operators may set kappa; ask your admin")
        value = None if isinstance(ask.body, dict) and ask.body.get("kappa", 0) is None else ask.field("kappa", float)
        partition, qos = ask.field("partition", str, ""), ask.field("qos", str, "").lower()
        if value is not None and not 0 <= value <= MOST_KAPPA:
            raise Refused(400, f"kappa = {value}: must be a number from 0 to {MOST_KAPPA:g}")
        if partition and qos:
            raise Refused(400, "kappa is set for a partition or for a QOS, not for both together")
        if not qos.isprintable() or len(qos) > LONGEST_NAME:
            raise Refused(400, f"qos: must be a name of at most {LONGEST_NAME} characters")
        self._check(partition)
        setting = KappaSetting(partition, qos, value, time.time(), ask.caller.name)
        await self._desk.do(lambda store: store.set_kappa(setting))
        self._news.bump()
        answer = await self._desk.do(lambda store: self._answer(store, partition, qos))
        count = await self._desk.do(lambda _: sum(job.qos == qos for job in self._pending()))
        return answer | ({"pending_jobs": count} if qos else {})

    async def history(self, _: Ask) -> Answer:
        """Who set what when, the newest first; a null ``kappa`` went back to the configuration."""
        settings = await self._desk.do(lambda store: store.kappa_history(HISTORY))
        return {"settings": [_shown(setting) for setting in settings]}

    def _check(self, partition: str) -> None:
        names = [part.name for part in self._config.partition]
        if partition and partition not in names:
            raise Refused(400, f"slurmcast manages no partition {partition}; it manages {', '.join(names) or 'none'}")

    def _answer(self, store: Store, partition: str, qos: str) -> Answer:
        known = _settings(store, self._config)
        if partition or qos:
            own = [scope for scope in (("", qos), (partition, "")) if scope != GENERAL and scope in known]
            return _shown(known[own[0] if own else GENERAL])
        others = sorted(scope for scope in known if scope != GENERAL)
        return _shown(known[GENERAL]) | {"others": [_shown(known[scope]) for scope in others]}


def _shown(setting: KappaSetting) -> dict[str, Any]:
    record: dict[str, Any] = to_json(setting)
    return {
        "kappa": record["value"],
        "partition": record["partition"] or None,
        "qos": record["qos"] or None,
        "since": record["at"] or None,
        "by": record["by"] or None,
    }
