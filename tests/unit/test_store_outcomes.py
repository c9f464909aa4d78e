"""Finished runs in the store: each once, energy that comes later, what can be learned from, and by whom."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurmcast.meter.record import Ending, EnergyRecord, GpuUse, Method
from slurmcast.model import GpuRequest, Job, Outcome, Reading
from slurmcast.store.reports import Reports, Scope
from slurmcast.store.store import Origin, Store
from tests.unit.store_world import submitted

SCRIPT = b"#!/bin/bash\n"
READING = Reading("key", "", {"epochs": 3.0}, gpus_total=2, partitions=("a100",))
JOB = Job(7, "alice", 1000, "x", "PENDING", "None", ("a100",), 101)
OUTCOME = Outcome(7, 101, "a100", "a100", 2, "COMPLETED", 110, 130, 20.0)
ORIGIN = Origin(1000, "key", hashlib.sha256(SCRIPT).hexdigest(), "x")


def test_outcomes_count_once_and_energy_may_come_later(store: Store) -> None:
    submitted(store, JOB, READING)
    assert store.add_outcomes([OUTCOME, OUTCOME]) == 1
    assert store.labels()[0].outcome.energy_kwh is None
    assert store.add_outcomes([replace(OUTCOME, energy_kwh=1.5)]) == 0
    assert store.add_outcomes([OUTCOME]) == 0
    assert [label.outcome.energy_kwh for label in store.labels()] == [1.5]
    assert store.add_outcomes([replace(OUTCOME, start_time=500, state="NODE_FAIL")]) == 1
    assert [label.outcome.state for label in store.labels()] == ["COMPLETED"]


@pytest.mark.parametrize(
    "amount",
    [
        *({"elapsed_s": number} for number in (float("nan"), float("inf"), -1.0, 1e300)),
        *({"energy_kwh": number} for number in (float("nan"), -1.0, 1e300, 1e-300)),
        {"gpu_memory_gb": 1e300},
        {"host_energy_kwh": -1.0},
        {"gpu_utilisation": -0.1},
    ],
)
def test_what_no_run_can_have_is_not_stored(
    store: Store, tmp_path: Path, amount: dict[str, float], caplog: pytest.LogCaptureFixture
) -> None:
    assert store.add_outcomes([replace(OUTCOME, job_id=8, **amount), OUTCOME]) == 1
    assert "a run of job 8 is left out" in caplog.text
    store.add_outcomes([replace(OUTCOME, **amount)])
    assert store.energies([(7, 101, 110)]) == [None]
    reports = Reports(tmp_path / "store.db", "lab")
    assert [len(chunk) for chunk in reports.runs(Scope(0, 2e9))] == [1]
    reports.close()


def test_an_energy_that_no_run_can_have_is_not_joined(store: Store) -> None:
    use = GpuUse("u", 1e-290, Method.SAMPLED, 0.0, 20.0, 0.0, None, None, None, None)
    store.add_energy([EnergyRecord("lab", 7, 110, "n1", 1, 110.0, 130.0, Ending.EPILOG, 1, "", (use,))])
    store.add_outcomes([replace(OUTCOME, gpus=1)])
    assert store.energies([(7, 101, 110)]) == [None]


def test_labels_are_counted_by_their_end(store: Store) -> None:
    submitted(store, JOB, READING)
    store.add_outcomes([OUTCOME, replace(OUTCOME, start_time=200, end_time=210)])
    assert [store.label_count(after) for after in (0, 129, 130, 209, 210, float("inf"))] == [2, 2, 1, 1, 0, 0]


def test_tasks_of_an_array_count_for_its_submission(store: Store) -> None:
    submitted(store, JOB, READING)
    tasks = [replace(OUTCOME, job_id=7 + n, array_job_id=7, start_time=110 + n) for n in range(3)]
    assert store.add_outcomes(tasks) == 3
    assert [label.outcome.job_id for label in store.labels()] == [7, 8, 9]
    assert store.add_outcomes([replace(OUTCOME, job_id=50, array_job_id=40)]) == 1
    assert len(store.labels()) == 3


# man sacct, JOB STATE CODES and JOB STATE FLAGS.
STATES = (
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PENDING", "PREEMPTED",
    "RUNNING", "SUSPENDED", "TIMEOUT", "COMPLETING", "CONFIGURING", "EXPEDITING", "LAUNCH_FAILED", "POWER_UP_NODE",
    "RECONFIG_FAIL", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESIZING", "RESV_DEL_HOLD", "REVOKED", "SIGNALING",
    "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "UPDATE_DB",
)  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_only_completed_runs_are_labels(store: Store, state: str) -> None:
    submitted(store, JOB, READING)
    store.add_outcomes([replace(OUTCOME, state=state)])
    assert len(store.labels()) == (state == "COMPLETED")
    assert len(store.past(ORIGIN)) == len(store.labels())
    assert bool(store.origins([replace(OUTCOME, state=state)])) == (state == "COMPLETED")


@pytest.mark.parametrize(
    ("part", "is_label"),
    [
        ({"state": "RESIZING"}, False),
        ({"state": "RESIZING", "end_time": 109}, True),
        ({"state": "RESIZING", "job_id": 8}, True),
        ({"state": "REQUEUED"}, True),
    ],
)
def test_the_last_part_of_a_resized_job_is_no_label(store: Store, part: dict[str, Any], is_label: bool) -> None:
    """Accounting has a record for each size, the last one COMPLETED."""
    submitted(store, JOB, READING)
    store.add_outcomes([OUTCOME, replace(OUTCOME, **{"submit_time": 50, "start_time": 60, "end_time": 110, **part})])
    assert [label.outcome for label in store.labels()] == [OUTCOME] * is_label


def test_labels_of_the_same_work_share_its_reading(store: Store) -> None:
    """The reading is most of what there is to decode."""
    for job_id in (7, 8):
        submitted(store, replace(JOB, job_id=job_id), READING)
        store.add_outcomes([replace(OUTCOME, job_id=job_id)])
    one, other = store.labels()
    assert one.reading is other.reading
    assert one.reading == replace(READING, text="")


def test_labels_have_gpus_of_their_own(store: Store) -> None:
    shared = replace(READING, gpus=GpuRequest(per_node=1, shared=True))
    submitted(store, JOB, shared)
    store.add_outcomes([replace(OUTCOME, energy_kwh=1.5), replace(OUTCOME, gpus=0, start_time=115)])
    assert [(label.outcome.start_time, label.outcome.energy_kwh) for label in store.labels()] == [(110, None)]


def test_the_past_is_the_same_users_and_related(store: Store) -> None:
    cases = {  # what of the job, the work and the script differs
        "same": ({}, "key", SCRIPT),
        "arguments": ({}, "other", SCRIPT),
        "edited": ({}, "other", b"new"),
        "renamed and edited": ({"name": "y"}, "other", b"new"),
        "bobs": ({"uid": 2000}, "key", SCRIPT),
    }
    for job_id, (fields, key, script) in enumerate(cases.values(), 1):
        submitted(store, replace(JOB, job_id=job_id, **fields), replace(READING, key=key), (), script)
        store.add_outcomes([replace(OUTCOME, job_id=job_id, start_time=100 + job_id)])
    store.add_outcomes([replace(OUTCOME, job_id=1, start_time=1, state="FAILED")])

    def found(origin: Origin, limit: int = 9) -> list[int]:
        return [label.outcome.job_id for label in store.past(origin, limit)]

    assert found(ORIGIN) == [3, 2, 1]  # the latest first
    assert found(ORIGIN, limit=2) == [3, 2]
    assert found(replace(ORIGIN, name="")) == [2, 1]
    assert found(replace(ORIGIN, name="y")) == [4, 2, 1]
    assert found(replace(ORIGIN, uid=2000)) == [5]
    assert found(replace(ORIGIN, uid=3000)) == []
    assert store.labels()[0].origin == store.origin(1, "key") == store.submission(1).origin == ORIGIN
    assert store.origin(99, "key") is None
    assert store.origins([OUTCOME, replace(OUTCOME, job_id=1), replace(OUTCOME, job_id=2, state="FAILED")]) == {ORIGIN}
