"""The submitters' requests: which sources are wanted of them, and here they are (docs/capture.md)."""

from __future__ import annotations

from slurmcast.codec import to_json
from slurmcast.config import Config
from slurmcast.daemon.intake import Intake
from slurmcast.daemon.requests import Answer, Ask, Refused
from slurmcast.script.gather import MAX_SOURCE_TEXT, MAX_SOURCES
from slurmcast.script.sources import MAX_BYTES

MAX_WAIT_S = 5.0
MAX_ALL_BYTES = MAX_SOURCE_TEXT + MAX_BYTES
"""What the script reader takes at most: it stops once it has more than ``MAX_SOURCE_TEXT``."""


class CaptureApi:
    """Everybody may ask, and is told and believed about his own submissions only."""

    def __init__(self, config: Config, intake: Intake) -> None:
        self._config, self._intake = config, intake

    async def wanted(self, ask: Ask) -> Answer:
        """The caller's next submission whose sources are wanted, as soon as there is one; it is his own text."""
        self._check_on()
        after = int(ask.query.get("after", 0))
        timeout_s = min(max(float(ask.query.get("timeout", 0)), 0.0), MAX_WAIT_S)
        wish = await self._intake.wishes.next(ask.caller.uid, after, timeout_s)
        if wish is None:
            return {"wanted": None}
        facts = {name: value for name, value in to_json(wish.submission).items() if name != "script"}
        # Latin-1 carries every byte through JSON.
        script = wish.submission.script.decode("latin-1")
        return {"wanted": {"number": wish.number, "submission": facts, "script": script}}

    async def sources(self, ask: Ask) -> Answer:
        """Take the sources of one of the caller's submissions; once. How many of them are of use."""
        self._check_on()
        number, sources = ask.field("number", int), checked_sources(ask.field("sources", dict))
        if self._intake.full:
            raise Refused(503, "too many scripts are waiting; the sources are not taken")
        wish = self._intake.wishes.take(ask.caller.uid, number)
        if wish is None:  # in the same words for a number that isn't there, one that is done and another user's
            raise Refused(404, f"no sources of yours are wanted under number {number}")
        return {"taken": await self._intake.revise(wish, sources)}

    def _check_on(self) -> None:
        if not self._config.daemon.capture:
            raise Refused(404, "no sources are wanted here (daemon.capture is false)")


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
