"""What slurmcastd can say to an ordinary user: expected times, and what it has about his runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slurmcast.capture import as_json_text, sources
from slurmcast.client import Client, ClientError
from slurmcast.label.words import Work
from slurmcast.label.works import submission

MAX_JOBS = 100
"""Jobs that one question may be about."""


class Estimates:
    """Asks slurmcastd. Where it doesn't answer nothing is known, and ``trouble`` says why."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.trouble = ""

    def times_s(self, work: Work) -> dict[str, float]:
        """The expected time by partition; without those that aren't known. Not asked again where it didn't answer."""
        if self.trouble:
            return {}
        asked = submission(work.path, work.arguments)
        taken = {path: as_json_text(data) for path, data in sources(asked).items()}
        body = {
            "script": as_json_text(asked.script),
            "argv": asked.argv,
            "environment": asked.environment,
            "work_dir": asked.work_dir,
            "sources": taken,
        }
        answer = self._ask("POST", "/v1/predict", body) or {"estimates": []}
        return {e["partition"]: e["time_s"]["p50"] for e in answer["estimates"] if e["time_s"]}

    def runs(self, jobs: Sequence[int]) -> Mapping[tuple[int, int], tuple[float | None, bool]]:
        """What the store has about ended runs: by (job id, start) the energy in kWh, and whether it learns from it."""
        found = {}
        for first in range(0, len(jobs), MAX_JOBS):
            asked = ",".join(map(str, jobs[first : first + MAX_JOBS]))
            answer = self._ask("GET", f"/v1/runs?jobs={asked}") or {"runs": []}
            for run in answer["runs"]:
                found[run["job_id"], run["start_time"]] = (run["energy_kwh"], run["label"])
        return found

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        try:
            return self._client.request(method, path, body)
        except ClientError as error:
            self.trouble = str(error)
            return None
