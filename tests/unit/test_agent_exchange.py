"""The agent and a real slurmcastd tell each other of pending jobs only what is new, and never lose the thread."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurmcast.agent.exchange import Exchange
from slurmcast.client import Client, ClientError
from slurmcast.codec import to_json
from slurmcast.model import Job, Outcome
from tests.unit.daemon_harness import SUBMITTED, Daemon, daemon_in, record, script, submission


class Line(Client):
    """A client that keeps what was sent last and what came back."""

    asked: Any = None
    answered: Any = None

    def request(self, method: str, path: str, body: Any = None) -> Any:
        self.asked = body
        self.answered = super().request(method, path, body)
        return self.answered


class Agent:
    """The agent's side, as far as pending jobs go."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon, self.line = daemon, Line(daemon.config)
        self.exchange = Exchange(self.line)

    def look(self, *jobs: Job) -> tuple[list[int], list[int]]:
        """The ids of the jobs that the daemon was told of, and of those that it had news of."""
        self.entries, answer = self.exchange.ask(jobs, [], ["a100"])
        told, news = ([job["job_id"] for job in side["jobs"]] for side in (self.line.asked, answer))
        return sorted(told), sorted(news)

    def knows_all(self, *jobs: Job) -> bool:
        """Whether it knows what an agent is told that comes anew."""
        whole, _ = Exchange(Client(self.daemon.config)).ask(jobs, [], ["a100"])
        return whole == self.entries and len(whole) == len(jobs)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with daemon_in(tmp_path) as unit:
        unit.start()
        yield unit


def submitted(daemon: Daemon, *numbers: int) -> list[Job]:
    """Jobs whose submissions have been estimated."""
    before = daemon.ask("GET", "/v1/health")["submissions"]
    for n in numbers:
        daemon.spool(f"{n}.job", submission(n, name=b"job %d" % n))
    daemon.eventually(lambda: daemon.settled(before + len(numbers)))
    return [record(n, name=f"job {n}") for n in numbers]


def test_only_news_crosses(daemon: Daemon) -> None:
    one, two, three = submitted(daemon, 1, 2, 3)
    agent = Agent(daemon)
    assert agent.look(one, two) == ([1, 2], [1, 2])
    assert agent.look(one, two) == ([], [])
    assert agent.look(one, replace(two, priority=7)) == ([2], []), "what it is told of a job doesn't hang on that"
    assert {row["job_id"]: row["slurm_priority"] for row in daemon.ask("GET", "/v1/queue")["jobs"]} == {1: 0, 2: 7}
    assert agent.look(two, three) == ([2, 3], [3])
    assert agent.line.asked["gone"] == [[1, SUBMITTED]]
    assert set(agent.entries) == {(2, SUBMITTED), (3, SUBMITTED)}
    assert agent.look(one, two, three) == ([1], [1]), "it is back"
    assert agent.knows_all(one, two, three)


def test_news_of_every_kind_is_told(daemon: Daemon) -> None:
    one, two = submitted(daemon, 1, 2)
    late = record(3, name="no hook saw it")
    twins = [record(n, name="twin") for n in (4, 5)]
    agent = Agent(daemon)
    assert agent.look(one, two, late) == ([1, 2, 3], [1, 2, 3])
    assert agent.entries[3, SUBMITTED]["script_wanted"]
    daemon.hand_over(late, script(3))
    daemon.eventually(lambda: daemon.settled(3))
    assert agent.look(one, two, late) == ([], [3])
    assert agent.entries[3, SUBMITTED]["final"]

    for n in (4, 5):
        daemon.spool(f"{n}.job", submission(n, name=b"twin"))
    daemon.eventually(lambda: daemon.settled(5))
    assert agent.look(one, *twins)[1] == [4, 5]
    assert all(agent.entries[n, SUBMITTED]["script_wanted"] for n in (4, 5)), "which is which isn't certain"
    daemon.hand_over(twins[0], script(5))
    assert agent.look(one, *twins) == ([], [4, 5]), "they have changed places"

    ran = Outcome(1, SUBMITTED, "a100", "a100", 1, "COMPLETED", SUBMITTED + 9, SUBMITTED + 99, 90.0)
    daemon.spool("again.job", submission(1, name=b"again"))
    daemon.eventually(lambda: daemon.settled(6))
    again = record(6, name="again")
    agent.look(again)
    daemon.ask("POST", "/v1/agent/outcomes", {"outcomes": [to_json(ran)]})
    daemon.eventually(lambda: not daemon.ask("GET", "/v1/health")["waiting"])
    assert agent.look(again) == ([], [6])
    assert agent.entries[6, SUBMITTED]["estimates"][0]["source"] == "history"
    assert agent.knows_all(again)


def test_a_daemon_that_was_killed_is_told_of_all(daemon: Daemon) -> None:
    jobs = submitted(daemon, 1, 2)
    agent = Agent(daemon)
    agent.look(*jobs)
    daemon.end(signal.SIGKILL)
    with pytest.raises(ClientError):
        agent.look(*jobs)
    daemon.start()
    assert agent.look(*jobs) == ([1, 2], [1, 2])
    assert agent.look(*jobs) == ([], [])


def test_another_agent_that_asks_meanwhile_costs_only_time(daemon: Daemon) -> None:
    jobs = submitted(daemon, 1, 2)
    agent = Agent(daemon)
    agent.look(*jobs)
    assert Agent(daemon).look(jobs[0]) == ([1], [1])
    assert agent.look(*jobs) == ([1, 2], [1, 2])


def test_an_answer_that_was_lost_is_given_again(daemon: Daemon) -> None:
    jobs = submitted(daemon, 1)
    agent = Agent(daemon)
    agent.look()
    lost = {"since": agent.line.answered["look"], "jobs": to_json(jobs), "gone": [], "default": ["a100"]}
    assert len(daemon.ask("POST", "/v1/agent/jobs", lost)["jobs"]) == 1
    assert agent.look(*jobs) == ([1], [1])


def test_what_is_refused_is_not_taken_for_told(daemon: Daemon) -> None:
    jobs = submitted(daemon, 1)
    agent = Agent(daemon)
    agent.look(*jobs)
    with pytest.raises(ClientError, match="too large"):
        agent.look(*jobs, record(2**70))
    assert agent.look(*jobs) == ([1], [1])
