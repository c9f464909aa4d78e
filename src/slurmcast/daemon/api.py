"""The requests of docs/architecture.md, independent of how they came in: ``dispatch(caller, method, path, body)``."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs, urlsplit

from slurmcast import __version__
from slurmcast.client import ENVIRONMENT
from slurmcast.codec import CodecError, to_json
from slurmcast.config import Config
from slurmcast.daemon import views
from slurmcast.daemon.agent_api import AgentApi
from slurmcast.daemon.capture_api import CaptureApi, checked_sources
from slurmcast.daemon.desk import Desk
from slurmcast.daemon.energy_api import EnergyApi
from slurmcast.daemon.estimator import Estimator
from slurmcast.daemon.footprints import Footprints
from slurmcast.daemon.import_api import ImportApi
from slurmcast.daemon.intake import Intake
from slurmcast.daemon.kappa_api import KappaApi
from slurmcast.daemon.news import News
from slurmcast.daemon.report_api import ReportApi
from slurmcast.daemon.requests import Answer, Ask, Caller, Refused
from slurmcast.daemon.runs_api import RunsApi
from slurmcast.drift.metrics import metrics as drift_metrics
from slurmcast.encoder.base import EncoderError
from slurmcast.labels import runs
from slurmcast.model import Reading, Submission
from slurmcast.prometheus import metric
from slurmcast.script.directives import why_refused
from slurmcast.store.store import Origin, Store

MAX_PREDICTIONS = 8
"""Scripts that may wait for ``predict`` at a time; it has a thread of its own, so submitted jobs never wait for it."""
MAX_OF_ONE_USER = 4
"""How many of them may be one user's."""
UNENCODED = "The script can't be encoded at present: the estimate is made without reading its code."

Handler = Callable[..., Awaitable[Answer]]


