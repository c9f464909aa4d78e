"""The way home: records reach the store once, from those who may report, and become the energy of labels."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurmcast.client import ClientError
from slurmcast.codec import from_json, to_json
from slurmcast.config import Config
from slurmcast.meter.files import Outbox
from slurmcast.meter.record import Ending, EnergyRecord, GpuUse, Method, join
from slurmcast.meter.report import FIRST_WAIT_S, Reporter
from slurmcast.model import Outcome
from slurmcast.store.store import Store
from tests.unit.daemon_harness import ALICE, Daemon, daemon_in

GPU = GpuUse("GPU-0", 1.8e6, Method.COUNTER, 3599.0, 1.0, 0.0, 500.0, 600.0, 31.5, 0.9)
RECORD = EnergyRecord("test", 7, 1000, "a100-1", 1, 1000.2, 4600.0, Ending.EPILOG, 1, "", (GPU,))
OUTCOME = Outcome(7, 990, "a100", "a100", 1, "COMPLETED", 1000, 4600, 3600.0)


def on(node: str, **fields: Any) -> EnergyRecord:
    return replace(RECORD, node=node, nodes=2, **fields)


@pytest.mark.parametrize(
    ("records", "outcome", "energy_kwh", "why"),
    [
        ([RECORD], {}, 0.5, "one node"),
        ([], {}, None, "nothing reported"),
        ([on("a"), on("b")], {"gpus": 2}, 1.0, "all nodes"),
        ([on("a")], {"gpus": 2}, None, "a node is missing"),
        ([on("a"), on("a")], {"gpus": 2}, None, "one node twice isn't two"),
        ([on("a"), on("b", shared="MIG")], {"gpus": 2}, None, "one node's isn't attributable"),
        ([RECORD], {"gpus": 2}, None, "Slurm allocated more GPUs than were measured"),
        ([RECORD], {"gpus": 0}, None, "a shard by Slurm's word"),
        ([RECORD], {"start_time": 900}, None, "another run of the same number"),
        ([RECORD], {"job_id": 8}, None, "another job"),
        ([RECORD], {"end_time": 4700}, None, "measured up to another end"),
        ([replace(RECORD, ending=Ending.GONE)], {"end_time": 4630}, 0.5, "the guessed end is right within 1 %"),
        ([replace(RECORD, ending=Ending.GONE)], {"end_time": 4650}, None, "the guessed end is not"),
        ([replace(RECORD, ending=Ending.REBOOT)], {}, None, "the node went down"),
        ([replace(RECORD, used=(replace(GPU, gap_s=30.0),))], {}, 0.5, "gaps of less than 1 %"),
        ([replace(RECORD, used=(replace(GPU, gap_s=40.0),))], {}, None, "gaps of more than 1 %"),
        ([replace(RECORD, gpus=2)], {"gpus": 2}, None, "a GPU that was never found"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_energy_of_a_run(
    records: list[EnergyRecord], outcome: dict[str, Any], energy_kwh: float | None, why: str
) -> None:
    assert join(replace(OUTCOME, **outcome), records).energy_kwh == energy_kwh, why


@pytest.mark.parametrize("energy_first", [True, False])
def test_the_store_joins_them_in_any_order(tmp_path: Path, energy_first: bool) -> None:
    store = Store(tmp_path / "store.db", "test")
    steps = [lambda: store.add_energy([RECORD]), lambda: store.add_outcomes([OUTCOME])]
    for step in steps if energy_first else reversed(steps):
        assert step() == 1
    assert store.add_energy([replace(RECORD, ended=4601.0)]) == 0, "the first one counts"
    assert store.add_outcomes([OUTCOME]) == 0
    measured = ("energy_kwh", "energy_method", "gpu_memory_gb", "gpu_utilisation")
    names = ", ".join(f"'$.{name}'" for name in measured)
    rows = store._db.execute(f"SELECT json_extract(outcome, {names}) FROM outcome").fetchall()
    assert rows == [('[0.5,"counter",31.5,0.9]',)]
    store.close()


def test_what_comes_later_is_added_and_what_is_there_stays(tmp_path: Path) -> None:
    """jobstats writes its summary some time after the end; what the meter measured comes before it."""
    store = Store(tmp_path / "store.db", "test")

    def told(**fields: Any) -> tuple[float | None, ...]:
        store.add_outcomes([replace(OUTCOME, **fields)])
        ((text,),) = store._db.execute("SELECT outcome FROM outcome").fetchall()
        outcome = from_json(Outcome, json.loads(text))
        return outcome.energy_kwh, outcome.gpu_memory_gb, outcome.gpu_utilisation

    assert told() == (None, None, None)
    assert told(gpu_memory_gb=3.0) == (None, 3.0, None)
    assert told(gpu_memory_gb=4.0, gpu_utilisation=0.5) == (None, 3.0, 0.5)
    store.add_energy([RECORD])
    assert told() == (0.5, 31.5, 0.9)
    assert told(energy_kwh=9.0, energy_method="slurm", gpu_memory_gb=9.0) == (0.5, 31.5, 0.9)
    assert store.energies([(7, 990, 1000)]) == [0.5]
    store.close()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with daemon_in(tmp_path / "daemon") as unit:
        unit.settings += '\n[meter]\nnodes = ["a100-*"]'
        yield unit


def reporter(config: Config, tmp_path: Path, *records: EnergyRecord) -> tuple[Reporter, Outbox]:
    outbox = Outbox(tmp_path / "node")
    for record in records:
        outbox.put(record)
    return Reporter(config, outbox), outbox


def lying(outbox: Outbox) -> list[str]:
    return sorted(path.name for path in outbox.folder.iterdir())


def test_records_wait_for_the_daemon_and_arrive_once(daemon: Daemon, tmp_path: Path) -> None:
    second = replace(RECORD, job_id=8)
    sender, outbox = reporter(daemon.config, tmp_path, RECORD, second)
    waits = [sender.send() for _ in range(3)]
    assert waits == sorted(set(waits)), "longer each time"
    assert len(lying(outbox)) == 2
    daemon.start()
    assert sender.send() == FIRST_WAIT_S and lying(outbox) == []
    # A sender that was killed before it knew that they had arrived sends them again.
    again, outbox = reporter(daemon.config, tmp_path, RECORD, second)
    again.send()
    assert lying(outbox) == []
    daemon.ask("POST", "/v1/agent/outcomes", {"outcomes": [to_json(OUTCOME)]})
    daemon.end()
    store = Store(daemon.config.paths.store, "test")
    counts = store._db.execute(
        "SELECT count(*), sum(energy_kwh) FROM energy, "
        "(SELECT json_extract(outcome, '$.energy_kwh') AS energy_kwh FROM outcome)"
    ).fetchone()
    assert counts == (2, 1.0)
    store.close()


def test_one_bad_record_holds_up_no_other(daemon: Daemon, tmp_path: Path) -> None:
    bad = [
        replace(RECORD, node="login-1"),
        replace(RECORD, job_id=9, cluster="elsewhere"),
        replace(RECORD, job_id=10, ended=float("nan")),
        replace(RECORD, job_id=11, used=(replace(GPU, energy_j=-1.0),)),
        replace(RECORD, job_id=12, used=(replace(GPU, peak_memory_gb=float("inf")),)),
        replace(RECORD, job_id=13, used=(replace(GPU, energy_j=1e308), replace(GPU, energy_j=1e308)), gpus=2),
        replace(RECORD, job_id=10**30),
        replace(RECORD, job_id=14, start_time=10**30),
    ]
    sender, outbox = reporter(daemon.config, tmp_path, *bad, RECORD)
    (outbox.folder / "broken.json").write_text("{")
    (outbox.folder / "deep.json").write_text("[" * 100_000)
    daemon.start()
    sender.send()
    assert lying(outbox) == []
    assert len(list((tmp_path / "node/refused").iterdir())) == 10
    assert "node 'login-1' isn't in meter.nodes" in daemon.log


def test_a_forged_record_is_refused_and_logged(daemon: Daemon) -> None:
    daemon.start()
    body = {"records": [to_json(RECORD)]}
    with pytest.raises(ClientError, match="may not report energy") as refusal:
        daemon.ask_as(ALICE, "POST", "/v1/energy", body)
    assert "403" not in str(refusal.value)
    assert f"a record of energy from user {ALICE} was refused" in daemon.log
    assert daemon.ask("POST", "/v1/energy", body) == {"new": 1, "refused": {}}


def test_a_request_that_is_none(daemon: Daemon) -> None:
    daemon.start()
    bodies: list[Any] = [None, [], {}, {"records": 7}, {"records": [None] * 201}]
    for body in bodies:
        with pytest.raises(ClientError) as refusal:
            daemon.ask("POST", "/v1/energy", body)
        assert refusal.value.status in (400, 413)
    # What is no record is refused by its place; the others are taken.
    answer = daemon.ask("POST", "/v1/energy", {"records": [to_json(RECORD), 7, {"job_id": "7"}]})
    assert answer["new"] == 1 and set(answer["refused"]) == {"1", "2"}
