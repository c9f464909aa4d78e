"""The submitters' requests: which of my jobs' sources are wanted, and here they are (docs/capture.md)."""

from __future__ import annotations

from slurmcast.codec import to_json
from slurmcast.config import Config
from slurmcast.daemon.desk import Desk
from slurmcast.daemon.intake import Intake
from slurmcast.daemon.requests import Answer, Ask, Refused
from slurmcast.daemon.wishes import Wish
from slurmcast.script.gather import MAX_SOURCE_TEXT, MAX_SOURCES
from slurmcast.script.sources import MAX_BYTES
from slurmcast.store.store import Store

MAX_JOBS = 100
"""Jobs that one request may ask about."""
MAX_ALL_BYTES = MAX_SOURCE_TEXT + MAX_BYTES
"""What the script reader takes at most: it stops once it has more than ``MAX_SOURCE_TEXT``."""


class CaptureApi:
    """Everybody may ask, and is told and believed about his own jobs only: root too."""

    def __init__(self, config: Config, desk: Desk, intake: Intake) -> None:
        self._config, self._desk, self._intake = config, desk, intake

    async def wanted(self, ask: Ask) -> Answer:
        """The first of the caller's ``jobs`` whose sources are wanted, with its own script; and those that aren't known
        yet, among which are all that aren't his."""
        self._check_on()
        jobs = [int(job_id) for job_id in ask.query.get("jobs", "").split(",")]
        if len(jobs) > MAX_JOBS:
            raise Refused(413, f"jobs: at most {MAX_JOBS} at a time")
        found = await self._desk.do(
            lambda store: {job_id: _submission(store, job_id, ask.caller.uid) for job_id in jobs}
        )
        wishes = ((job_id, self._intake.wishes.get(stored)) for job_id, stored in found.items())
        wanted = next((_shown(job_id, wish) for job_id, wish in wishes if wish is not None), None)
        return {"wanted": wanted, "unknown": [job_id for job_id, stored in found.items() if stored is None]}

    async def sources(self, ask: Ask, job_id: str) -> Answer:
        """Take the sources of one of the caller's jobs; once. How many of them are of use."""
        self._check_on()
        sources = checked_sources(ask.field("sources", dict))
        stored = await self._desk.do(lambda store: _submission(store, int(job_id), ask.caller.uid))
        if self._intake.full:
            raise Refused(503, "too many scripts are waiting; the sources are not taken")
        wish = self._intake.wishes.get(stored)
        if wish is None or not self._intake.wishes.take(wish):
            # In the same words for a job that isn't there, one that is done and another user's.
            raise Refused(404, f"no sources of a job {job_id} of yours are wanted")
        return {"taken": await self._intake.revise(wish, sources)}

    def _check_on(self) -> None:
        if not self._config.daemon.capture:
            raise Refused(404, "no sources are wanted here (daemon.capture is false)")


def _submission(store: Store, job_id: int, uid: int) -> int | None:
    """The submission that the user's job was made of, as far as it is known."""
    known = store.find_job(job_id)
    return known.submission if known is not None and known.uid == uid else None


def _shown(job_id: int, wish: Wish) -> Answer:
    facts = {name: value for name, value in to_json(wish.submission).items() if name != "script"}
    # Latin-1 carries every byte through JSON.
    return {"job_id": job_id, "submission": facts, "script": wish.submission.script.decode("latin-1")}


def checked_sources(sources: dict[object, object]) -> dict[str, bytes]:
    """Contents by path, of a request's ``sources``. Paths are names here, nothing is opened by them.

    Raises :class:`Refused` where it is more than the script reader takes, ValueError where it is no Latin-1.
    """
    if len(sources) > MAX_SOURCES:
        raise Refused(413, f"{len(sources)} sources are more than the {MAX_SOURCES} that are read")
    files = {str(path): str(text).encode("latin-1") for path, text in sources.items()}
    if any(len(data) > MAX_BYTES for data in files.values()) or sum(map(len, files.values())) > MAX_ALL_BYTES:
        raise Refused(413, f"a source may have {MAX_BYTES} bytes, all together {MAX_ALL_BYTES}")
    return files
