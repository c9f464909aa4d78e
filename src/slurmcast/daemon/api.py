"""The requests of docs/architecture.md, independent of how they came in: ``dispatch(caller, method, path, body)``."""

from __future__ import annotations

import asyncio
import base64
import binascii
import pwd
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from slurmcast import __version__
from slurmcast.codec import CodecError, from_json, to_json
from slurmcast.config import Config
from slurmcast.daemon import matching
from slurmcast.daemon.estimator import Estimator
from slurmcast.daemon.intake import Intake
from slurmcast.model import Decision, Job, Outcome, Submission
from slurmcast.script.directives import parse as parse_directives
from slurmcast.store.store import Store, Stored

Answer = dict[str, Any]
MAX_WAIT_S = 60.0


class Refused(Exception):
    """An answer with an error status; the message says what is wrong and what to do."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as the kernel or munge says."""

    uid: int

    @property
    def name(self) -> str:
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return str(self.uid)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, taken apart."""

    caller: Caller
    query: dict[str, str]
    body: Any


class Api:
    """Answers requests from the store."""

    def __init__(self, config: Config, store: Store, estimator: Estimator) -> None:
        self._config, self._store, self._estimator = config, store, estimator
        self.intake: Intake = Intake(config, store, estimator, self.bump)
        self._revision, self._changed = 0, asyncio.Condition()
        self._wakers: set[asyncio.Task[None]] = set()
        self._last_seen: dict[int, float] = {}
        self._routes: list[tuple[str, re.Pattern[str], Callable[..., Awaitable[Answer]]]] = [
            (method, re.compile(pattern), handler)
            for method, pattern, handler in (
                ("GET", r"/v1/health", self._health),
                ("POST", r"/v1/predict", self._predict),
                ("GET", r"/v1/explain/(\d{1,10})", self._explain),
                ("GET", r"/v1/queue", self._queue),
                ("GET", r"/v1/kappa", self._get_kappa),
                ("PUT", r"/v1/kappa", self._put_kappa),
                ("POST", r"/v1/agent/jobs", self._agent_jobs),
                ("POST", r"/v1/agent/script", self._agent_script),
                ("POST", r"/v1/agent/decisions", self._agent_decisions),
                ("POST", r"/v1/agent/outcomes", self._agent_outcomes),
                ("GET", r"/v1/agent/wait", self._agent_wait),
            )
        ]
        self._pending: dict[tuple[int, int], Job] = {}
        self._default: tuple[str, ...] = ()

    async def dispatch(self, caller: Caller, method: str, path: str, body: Any) -> tuple[int, Answer]:
        """Status and JSON answer of one request."""
        url = urlsplit(path)
        try:
            for known, pattern, handler in self._routes:
                match = pattern.fullmatch(url.path)
                if match and known == method:
                    if url.path.startswith("/v1/agent/"):
                        self._only_agent(caller)
                    query = {key: values[-1] for key, values in parse_qs(url.query).items()}
                    return 200, await handler(Ask(caller, query, body), *match.groups())
            raise Refused(404, f"there is no {method} {url.path}; is the client of another version?")
        except Refused as refusal:
            return refusal.status, {"error": str(refusal)}
        except (CodecError, KeyError, TypeError, ValueError) as error:
            return 400, {"error": f"the request can't be understood: {error}"}

    def bump(self) -> None:
        """A new estimate is there: wake the agent."""
        self._revision += 1
        task = asyncio.get_running_loop().create_task(self._notify())
        self._wakers.add(task)
        task.add_done_callback(self._wakers.discard)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    # Rights

    def _is_operator(self, caller: Caller) -> bool:
        return caller.uid == 0 or caller.name in self._config.daemon.operators

    def _only_agent(self, caller: Caller) -> None:
        if caller.uid != 0 and caller.name != self._config.daemon.agent_user:
            raise Refused(403, f"only {self._config.daemon.agent_user} may ask this, not {caller.name}")

    # For everybody

    async def _health(self, _: Ask) -> Answer:
        counts = self._store.counts()
        encoder = self._estimator.encoder
        return {
            "status": "ok" if encoder is not None else "no encoder",
            "version": __version__,
            "encoder": encoder.name if encoder is not None else None,
            "model": self._estimator.model_version or None,
            "submissions": counts["submission"],
            "estimates": counts["estimate"],
            "outcomes": counts["outcome"],
            "waiting": self.intake.waiting,
            "rejected": self.intake.rejected,
        }

    async def _predict(self, ask: Ask) -> Answer:
        script = str(ask.body["script"]).encode("latin-1")
        submission = Submission(
            uid=ask.caller.uid,
            user=ask.caller.name,
            name="",
            submit_time=int(time.time()),
            script=script,
            script_size=len(script),
            work_dir=str(ask.body.get("work_dir", "")),
            argv=tuple(str(word) for word in ask.body.get("argv", ())),
            environment={str(k): str(v) for k, v in dict(ask.body.get("environment", {})).items()},
        )
        reading = await asyncio.to_thread(self._estimator.read, submission)
        await asyncio.to_thread(self._estimator.encode, reading.text)
        estimates = self._estimator.predict(reading, self._estimator.text_key(reading.text))
        return {
            "estimates": to_json(estimates),
            "numbers": reading.numbers,
            "request": to_json(reading.gpus),
            "sources": list(reading.sources),
            "missing_sources": list(reading.missing_sources),
        }

    async def _explain(self, ask: Ask, job_id: str) -> Answer:
        found = self._store.find_job(int(job_id))
        if found is None or (found["uid"] != ask.caller.uid and not self._is_operator(ask.caller)):
            raise Refused(404, f"no job {job_id} of yours is known to slurmcast")
        return {"job_id": int(job_id), **self._describe(found)}

    def _describe(self, found: Answer) -> Answer:
        submission = found["submission"]
        stored = self._store.submission(submission) if submission is not None else None
        estimates = self._store.estimates(submission) if submission is not None else ()
        decision = found["decision"]
        reason = "slurmcast has not decided about this job yet."
        return {
            "user": found["user"],
            "name": found["name"],
            "submit_time": found["submit_time"],
            "key": stored.reading.key if stored else None,
            "estimates": to_json(estimates),
            "made_from": _made_from(stored),
            "numbers": stored.reading.numbers if stored else {},
            "eligibility": decision["verdicts"] if decision else [],
            "values": decision["values"] if decision else [],
            "rank": decision["rank"] if decision else None,
            "decision": _short(decision) if decision else None,
            "reason": decision["reason"] if decision else reason,
        }

    async def _queue(self, ask: Ask) -> Answer:
        everything = self._is_operator(ask.caller)
        jobs = []
        for job in self._pending.values():
            if everything or job.uid == ask.caller.uid:
                found = self._store.find_job(job.job_id)
                if found is not None and found["submit_time"] == job.submit_time:
                    described = self._describe(found)
                    decision = described["decision"]
                    partition = decision["partition"] if decision else ",".join(job.partitions)
                    jobs.append(
                        {"job_id": job.job_id, "partition": partition, "slurm_priority": job.priority, **described}
                    )
        jobs.sort(key=lambda j: (j["partition"], j["rank"] is None, j["rank"] or 0, j["job_id"]))
        return {"jobs": jobs}

    async def _get_kappa(self, _: Ask) -> Answer:
        value = self._store.kappa()
        if value is None:
            return {"kappa": self._config.agent.kappa, "since": None, "by": None}
        return {"kappa": value[0], "since": value[1], "by": value[2]}

    async def _put_kappa(self, ask: Ask) -> Answer:
        if not self._is_operator(ask.caller):
            raise Refused(403, "only operators may set kappa; ask your admin")
        value = float(ask.body["kappa"])
        if not 0 <= value < float("inf"):
            raise Refused(400, f"kappa = {value}: must be a number from 0 up")
        self._store.set_kappa(value, time.time(), ask.caller.name)
        self.bump()
        return await self._get_kappa(ask)

    # For the agent

    async def _agent_jobs(self, ask: Ask) -> Answer:
        jobs = [from_json(Job, record) for record in ask.body["jobs"]]
        self._default = tuple(str(name) for name in ask.body.get("default", ()))
        self._pending = {(job.job_id, job.submit_time): job for job in jobs}
        started = [from_json(Job, record) for record in ask.body.get("running", ())]
        self._store.see([*jobs, *started])
        self._match([*jobs, *started])
        answers = [self._known(job) for job in jobs]
        kappa = (await self._get_kappa(ask))["kappa"]
        return {"jobs": answers, "kappa": kappa, "revision": self._revision}

    def _match(self, jobs: list[Job]) -> None:
        new = [job for job in jobs if self._store.job_submission(job) is None]
        slack = matching.SLACK_S
        candidates: dict[int, list[Stored]] = {}
        for job in new:
            near = self._store.unclaimed(job.uid, job.name, job.submit_time - slack, job.submit_time + slack)
            candidates[job.job_id] = [stored for stored in near if matching.agrees(job, stored)]
        pairs = matching.pair(new, candidates)
        for job in new:
            if job.job_id in pairs:
                self._store.claim(job, pairs[job.job_id])

    def _known(self, job: Job) -> Answer:
        entry: Answer = {"job_id": job.job_id, "submit_time": job.submit_time}
        submission = self._store.job_submission(job)
        if submission is None:
            # The spool file of a fresh job may still be on its way: read back only what has waited a while.
            late = time.time() - job.submit_time > self._config.daemon.readback_after_s
            return entry | {"script_wanted": late}
        stored = self._store.submission(submission)
        return entry | {
            "estimates": to_json(self._store.estimates(submission)),
            "final": stored.final,
            "grace_until": stored.begin_time if stored.begin_time == job.begin_time else 0,
            "partition_named": bool(stored.named),
            "allowed_partitions": list(stored.named),
            "opted_in": stored.reading.opted_in,
            "opted_out": stored.reading.opted_out,
            "script_wanted": False,
        }

    async def _agent_script(self, ask: Ask) -> Answer:
        job = from_json(Job, ask.body["job"])
        try:
            script = base64.b64decode(ask.body["script_base64"], validate=True)
        except binascii.Error as error:
            raise Refused(400, f"script_base64: {error}") from None
        if self._store.job_submission(job) is None:
            self._store.claim(job, await self.intake.add(self._from_record(job, script)))
        return {}

    def _from_record(self, job: Job, script: bytes) -> Submission:
        """A submission as far as Slurm's record and the script tell it: no arguments' borders, no environment."""
        words = job.submit_line.split()
        directives = parse_directives(script)
        on_line = any(w in ("-p", "--partition") or w.startswith(("--partition=", "-p")) for w in words)
        elsewhere = job.partitions != self._default and bool(self._default)
        named = on_line or elsewhere or "partition" in directives.options
        return Submission(
            uid=job.uid,
            user=job.user,
            name=job.name,
            submit_time=job.submit_time,
            script=script,
            script_size=len(script),
            partition=",".join(job.partitions) if named else None,
            argv=tuple(words[_script_at(words) :]),
            request=_request(job),
        )

    async def _agent_decisions(self, ask: Ask) -> Answer:
        self._store.decide(from_json(Decision, decision) for decision in ask.body["decisions"])
        return {}

    async def _agent_outcomes(self, ask: Ask) -> Answer:
        return {"stored": self._store.add_outcomes(from_json(Outcome, outcome) for outcome in ask.body["outcomes"])}

    async def _agent_wait(self, ask: Ask) -> Answer:
        seen = int(ask.query.get("revision", -1))
        timeout = min(float(ask.query.get("timeout", 5)), MAX_WAIT_S)
        try:
            async with asyncio.timeout(timeout), self._changed:
                await self._changed.wait_for(lambda: self._revision != seen)
        except TimeoutError:
            pass
        return {"revision": self._revision}


def _made_from(stored: Stored | None) -> str | None:
    if stored is None:
        return None
    return "script and sources" if stored.reading.sources else "script only"


def _short(decision: Answer) -> Answer:
    """A decision as the contract has it: the partition, site factor or priority, and when."""
    kind = "priority" if decision["priority"] is not None else "site_factor"
    return {"partition": decision["partition"], kind: decision[kind], "at": decision["at"]}


def _script_at(words: list[str]) -> int:
    """Index of the script in the words of a submit line: the first file name that ends like a batch script's."""
    return next(
        (n for n, word in enumerate(words) if n and word.endswith((".sh", ".sbatch", ".slurm", ".job"))), len(words)
    )


def _request(job: Job) -> dict[str, str]:
    """The fields of the record under the names that the hook uses."""
    gpus = job.gpus
    fields = {
        "min_nodes": str(job.nodes),
        "num_tasks": str(job.tasks),
        "cpus_per_task": str(job.cpus_per_task),
        "account": job.account,
        "qos": job.qos,
        "comment": job.comment,
        "features": job.features,
    }
    if job.time_limit_s is not None:
        fields["time_limit"] = str(job.time_limit_s // 60)
    if gpus is not None:
        kind = f":{gpus.type}" if gpus.type else ""
        for name, count in (
            ("tres_per_node", gpus.per_node),
            ("tres_per_job", gpus.per_job),
            ("tres_per_task", gpus.per_task),
            ("tres_per_socket", gpus.per_socket),
        ):
            if count is not None:
                fields[name] = f"gres/gpu{kind}:{count}"
    return {name: value for name, value in fields.items() if value}
