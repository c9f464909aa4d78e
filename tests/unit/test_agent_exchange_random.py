"""Whatever happens to jobs, daemon and line: what the agent knows by news alone is what it would be told anew."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from slurmcast.agent.exchange import Exchange
from slurmcast.client import Client, ClientError
from slurmcast.codec import to_json
from slurmcast.model import Job, Outcome
from tests.unit.daemon_harness import SUBMITTED, Daemon, daemon_in, record, script, submission

EVENTS, LOOKS_BETWEEN = 25, 0.6
GRACE_UNTIL = SUBMITTED + 5


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with daemon_in(tmp_path) as unit:
        unit.start()
        yield unit


class Line(Client):
    """A client whose answers get lost where it is ``cut``."""

    cut = False

    def request(self, method: str, path: str, body: Any = None) -> Any:
        answer = super().request(method, path, body)
        if self.cut:
            raise ClientError("the connection was cut")
        return answer


class World:
    """Pending jobs, the daemon that is told of them, and what happens."""

    def __init__(self, daemon: Daemon, seed: int) -> None:
        self.daemon, self.draw = daemon, random.Random(seed)
        self.line = Line(daemon.config)
        self.exchange = Exchange(self.line)
        self.numbers = count(1)
        self.jobs: list[Job] = []
        self.entries: dict[tuple[int, int], dict[str, Any]] = {}
        self.likely = {
            self.submit: 10,
            self.submit_array: 2,
            self.start_task: 2,
            self.change: 6,
            self.leave: 2,
            self.requeue: 2,
            self.finish: 3,
            self.hand_over: 6,
            self.lose_an_answer: 2,
            self.ask_as_another_agent: 1,
            self.kill: 1,
        }

    def go_on(self) -> None:
        (event,) = self.draw.choices(list(self.likely), list(self.likely.values()))
        event()
        if self.draw.random() < LOOKS_BETWEEN:
            self.look()

    def look(self) -> None:
        self.draw.shuffle(self.jobs)
        entries, _ = self.exchange.ask(self.jobs, [], ["a100"])
        self.entries = dict(entries)

    def settle(self) -> None:
        """Look until nothing is on its way any more."""

        def nothing_new() -> bool:
            before = self.entries
            self.look()
            return before == self.entries and not self.daemon.ask("GET", "/v1/health")["waiting"]

        self.daemon.eventually(lambda: not list(self.daemon.config.paths.spool.iterdir()))
        self.daemon.eventually(nothing_new)

    def submit(self, **fields: Any) -> None:
        """Usually the hook sees it and it becomes a job, whose name others of the same second may have too."""
        number, submitted = next(self.numbers), SUBMITTED + self.draw.randrange(3)
        name = self.draw.choice(["twin", f"job {number}"])
        if self.draw.random() < 0.8:
            spooled = {"submit_time": b"%d" % submitted, "begin_time": b"%d" % GRACE_UNTIL, "name": name.encode()}
            self.daemon.spool(f"{number:03}.job", submission(number, **spooled))
        if self.draw.random() < 0.9:
            facts = {"name": name, "submit_time": submitted, "begin_time": GRACE_UNTIL}
            self.jobs.append(record(number, **facts, **fields))

    def submit_array(self) -> None:
        self.submit(is_array=True)
        self.jobs = [replace(job, array_job_id=job.job_id) if job.is_array else job for job in self.jobs]

    def start_task(self) -> None:
        arrays = [job for job in self.jobs if job.is_array]
        for array in arrays[:1]:
            self.jobs.append(replace(array, job_id=next(self.numbers), is_array=False))

    def some_job(self) -> list[Job]:
        return self.draw.sample(self.jobs, min(1, len(self.jobs)))

    def put(self, old: Job, **fields: Any) -> None:
        self.jobs[self.jobs.index(old)] = replace(old, **fields)

    def change(self) -> None:
        for job in self.some_job():
            begin_time = self.draw.choice([0, GRACE_UNTIL, GRACE_UNTIL + 99])
            self.put(job, priority=self.draw.randrange(9), begin_time=begin_time)

    def leave(self) -> None:
        for job in self.some_job():
            self.jobs.remove(job)

    def requeue(self) -> None:
        for job in self.some_job():
            self.put(job, submit_time=job.submit_time + self.draw.randrange(1, 99), restarts=job.restarts + 1)

    def finish(self) -> None:
        for job in self.some_job():
            took_s, began = float(self.draw.randrange(10, 999)), SUBMITTED + 100
            run = Outcome(job.job_id, job.submit_time, "a100", "a100", 1, "COMPLETED", began, began + 999, took_s)
            self.daemon.ask("POST", "/v1/agent/outcomes", {"outcomes": [to_json(run)]})
            self.jobs.remove(job)

    def hand_over(self) -> None:
        """A script that is asked for; Slurm's may be another one than that of which the job was taken to be."""
        wanted = [job for job in self.jobs if self.entries.get((job.job_id, job.submit_time), {}).get("script_wanted")]
        for job in wanted[:2]:
            number = self.draw.choice([job.array_job_id or job.job_id, 1])
            self.daemon.hand_over(job, script(number))

    def lose_an_answer(self) -> None:
        self.line.cut = True
        with pytest.raises(ClientError):
            self.look()
        self.line.cut = False

    def ask_as_another_agent(self) -> None:
        Exchange(Client(self.daemon.config)).ask(self.jobs[::2], [], ["a100"])

    def kill(self) -> None:
        self.daemon.end(signal.SIGKILL)
        self.daemon.start()


@pytest.mark.parametrize("seed", range(3))
def test_news_add_up_to_the_whole(daemon: Daemon, seed: int) -> None:
    world, estimated = World(daemon, seed), 0
    for _ in range(2):
        for _ in range(EVENTS):
            world.go_on()
        world.settle()
        whole, _ = Exchange(Client(daemon.config)).ask(world.jobs, [], ["a100"])
        assert world.entries == whole
        assert len(whole) == len(world.jobs)
        estimated += sum(entry.get("final", False) for entry in whole.values())
    assert estimated
