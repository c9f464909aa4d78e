"""The agent's requests: what is known of its jobs, scripts that it reads back, its decisions, finished runs."""

from __future__ import annotations

import base64
import binascii
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from slurmcast.codec import from_json, to_json
from slurmcast.config import Config
from slurmcast.daemon import matching, record
from slurmcast.daemon.desk import Desk
from slurmcast.daemon.estimator import Estimator
from slurmcast.daemon.intake import Intake
from slurmcast.daemon.kappa_api import kappas
from slurmcast.daemon.news import News
from slurmcast.daemon.requests import Answer, Ask, Refused
from slurmcast.daemon.views import Place
from slurmcast.daemon.waiting import Waiting, WaitingJobs
from slurmcast.labels import kinship
from slurmcast.model import Decision, Job, Outcome
from slurmcast.store.records import Link
from slurmcast.store.store import Store, Stored

MAX_WAIT_S = 60.0
MAX_UNMATCHED = 200
"""Running jobs whose submission is looked for again at the next look."""


class AgentApi:
    """What only the agent may ask. ``waiting`` is what it saw last, ``places`` (by job id) the order that it wants;
    both are used in the store's thread alone."""

    def __init__(self, config: Config, desk: Desk, estimator: Estimator, intake: Intake, news: News) -> None:
        self._config, self._desk, self._estimator = config, desk, estimator
        self._intake, self._news = intake, news
        self._default: tuple[str, ...] = ()
        self._unmatched: list[Job] = []
        self.waiting = WaitingJobs()
        self.places: dict[int, Place] = {}

    async def jobs(self, ask: Ask) -> Answer:
        """Match pending jobs, and those that started before they were seen, with submissions; what is news of the
        pending ones, and what was expected of the others."""
        revision = self._news.revision  # before the look: what comes during it is news
        jobs = [from_json(Job, record) for record in ask.field("jobs", list)]
        since, gone = ask.body.get("since"), [(int(i), int(t)) for i, t in ask.field("gone", list, [])]
        started = [from_json(Job, record) for record in ask.field("running", list, [])]
        default = tuple(str(name) for name in ask.field("default", list, []))

        def look(store: Store) -> tuple[Answer, list[Stored]]:
            self._default = default
            self.waiting.take(since, jobs, gone)
            return self._look(store, jobs, started)

        answer, outdated = await self._desk.do(look)
        self._intake.again(outdated)
        return answer | {"revision": revision}

    def _look(self, store: Store, changed: list[Job], started: list[Job]) -> tuple[Answer, list[Stored]]:
        as_submitted = _as_submitted([*self.waiting.unknown, *started, *self._unmatched])
        store.see([*changed, *as_submitted])
        _match(store, as_submitted)
        store.promise_started([*started, *self._unmatched])
        # A running job is told once, but its spool file may come later.
        unmatched = [job for job in [*self._unmatched, *started] if _link(store, job) is None]
        self._unmatched = unmatched[-MAX_UNMATCHED:]
        self.waiting.look_up(store)
        news = [told for waiting in self.waiting.all if (told := self._told(waiting)) is not None]
        running = [_expected(store, job) for job in started]
        kappa = to_json(kappas(store, self._config))
        answer = {"look": self.waiting.done(), "jobs": news, "running": running, "kappa": kappa}
        return answer, [store.submission(submission) for submission in self._outdated()]

    def _told(self, waiting: Waiting) -> Answer | None:
        job, facts = waiting.job, waiting.facts
        if facts is None:
            # The spool file of a fresh job may still be on its way: read back only what has waited a while.
            late = time.time() - job.submit_time > self._config.daemon.readback_after_s
            return waiting.news(final=False, script_wanted=late and self._wants(job))
        submission, certain, model, _ = facts.version
        final = model is not None and not self._intake.is_awaited(submission)
        doubtful = not certain or not facts.complete or self._is_lost(submission, model)
        return waiting.news(final=final, script_wanted=doubtful and self._wants(job))

    def _outdated(self) -> list[int]:
        """The pending submissions that another model than the present one estimated, as many as can be queued."""
        versions = (waiting.facts.version for waiting in self.waiting.all if waiting.facts is not None)
        others = (v.submission for v in versions if v.model not in (None, self._estimator.model_version))
        return list(islice((number for number in others if number not in self._intake.queued), self._intake.room))

    def _wants(self, job: Job) -> bool:
        """Whether a script that the agent reads back now can be dealt with."""
        return job.batch and not self._intake.full

    def _is_lost(self, submission: int, model: str | None) -> bool:
        """Whether the estimate is still to be made and nobody is at it: a daemon was killed, its spool emptied."""
        return model is None and submission not in self._intake.queued

    async def script(self, ask: Ask) -> Answer:
        """Take in the script that Slurm keeps for a job: it tells which submission the job was, or makes one."""
        job = from_json(Job, ask.field("job", dict))
        try:
            script = base64.b64decode(ask.field("script_base64", str), validate=True)
        except binascii.Error as error:
            raise Refused(400, f"script_base64: {error}") from None
        stored = await self._desk.do(lambda store: _settle(store, job, script))
        if stored is None:
            made = await self._intake.add(record.submission(job, script, self._default))
            await self._desk.do(lambda store: store.claim(job, made))
        elif not stored.complete or self._is_lost(stored.id, stored.model):
            await self._intake.complete(stored, stored.with_script(script))
        self._news.bump()
        return {}

    async def decisions(self, ask: Ask) -> Answer:
        """Remember what was decided, and the order of each partition's jobs."""
        decisions = [from_json(Decision, decision) for decision in ask.field("decisions", list)]
        places = {
            int(job_id): Place(rank, int(setting))
            for line in ask.field("lines", dict, {}).values()
            for rank, (job_id, setting) in enumerate(line)
        }

        def remember(store: Store) -> None:
            store.decide(decisions)
            self.places = places

        await self._desk.do(remember)
        return {}

    async def outcomes(self, ask: Ask) -> Answer:
        """Remember how runs ended."""
        outcomes = [from_json(Outcome, outcome) for outcome in ask.field("outcomes", list)]

        def remember(store: Store) -> int:
            store.promise_ended(outcomes)
            return store.add_outcomes(outcomes)

        stored = await self._desk.do(remember)
        if stored:
            self._intake.again(await self._desk.do(lambda store: self._related(store, outcomes)))
        return {"stored": stored}

    def _related(self, store: Store, outcomes: Iterable[Outcome]) -> list[Stored]:
        """The pending submissions of which these runs tell: same user, same work, script or job name."""
        origins = store.origins(outcomes)
        uids = {origin.uid for origin in origins}
        links = (_link(store, job) for job in self.waiting.jobs if job.uid in uids)
        waiting = (store.submission(link.submission) for link in links if link is not None)
        return [
            stored
            for stored in waiting
            if stored.model is not None and any(kinship(origin, stored.origin) is not None for origin in origins)
        ]

    async def wait(self, ask: Ask) -> Answer:
        """The revision, as soon as it isn't the caller's any more."""
        seen = int(ask.query.get("revision", -1))
        timeout_s = min(max(float(ask.query.get("timeout", 5)), 0.0), MAX_WAIT_S)
        return {"revision": await self._news.differs(seen, timeout_s)}


