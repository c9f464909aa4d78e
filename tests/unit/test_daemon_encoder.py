"""The daemon with an encoder that is away, comes back, stalls or refuses texts: nothing is lost and nothing waits."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from slurmcast.codec import to_json
from slurmcast.config import Config, parse
from slurmcast.daemon import intake as intake_module
from slurmcast.daemon.desk import Desk
from slurmcast.daemon.estimator import Estimator
from slurmcast.daemon.intake import Intake
from slurmcast.model import Outcome, Submission
from slurmcast.store.store import Store
from tests.unit.daemon_harness import SUBMITTED, Daemon, daemon_in, record, script, submission
from tests.unit.openai_server import Reply, says, serving, stalls
from tests.unit.test_openai_client import closed_port

SETTINGS = """readback_after_s = 0
[encoder]
kind = "remote"
[encoder.remote]
url = "http://127.0.0.1:{port}/v1"
model = "m"
retries = 0
timeout_s = 3600
"""


async def embeds(request: web.Request) -> web.StreamResponse:
    texts = json.loads(await request.read())["input"]
    return web.json_response({"data": [{"index": n, "embedding": [1.0, len(t)]} for n, t in enumerate(texts)]})


@pytest.fixture
def port() -> int:
    return closed_port()


@pytest.fixture
def daemon(tmp_path: Path, port: int) -> Iterator[Daemon]:
    with daemon_in(tmp_path) as unit:
        unit.settings = SETTINGS.format(port=port)
        yield unit


def health(daemon: Daemon) -> dict[str, Any]:
    answer: dict[str, Any] = daemon.ask("GET", "/v1/health")
    return answer


def predict(daemon: Daemon, n: int) -> dict[str, Any]:
    answer: dict[str, Any] = daemon.ask("POST", "/v1/predict", {"script": script(n).decode()})
    return answer


def test_a_server_that_comes_later_is_used_as_soon_as_it_is_there(daemon: Daemon, port: int) -> None:
    daemon.start()
    daemon.spool("1.job", submission(1))
    daemon.eventually(lambda: health(daemon)["encoder_trouble"])
    (known,) = daemon.look(record(7))
    assert [estimate["source"] for estimate in known["estimates"]] == ["prior", "prior"]
    assert not known["final"] and not known["script_wanted"]
    assert "can't be reached" in health(daemon)["encoder_trouble"] and health(daemon)["waiting"] == 1
    assert (daemon.config.paths.spool / "1.job").exists()
    assert "without reading its code" in predict(daemon, 2)["remark"]
    with serving(embeds, port=port) as server:
        daemon.eventually(lambda: daemon.settled(1))
        assert daemon.look(record(7))[0]["final"] and health(daemon)["encoder_trouble"] is None
        assert predict(daemon, 2)["remark"] is None
    assert len(server.bodies) == 2
    assert predict(daemon, 2)["remark"] is None, "its vector is in the cache"
    assert daemon.log.count("can't be encoded") == 1


def test_kill_9_while_the_server_is_away_loses_nothing(daemon: Daemon, port: int) -> None:
    daemon.start()
    for n in range(3):
        daemon.spool(f"{n}.job", submission(n, name=b"job %d" % n))
    daemon.eventually(lambda: health(daemon)["submissions"] == 3 and health(daemon)["encoder_trouble"])
    daemon.end(signal.SIGKILL)
    with serving(embeds, port=port) as server:
        daemon.start()
        daemon.eventually(lambda: daemon.settled(3))
        assert all(known["final"] for known in daemon.look(*(record(n + 1, name=f"job {n}") for n in range(3))))
    assert len(server.bodies) == 3


def test_a_request_that_stalls_does_not_keep_the_daemon_from_ending(daemon: Daemon, port: int) -> None:
    with serving(stalls, port=port) as server:
        daemon.start()
        daemon.spool("1.job", submission(1))
        daemon.eventually(lambda: bool(server.bodies))
        assert daemon.end() == 0
    assert (daemon.config.paths.spool / "1.job").exists()


def test_what_ran_before_tells_of_a_text_that_is_still_to_be_encoded(daemon: Daemon, port: int) -> None:
    ran = Outcome(7, SUBMITTED, "a100", "a100", 1, "COMPLETED", SUBMITTED + 9, SUBMITTED + 99, 90.0)
    with serving(embeds, stalls, port=port) as server:
        daemon.start()
        daemon.spool("1.job", submission(1))
        daemon.eventually(lambda: daemon.settled(1))
        daemon.look(record(7))
        daemon.ask("POST", "/v1/agent/outcomes", {"outcomes": [to_json(ran)]})
        daemon.spool("2.job", submission(2, submit_time=b"%d" % (SUBMITTED + 100)))
        daemon.eventually(lambda: len(server.bodies) == 2)
        (known,) = daemon.look(record(8, submit_time=SUBMITTED + 100))
    assert (known["final"], known["estimates"][0]["source"]) == (False, "history")


# The same in this process, with short pauses


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RETRY_S", 0.01), ("LONGEST_PAUSE_S", 0.02), ("MAX_TRIES", 3), ("MAX_POSTPONED", 2)):
        monkeypatch.setattr(intake_module, name, value)


class World:
    """Intake, estimator and store in this process."""

    def __init__(self, config: Config) -> None:
        self.config, self.news = config, 0
        config.paths.state_dir.mkdir()
        self.desk = Desk(Store(config.paths.store, "test"))
        self.estimator = Estimator(config)
        self.intake = Intake(config, self.desk, self.estimator, self._told)

    def _told(self) -> None:
        self.news += 1

    async def add(self, n: int) -> int:
        request = {"tres_per_node": "gres/gpu:1", "time_limit": "30"}
        text = script(n)
        return await self.intake.add(Submission(1, "alice", "job", 1, text, len(text), request=request))

    async def model(self, stored: int) -> str | None:
        return (await self.desk.do(lambda store: store.submission(stored))).model


def in_world(folder: Path, url: str, what: Callable[[World], Awaitable[None]]) -> None:
    remote = {"url": url, "model": "m", "retries": 0}
    world = World(
        parse(
            {
                "paths": {"run_dir": str(folder), "state_dir": str(folder / "state")},
                "encoder": {"kind": "remote", "remote": remote},
                "partition": [{"name": "a100", "prior_power_w": 250.0}],
            }
        )
    )

    async def run() -> None:
        estimating = asyncio.create_task(world.intake.estimate())
        try:
            await asyncio.wait_for(what(world), 20)
        finally:
            estimating.cancel()
            world.intake.close()
            world.estimator.close()

    try:
        asyncio.run(run())
    finally:
        world.desk.close()


async def until(check: Callable[[], Any]) -> None:
    while not check():
        await asyncio.sleep(0.005)


def embeds_behind(gate: threading.Semaphore) -> Reply:
    async def reply(request: web.Request) -> web.StreamResponse:
        await asyncio.to_thread(gate.acquire, timeout=20)
        return await embeds(request)

    return reply


def refuses(word: str) -> Reply:
    """A server that refuses texts with ``word``."""

    async def reply(request: web.Request) -> web.StreamResponse:
        if word in (await request.read()).decode():
            return web.json_response({"error": {"message": "no such thing"}}, status=400)
        return await embeds(request)

    return reply


def test_a_text_that_is_refused_keeps_the_prior_in_the_end(tmp_path: Path, short: None) -> None:
    async def what(world: World) -> None:
        bad, good = await world.add(1), await world.add(2)
        await until(lambda: not world.intake.queued)
        assert [await world.model(stored) for stored in (bad, good)] == ["", ""]
        assert world.news == 3, "the prior, the end of trying, and the other's"
        sources = await world.desk.do(lambda store: [e.source for e in store.estimates(bad)])
        assert sources == ["prior"]

    with serving(refuses("epochs 1")) as server:
        in_world(tmp_path, server.url, what)
    assert len(server.bodies) == 1 + 3 + 1


def test_a_known_text_waits_for_one_new_one_at_most(tmp_path: Path) -> None:
    gate = threading.Semaphore(0)

    async def what(world: World) -> None:
        await world.add(1)
        await until(lambda: not world.intake.queued)
        new = [await world.add(n) for n in range(2, 5)]
        await until(lambda: len(server.bodies) == 2)
        known = await world.add(1)
        gate.release()
        await until(lambda: len(server.bodies) == 3)
        assert [await world.model(stored) for stored in (known, *new)] == ["", "", None, None]
        for _ in range(2):
            gate.release()

    with serving(embeds, embeds_behind(gate)) as server:
        in_world(tmp_path, server.url, what)


def test_a_cut_script_that_is_read_back_while_it_waits_leaves_nothing_in_the_spool(tmp_path: Path) -> None:
    gate = threading.Semaphore(0)

    async def what(world: World) -> None:
        file, whole = world.config.paths.spool / "1.job", script(2) + b"echo done\n"
        file.parent.mkdir()
        file.touch()
        await world.add(1)
        await until(lambda: server.bodies)
        cut = await world.intake.add(Submission(1, "alice", "job", 1, script(2), len(whole)), file.name)
        stored = await world.desk.do(lambda store: store.submission(cut))
        await world.intake.complete(stored, stored.with_script(whole))
        for _ in range(3):
            gate.release()
        await until(lambda: not world.intake.queued)
        assert await world.model(cut) == ""
        assert not file.exists()

    with serving(embeds_behind(gate)) as server:
        in_world(tmp_path, server.url, what)


def test_of_many_texts_some_wait_and_the_others_are_read_back_later(tmp_path: Path, short: None) -> None:
    async def what(world: World) -> None:
        stored = [await world.add(n) for n in range(4)]
        await until(lambda: len(world.intake.queued) == 2 and world.news == 4)
        assert world.intake.full, "nothing is read back meanwhile"
        assert [await world.model(one) for one in stored] == [None] * 4
        server.replies = [embeds]
        await until(lambda: not world.intake.queued)
        assert [await world.model(one) for one in stored] == ["", "", None, None]
        assert not world.intake.full
        lost = await world.desk.do(lambda store: store.submission(stored[3]))
        whole = script(3)
        await world.intake.complete(lost, Submission(1, "alice", "job", 1, whole, len(whole)))
        await until(lambda: not world.intake.queued)
        assert await world.model(stored[3]) == ""

    with serving(says({}, 404)) as server:
        in_world(tmp_path, server.url, what)