class Api:
    """Answers requests from the store."""

    def __init__(self, config: Config, desk: Desk, estimator: Estimator, intake: Intake, news: News) -> None:
        self._config, self._desk, self._estimator = config, desk, estimator
        self._intake = intake
        self._footprints = Footprints(config.footprint)
        self._agent = AgentApi(config, desk, estimator, intake, news)
        capture = CaptureApi(config, desk, intake)
        kappa = KappaApi(config, desk, news, lambda: self._agent.waiting.jobs)
        self._energy = EnergyApi(config, desk)
        self.past = ImportApi(config, desk, estimator, intake)
        self._report = ReportApi(config, self._footprints)
        self._predicting = ThreadPoolExecutor(1, "predict")
        self._predictions: Counter[int] = Counter()
        self.closed: Counter[tuple[str, str]] = Counter()
        """Connections that the doors have closed, by door and reason."""
        self._routes: list[tuple[str, re.Pattern[str], Handler]] = [
            (method, re.compile(pattern, re.ASCII), handler)
            for method, pattern, handler in (
                ("GET", r"/v1/health", self._health),
                ("POST", r"/v1/predict", self._predict),
                ("GET", r"/v1/explain/(\d{1,10})", self._explain),
                ("GET", r"/v1/queue", self._queue),
                ("GET", r"/v1/kappa", kappa.get),
                ("PUT", r"/v1/kappa", kappa.put),
                ("GET", r"/v1/kappa/history", kappa.history),
                ("POST", r"/v1/energy", self._energy.records),
                ("GET", r"/v1/report", self._report.get),
                ("GET", r"/v1/runs", RunsApi(config).get),
                ("GET", r"/v1/capture", capture.wanted),
                ("POST", r"/v1/capture/(\d{1,10})", capture.sources),
                ("POST", r"/v1/agent/jobs", self._agent.jobs),
                ("POST", r"/v1/agent/script", self._agent.script),
                ("POST", r"/v1/agent/decisions", self._agent.decisions),
                ("POST", r"/v1/agent/outcomes", self._agent.outcomes),
                ("POST", r"/v1/agent/energy", self._energy.of_runs),
                ("POST", r"/v1/agent/import", self.past.runs),
                ("GET", r"/v1/agent/wait", self._agent.wait),
            )
        ]

    async def dispatch(self, caller: Caller, method: str, path: str, body: Any) -> Answer:
        """The JSON answer of one request. Raises :class:`Refused`, and StoreError where the store is at fault."""
        url = urlsplit(path)
        for known, pattern, handler in self._routes:
            match = pattern.fullmatch(url.path)
            if match and known == method:
                if url.path.startswith("/v1/agent/") and not caller.is_agent(self._config.daemon):
                    raise Refused(403, f"only {self._config.daemon.agent_user} may ask this, not {caller.name}")
                query = {key: values[-1] for key, values in parse_qs(url.query).items()}
                try:
                    return await handler(Ask(caller, query, body), *match.groups())
                except (CodecError, KeyError, TypeError, ValueError, OverflowError) as error:
                    raise Refused(400, f"the request can't be understood: {error}") from None
        raise Refused(404, f"there is no {method} {url.path}; is the client of another version?")

    async def _health(self, _: Ask) -> Answer:
        counts = await self._desk.do(Store.counts)
        encoder = self._estimator.encoder
        return {
            "status": "ok" if encoder is not None else "no encoder",
            "version": __version__,
            "encoder": encoder.name if encoder is not None else None,
            "encoder_trouble": self._estimator.trouble or None,
            "model": self._estimator.model_version or None,
            "model_trouble": self._estimator.model_trouble or None,
            "submissions": counts["submission"],
            "estimates": counts["estimate"],
            "outcomes": counts["outcome"],
            "waiting": len(self._intake.queued),
            "past_waiting": counts["unencoded"],
            "rejected": self._intake.rejected,
        }

    async def _predict(self, ask: Ask) -> Answer:
        script = ask.field("script", str).encode("latin-1")
        environment = ask.field("environment", dict, {})
        submission = Submission(
            uid=ask.caller.uid,
            user=ask.caller.name,
            name="",
            submit_time=int(time.time()),
            script=script,
            script_size=len(script),
            work_dir=ask.field("work_dir", str, ""),
            argv=tuple(str(word) for word in ask.field("argv", list, [])),
            environment={name: str(environment[name]) for name in ENVIRONMENT if name in environment},
        )
        sources = checked_sources(ask.field("sources", dict, {}))
        uid = ask.caller.uid
        if self._predictions.total() >= MAX_PREDICTIONS or self._predictions[uid] >= MAX_OF_ONE_USER:
            raise Refused(503, "too many scripts are waiting for predict; try again in a few seconds")
        self._predictions[uid] += 1
        try:
            return await self._prediction(submission, sources)
        finally:
            self._predictions[uid] -= 1

    async def _prediction(self, submission: Submission, sources: dict[str, bytes]) -> Answer:
        loop = asyncio.get_running_loop()
        work = await loop.run_in_executor(self._predicting, self._estimator.read, submission, sources)
        origin = Origin.of(submission, work.reading)
        past = runs(await self._desk.do(lambda store: store.past(origin)), origin)
        encoded = self._estimator.encoder is not None
        try:
            await loop.run_in_executor(self._predicting, self._estimator.encode, work)
        except (EncoderError, sqlite3.Error):  # the latter: a full disk doesn't take the vector
            encoded = False
        estimates, _ = await loop.run_in_executor(self._predicting, self._estimator.estimate, work, past)
        shown = await loop.run_in_executor(self._predicting, self._footprints.shown, estimates, time.time())
        said = [why_refused(submission.script), self._unknown_partitions(work.reading)]
        remarks = [*said, UNENCODED if shown and not encoded else ""]
        return {
            "estimates": shown,
            "remark": " ".join(filter(None, remarks)) or None,
            "numbers": work.reading.numbers,
            "request": to_json(work.reading.gpus),
            "made_from": work.reading.made_from,
            "sources": list(work.reading.sources),
            "missing_sources": list(work.reading.missing_sources),
        }

    def _unknown_partitions(self, reading: Reading) -> str:
        """What is to be said of partitions that the script names and the configuration doesn't; empty: nothing."""
        managed = [part.name for part in self._config.partition]
        unknown = ", ".join(name for name in reading.partitions if name not in managed)
        if not unknown:
            return ""
        told = f"The script names {unknown}, but slurmcast manages only {', '.join(managed) or 'no partition'}"
        return f"{told}: is the name right (sinfo)? If it is, ask your admin for a [[partition]] in slurmcast.toml."

    async def _explain(self, ask: Ask, job_id: str) -> Answer:
        everything = ask.caller.is_operator(self._config.daemon)

        def look(store: Store) -> Answer | None:
            known = store.find_job(int(job_id))
            if known is None or (known.uid != ask.caller.uid and not everything):
                return None
            pending = self._agent.waiting
            waits = (known.job_id, known.submit_time) in pending if pending.seen else None
            return views.explanation(store, known, self._agent.places, self._footprints, time.time(), waits)

        answer = await self._desk.do(look)
        if answer is None:  # in the same words for a job that isn't there and one that isn't the caller's
            hint = "it knows jobs that ask for GPUs, from some seconds after sbatch on"
            raise Refused(404, f"no job {job_id} of yours is known to slurmcast; {hint}")
        return answer

    async def _queue(self, ask: Ask) -> Answer:
        everything, uid = ask.caller.is_operator(self._config.daemon), ask.caller.uid

        def look(store: Store) -> Answer:
            seen = [job for job in self._agent.waiting.jobs if everything or job.uid == uid]
            return {"jobs": views.waiting(store, seen, self._agent.places, self._footprints, time.time())}

        return await self._desk.do(look)

    async def metrics(self) -> str:
        """What ``GET /metrics`` shows: Prometheus text, version 0.0.4."""
        health = await self._health(Ask(Caller(0), {}, None))
        sources = await self._desk.do(Store.estimates_by_source)
        numbers = [
            ("submissions", "gauge", "Submissions in the store.", health["submissions"]),
            ("outcomes", "gauge", "Finished runs in the store.", health["outcomes"]),
            ("queue_length", "gauge", "Submissions that wait for their estimate.", health["waiting"]),
            ("past_queue_length", "gauge", "Imported scripts that are still to be encoded.", health["past_waiting"]),
            ("rejected_total", "counter", "Spool files that could not be read.", health["rejected"]),
            ("encode_seconds_total", "counter", "Time spent on encoding submissions.", self._intake.encode_seconds),
        ]
        lines = [metric(name, kind, meaning, [({}, value)]) for name, kind, meaning, value in numbers]
        for name, kind, meaning, key, counts in (
            ("estimates", "gauge", "Estimates in the store.", "source", sources),
            ("rewritings_total", "counter", "Scripts for the chat server.", "result", self._intake.aligning.results),
            ("energy_records_total", "counter", "What nodes reported.", "result", self._energy.results),
        ):
            lines.append(metric(name, kind, meaning, [({key: which}, counts[which]) for which in sorted(counts)]))
        closed = [({"door": door, "reason": why}, count) for (door, why), count in sorted(self.closed.items())]
        lines.append(metric("connections_closed_total", "counter", "Closed for others' sake, or too slow.", closed))
        lines.append(await asyncio.to_thread(drift_metrics, self._config.paths.models))
        return "".join(lines)

    def close(self) -> None:
        """Let go of the threads; predictions and reports under way are given up."""
        self._report.close()
        self._predicting.shutdown(wait=False, cancel_futures=True)
