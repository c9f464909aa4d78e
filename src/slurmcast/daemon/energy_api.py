"""The nodes' request: here is the energy that was measured (docs/meter.md)."""

from __future__ import annotations

import logging
from collections import Counter
from fnmatch import fnmatchcase

from slurmcast.codec import CodecError, from_json
from slurmcast.config import Config
from slurmcast.daemon.desk import Desk
from slurmcast.daemon.requests import Answer, Ask, Refused
from slurmcast.meter.record import EnergyRecord

log = logging.getLogger("slurmcast.energy")

MAX_RECORDS = 200
"""Records in one request."""


class EnergyApi:
    """Takes records from those who may measure: whoever else reports is refused, and the log names him."""

    def __init__(self, config: Config, desk: Desk) -> None:
        self._config, self._desk = config, desk
        self.results: Counter[str] = Counter({"new": 0, "known": 0, "refused": 0})
        """Records by what became of them, since the daemon started."""

    async def records(self, ask: Ask) -> Answer:
        """Store records, each once. Answers how many were new, and why which (by their place) will never be taken."""
        if ask.caller.uid != 0 and ask.caller.name not in self._config.meter.users:
            log.warning("a record of energy from user %s was refused: not in meter.users", ask.caller.name)
            self.results["refused"] += 1
            raise Refused(403, f"user {ask.caller.name} may not report energy (meter.users)")
        told = ask.field("records", list)
        if len(told) > MAX_RECORDS:
            raise Refused(413, f"at most {MAX_RECORDS} records at a time")
        good, refused = [], {}
        for place, value in enumerate(told):
            try:
                good.append(self._checked(value))
            except ValueError as error:
                refused[str(place)] = str(error)
                log.warning("a record of energy from user %s was refused: %s", ask.caller.name, error)
        new = await self._desk.do(lambda store: store.add_energy(good))
        self.results.update(new=new, known=len(good) - new, refused=len(refused))
        return {"new": new, "refused": refused}

    async def of_runs(self, ask: Ask) -> Answer:
        """The energy of each run, given as [job id, submit time, start time], where meters measured all of it."""
        runs = [(int(job_id), int(submitted), int(started)) for job_id, submitted, started in ask.field("runs", list)]
        return {"energy_kwh": await self._desk.do(lambda store: store.energies(runs))}

    def _checked(self, value: object) -> EnergyRecord:
        try:
            record = from_json(EnergyRecord, value)
        except CodecError as error:
            raise ValueError(f"it can't be understood: {error}") from None
        if record.fault:
            raise ValueError(record.fault)
        if record.cluster != self._config.cluster:
            raise ValueError(f"it is of cluster {record.cluster!r}, not {self._config.cluster!r}")
        if not any(fnmatchcase(record.node, pattern) for pattern in self._config.meter.nodes):
            raise ValueError(f"node {record.node!r} isn't in meter.nodes")
        return record