def _expected(store: Store, job: Job) -> Answer:
    """What was expected of a running job on its partition."""
    link = _link(store, job)
    estimates = [] if link is None else store.estimates(link.submission)
    estimate = next((e for e in estimates if e.partition in job.partitions), None)
    return {"job_id": job.job_id, "submit_time": job.submit_time, "estimate": estimate and to_json(estimate)}


def _as_submitted(jobs: Iterable[Job]) -> list[Job]:
    """Each job under the id under which it was submitted: the tasks of an array, which get ids of their own when they
    start, are one job."""
    found: dict[tuple[int, int], Job] = {}
    for job in jobs:
        job_id = job.array_job_id or job.job_id
        found.setdefault((job_id, job.submit_time), replace(job, job_id=job_id))
    return list(found.values())


def _link(store: Store, job: Job) -> Link | None:
    """The submission that the job was made of, or the array that it is a task of."""
    found = store.link(job)
    if found is None and job.array_job_id:
        return store.link(replace(job, job_id=job.array_job_id))
    return found


def _match(store: Store, jobs: Iterable[Job]) -> None:
    """Find the submissions of those jobs whose isn't known yet."""
    new: dict[int, list[Job]] = defaultdict(list)
    for job in jobs:
        if store.link(job) is None:
            earlier = store.before_requeue(job) if job.restarts else None
            if earlier is not None:
                store.claim(job, earlier)
            else:
                new[job.uid].append(job)
    for uid, theirs in new.items():
        times = [job.submit_time for job in theirs]
        near = store.unclaimed(uid, min(times) - matching.SLACK_S, max(times) + matching.SLACK_S)
        for match in matching.match(theirs, near):
            store.claim(match.job, match.submission, match.certain)


def _settle(store: Store, job: Job, script: bytes) -> Stored | None:
    """The submission of the job with that script, which from now on is certain; None where there is none."""
    store.see([job])
    link = store.link(job)
    if link is not None:
        stored = store.submission(link.submission)
        if stored.is_of(script):
            store.claim(job, stored.id)
            return stored
    span = job.uid, job.submit_time - matching.SLACK_S, job.submit_time + matching.SLACK_S
    free, doubtful = store.unclaimed(*span), store.doubtful(*span)
    found = matching.by_script(job, script, free) or matching.by_script(job, script, doubtful)
    if found is not None:
        store.swap(job, found.id)
    return found
