"""What users learn of their finished runs through a real daemon."""

from __future__ import annotations

import pwd
from collections.abc import Iterator
from typing import Any

import pytest

from slurmcast.client import ClientError
from slurmcast.codec import to_json
from slurmcast.model import Outcome
from tests.unit.daemon_harness import ALICE, BOB, SUBMITTED, Daemon, daemon_in, record, submission

NOBODY = pwd.getpwnam("nobody").pw_uid


def outcome(job_id: int, **fields: Any) -> Outcome:
    times = {"start_time": SUBMITTED + 60, "submit_time": SUBMITTED, "end_time": SUBMITTED + 160, "elapsed_s": 100.0}
    facts = {"partition": "a100", "gpu_type": "a100", "gpus": 1, "state": "COMPLETED"}
    return Outcome(job_id, **{**times, **facts, **fields})


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_in(tmp_path_factory.mktemp("runs")) as made:
        made.start()
        made.spool("1.job", submission(1))
        made.spool("2.job", submission(2, name=b"shared", request__tres_per_node=b"gres/shard:1"))
        made.eventually(lambda: made.settled(2))
        array = record(7, is_array=True, array_job_id=7)
        made.look(array, record(20, name="shared"), record(30, uid=BOB, name="other"))
        made.ask(
            "POST",
            "/v1/agent/outcomes",
            {
                "outcomes": to_json(
                    [
                        outcome(7, array_job_id=7, energy_kwh=0.25),
                        outcome(8, array_job_id=7),
                        outcome(9, array_job_id=7, state="FAILED", energy_kwh=0.1),
                        outcome(20, energy_kwh=0.5),
                        outcome(30, energy_kwh=0.5),
                        outcome(40, user="nobody", energy_kwh=0.5),
                    ]
                )
            },
        )
        yield made


ALL = "7,8,9,20,30,40,50"


@pytest.mark.parametrize(
    ("uid", "seen"),
    [
        # Of shared GPUs the energy is nobody's own.
        (ALICE, [(7, 0.25, True), (8, None, True), (9, 0.1, False), (20, None, True)]),
        (BOB, [(30, 0.5, False)]),
        (NOBODY, [(40, 0.5, False)]),
        (99999, []),
    ],
)
def test_everybody_sees_their_own(daemon: Daemon, uid: int, seen: list[tuple[int, float | None, bool]]) -> None:
    answer = daemon.ask_as(uid, "GET", f"/v1/runs?jobs={ALL}")
    assert [(run["job_id"], run["energy_kwh"], run["label"]) for run in answer["runs"]] == seen
    assert all(run["elapsed_s"] == 100 and run["start_time"] == SUBMITTED + 60 for run in answer["runs"])


@pytest.mark.parametrize(
    "query", ["", "?jobs=", "?jobs=x", "?jobs=1,,2", f"?jobs={10**30}", "?jobs=" + ",".join(["1"] * 101)]
)
def test_wrong_questions(daemon: Daemon, query: str) -> None:
    with pytest.raises(ClientError):
        daemon.ask("GET", f"/v1/runs{query}")
    assert daemon.ask("GET", "/v1/health")["status"]
