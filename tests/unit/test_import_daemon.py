"""Past runs into a real daemon: each once, whatever is killed; scripts are encoded behind new submissions."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from slurmcast.client import Client, ClientError
from slurmcast.cluster.accounting import Accounting, Record, TooMuch
from slurmcast.cluster.base import ClusterError
from slurmcast.imports import mark
from slurmcast.imports.mark import Mark
from slurmcast.imports.run import CHUNK, MAX_SCRIPTS, Import
from tests.unit.daemon_harness import ALICE, SUBMITTED, Daemon, daemon_in, record, submission

FIRST, LAST = SUBMITTED, SUBMITTED + 86400
SCRIPT = b"#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py --epochs %d\n"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with daemon_in(tmp_path) as running:
        running.start()
        yield running


def past(job_id: int, **fields: Any) -> Record:
    """A completed run of one of ten scripts."""
    base = {"label": str(job_id), "name": "train.sh", "uid": ALICE, "user": "alice", "account": "x", "qos": "normal"}
    times = {"submit_time": FIRST + job_id, "start_time": FIRST + job_id, "end_time": FIRST + 10 * job_id}
    rest = {"features": "", "comment": "", "submit_line": "sbatch train.sh", "work_dir": "/"}
    known = {"partition": "a100", "state": "COMPLETED", "elapsed_s": 9 * job_id, "tres": "gres/gpu=1", "nodes": 1}
    return Record(job_id=job_id, **{**base, **times, **rest, **known, **fields})


class Books(Accounting):
    """Accounting out of a list; it fails once ``fails_at`` runs have been read."""

    def __init__(self, records: Sequence[Record], fails_at: int = 10**9) -> None:
        self._records, self._left = records, fails_at
        self.scripts_read: list[str] = []

    def ended(self, since: int, until: int) -> Iterator[Record]:
        for found in self._records:
            if since <= found.end_time < until:
                self._left -= 1
                if self._left < 0:
                    raise ClusterError("slurmdbd is gone")
                yield found

    def scripts(self, jobs: Sequence[str], since: int, until: int) -> dict[str, bytes]:
        self.scripts_read += jobs
        return {label: SCRIPT % (int(label.partition("_")[0]) % 10) for label in jobs}

    def environments(self, jobs: Sequence[str], since: int, until: int) -> dict[str, bytes]:
        return dict.fromkeys(jobs, b"")


def bring(daemon: Daemon, books: Books, start: Mark | None = None) -> Import:
    file = daemon.folder / "import.json"
    work = Import(books, Client(daemon.config), frozenset({"a100", "a6000"}), file)
    work.run(start or mark.load(file) or Mark(FIRST, FIRST), LAST)
    return work


def rows(daemon: Daemon, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
    with sqlite3.connect(f"file:{daemon.config.paths.store}?mode=ro", uri=True) as store:
        return sorted(store.execute(f"SELECT {columns} FROM {table}"), key=repr)


def contents(daemon: Daemon) -> dict[str, list[tuple[Any, ...]]]:
    """What an import leaves, but for the numbers that SQLite gave."""
    joined = "job JOIN submission ON submission.id = job.submission"
    return {
        "outcome": rows(daemon, "outcome"),
        "job": rows(daemon, "job", "job_id, submit_time, uid, user, name, submission IS NULL"),
        "link": rows(daemon, joined, "job_id, job.submit_time, key, text_key, script_sha256"),
        "submission": rows(daemon, "submission", "uid, name, key, script_sha256"),
    }


def test_the_same_work_is_stored_once(daemon: Daemon) -> None:
    work = bring(daemon, Books([past(n) for n in range(1, 601)]))
    assert work.new == 600
    assert [len(rows(daemon, table)) for table in ("outcome", "job", "submission")] == [600, 600, 10]
    assert mark.load(work.mark_file) == Mark(
        FIRST, LAST, {"completed": 600, "records": 600, "runs": 600, "with_script": 600}
    )
    daemon.eventually(lambda: daemon.ask("GET", "/v1/health")["past_waiting"] == 0)
    assert rows(daemon, "unencoded") == []


def test_stopped_anywhere_and_run_again_gives_the_same(daemon: Daemon, tmp_path: Path) -> None:
    records = [past(n, state="FAILED" if n % 3 == 0 else "COMPLETED") for n in range(1, 3 * CHUNK)]
    for stop in (1, CHUNK + 7, 2 * CHUNK + 100):
        with pytest.raises(ClusterError, match="is gone"):
            bring(daemon, Books(records, fails_at=stop))
    daemon.end(signal.SIGKILL)
    daemon.start()
    assert bring(daemon, Books(records)).new < len(records)
    with daemon_in(tmp_path / "other") as other:
        other.start()
        bring(other, Books(records))
        assert contents(other) == contents(daemon)
        assert mark.load(other.folder / "import.json") == mark.load(daemon.folder / "import.json")


def test_each_task_of_an_array_is_a_run_and_its_script_is_read_once(daemon: Daemon) -> None:
    tasks = [past(20 + n, label=f"20_{n}", submit_time=FIRST) for n in range(CHUNK + 50)]
    books = Books(tasks)
    bring(daemon, books)
    assert len(books.scripts_read) == 1
    assert [len(rows(daemon, table)) for table in ("outcome", "job", "submission")] == [CHUNK + 50, 1, 1]


def test_a_requeued_job_has_two_runs_of_one_submission(daemon: Daemon) -> None:
    again = past(7, state="REQUEUED"), past(7, submit_time=FIRST + 100, start_time=FIRST + 200, end_time=FIRST + 300)
    bring(daemon, Books(again))
    assert [row[0] for row in rows(daemon, "outcome", "state")] == ["COMPLETED", "REQUEUED"]
    assert rows(daemon, "job", "submission") == [(1,), (1,)]


def test_an_id_that_came_round_again_is_another_job(daemon: Daemon) -> None:
    bring(daemon, Books([past(7), past(7, uid=ALICE + 1, submit_time=FIRST + 5000, end_time=FIRST + 6000)]))
    assert [len(rows(daemon, table)) for table in ("outcome", "job", "submission")] == [2, 2, 2]


def test_runs_without_a_script_are_runs(daemon: Daemon) -> None:
    books = Books([past(7, submit_line="srun --gpus=1 x"), past(8, label="8+0"), past(9, label="8+1")])
    bring(daemon, books)
    assert books.scripts_read == []
    assert [len(rows(daemon, table)) for table in ("outcome", "job", "submission")] == [3, 3, 0]


def test_long_scripts_are_read_a_few_at_a_time(daemon: Daemon) -> None:
    class Long(Books):
        def scripts(self, jobs: Sequence[str], since: int, until: int) -> dict[str, bytes]:
            if len(jobs) > 3:
                raise TooMuch
            return {
                label: text + b"#" * (MAX_SCRIPTS // 2) for label, text in super().scripts(jobs, since, until).items()
            }

    work = bring(daemon, Long([past(n) for n in range(1, 11)]))
    assert mark.load(work.mark_file) == Mark(
        FIRST, LAST, {"completed": 10, "records": 10, "runs": 10, "with_script": 10}
    )
    assert [len(rows(daemon, table)) for table in ("outcome", "job", "submission")] == [10, 10, 10]


def test_what_the_hook_saw_stays(daemon: Daemon) -> None:
    daemon.spool("a.job", submission(7))
    daemon.eventually(lambda: daemon.settled(1))
    job = record(7)
    daemon.look(job)
    bring(daemon, Books([past(7, submit_time=job.submit_time)]))
    assert rows(daemon, "job", "submission") == [(1,)]
    assert len(rows(daemon, "submission")) == len(rows(daemon, "outcome")) == 1


def test_a_store_that_was_emptied_is_told_again(daemon: Daemon) -> None:
    class Emptied(Books):
        def ended(self, since: int, until: int) -> Iterator[Record]:
            for number, found in enumerate(super().ended(since, until)):
                if number == CHUNK:
                    daemon.end(signal.SIGKILL)
                    for file in daemon.config.paths.state_dir.glob("store.db*"):
                        file.unlink()
                    daemon.start()
                yield found

    bring(daemon, Emptied([past(n) for n in range(1, CHUNK + 30)]))
    assert (len(rows(daemon, "outcome")), len(rows(daemon, "submission"))) == (29, 10)
    assert rows(daemon, "job", "submission IS NULL") == [(0,)] * 29


def test_texts_wait_over_a_restart_and_leave_the_file(daemon: Daemon) -> None:
    """Those of completed runs alone: from nothing else is anything learned."""
    bring(daemon, Books([past(n, state="FAILED" if n == 5 else "COMPLETED") for n in range(1, 10)]))
    daemon.end(signal.SIGKILL)
    daemon.start()
    daemon.eventually(lambda: daemon.ask("GET", "/v1/health")["past_waiting"] == 0)
    vectors = sqlite3.connect(daemon.config.paths.state_dir / "embeddings.db").execute("SELECT key FROM vector")
    kept = {key for (key,) in vectors}
    completed = {json.loads(o)["job_id"] for (o,) in rows(daemon, "outcome", "outcome") if "COMPLETED" in o}
    joined = rows(daemon, "job JOIN submission ON submission.id = job.submission", "job_id, text_key")
    assert {job_id for job_id, key in joined if key in kept} == completed
    assert len(completed) == 8


def test_new_submissions_are_encoded_first(daemon: Daemon) -> None:
    class Different(Books):
        def scripts(self, jobs: Sequence[str], since: int, until: int) -> dict[str, bytes]:
            return {label: text + label.encode() for label, text in super().scripts(jobs, since, until).items()}

    bring(daemon, Different([past(n) for n in range(1, 301)]))
    for n in range(3):
        daemon.spool(f"{n}.job", submission(n))
    daemon.eventually(lambda: not list(daemon.config.paths.spool.iterdir()))  # a file goes when it has been estimated
    assert daemon.ask("GET", "/v1/health")["past_waiting"] > 0


def test_only_the_agent_may_import(daemon: Daemon) -> None:
    with pytest.raises(ClientError, match="only slurmcast-agent may ask this"):
        daemon.ask_as(ALICE, "POST", "/v1/agent/import", {"runs": [], "submissions": {}})


@pytest.mark.parametrize(
    "body",
    [{}, {"runs": [{}]}, {"runs": [], "submissions": {"x": {}}}, {"runs": [], "submissions": {"x": {"script": 1}}}],
)
def test_what_is_no_batch_is_refused(daemon: Daemon, body: dict[str, Any]) -> None:
    with pytest.raises(ClientError) as refusal:
        daemon.ask("POST", "/v1/agent/import", body)
    assert refusal.value.status == 400
