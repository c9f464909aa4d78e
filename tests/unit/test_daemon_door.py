"""One door alone, with work that takes as long as a test wants: which connections are closed, and when."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from slurmcast.daemon import door as door_module
from slurmcast.daemon.door import CONNECTION_SIZE, Door, Visit
from slurmcast.daemon.shares import Held

HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class World:
    """A door on 127.0.0.1 with room for two connections of a host; others are 127.0.0.2 and so on."""

    port: int
    closed: Counter[tuple[str, str]]
    go: asyncio.Event = field(default_factory=asyncio.Event)
    """Requests are answered from then on."""
    answer: bytes = b"done"
    begun: int = 0

    async def work(self, request: web.Request, visit: Visit) -> web.Response:
        await request.read()
        with visit.answering():
            self.begun += 1
            await self.go.wait()
            return web.Response(body=self.answer)

    async def connect(self, sent: bytes = b"", host: int = 1) -> Connection:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(f"127.0.0.{host}", 0))
        writer.write(sent)
        await asyncio.sleep(0.05)  # it is taken in
        return reader, writer


@contextlib.asynccontextmanager
async def world(longest_s: float = 60.0) -> AsyncIterator[World]:
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # so that answers wait here, not in the kernel
    listening.setblocking(False)
    there = World(listening.getsockname()[1], Counter())
    held = Held(2 * CONNECTION_SIZE, 5 * CONNECTION_SIZE)
    door = Door("test", listening, lambda c: str(c.getpeername()[0]), held, there.closed, longest_s)
    await door.open([("POST", "/", there.work)])
    serving = asyncio.create_task(door.serve())
    try:
        yield there
    finally:
        there.go.set()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await door.close()


async def answer(connection: Connection) -> bytes:
    """All that comes; empty where the connection is closed without an answer."""
    try:
        return await asyncio.wait_for(connection[0].read(), 20)
    except ConnectionError:
        return b""


async def still_open(connection: Connection) -> bool:
    with contextlib.suppress(TimeoutError):
        return bool(await asyncio.wait_for(connection[0].read(1), 0.2))
    return True


async def the_oldest_that_waits_makes_room() -> None:
    async with world() as there:
        first, second = await there.connect(HEAD), await there.connect()
        third = await there.connect(HEAD + b"body")
        assert await answer(first) == b"" and await still_open(second)
        there.go.set()
        assert (await answer(third)).startswith(b"HTTP/1.1 200")
        assert there.closed == {("test", "crowded"): 1}


async def who_is_being_answered_is_never_closed() -> None:
    async with world() as there:
        busy = [await there.connect(HEAD + b"body") for _ in range(2)]
        refused = await there.connect(HEAD + b"body")
        assert await answer(refused) == b"" and there.closed == {("test", "refused"): 1}
        other = await there.connect(HEAD + b"body", host=2)
        there.go.set()
        for connection in (*busy, other):
            assert (await answer(connection)).startswith(b"HTTP/1.1 200")


async def who_goes_while_he_is_answered_still_counts() -> None:
    async with world() as there:
        for _ in range(6):
            _, writer = await there.connect(HEAD + b"body")
            writer.close()
            await asyncio.sleep(0.05)
        assert there.begun == 2 and there.closed == {("test", "refused"): 4}
        there.go.set()
        await asyncio.sleep(0.1)
        assert (await answer(await there.connect(HEAD + b"body"))).startswith(b"HTTP/1.1 200")


async def who_does_not_take_his_answer_still_counts() -> None:
    for size in (50_000, 20_000_000):  # asyncio holds the rest of it, or aiohttp
        async with world() as there, contextlib.AsyncExitStack() as lazy:
            there.go.set()
            there.answer = bytes(size)
            for _ in range(3):
                client = lazy.enter_context(socket.socket())
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.connect(("127.0.0.1", there.port))
                client.sendall(HEAD + b"body")
                await asyncio.sleep(0.1)
            assert there.begun == 3 and there.closed == {("test", "crowded"): 1}


async def a_trickle_has_no_more_time_than_silence() -> None:
    async with world() as there:
        trickles = [await there.connect(sent, host=2) for sent in (b"", HEAD.replace(b"4", b"400"))]
        silent = await there.connect(HEAD)

        async def send(writer: asyncio.StreamWriter, text: bytes) -> None:
            for byte in text:
                writer.write(bytes([byte]))
                await asyncio.sleep(0.1)

        sending = [asyncio.create_task(send(writer, HEAD)) for _, writer in trickles]  # of head or body, to no end
        in_time = await there.connect(HEAD + b"body", host=3)
        for connection in (*trickles, silent):
            assert await answer(connection) == b""
        assert there.closed == {("test", "slow"): 3}
        there.go.set()
        assert (await answer(in_time)).startswith(b"HTTP/1.1 200")
        for task in sending:
            task.cancel()


async def an_answer_has_its_time_too() -> None:
    async with world(longest_s=0.5) as there:
        assert await answer(await there.connect(HEAD + b"body")) == b""
        assert there.closed == {("test", "slow"): 1}


async def one_request_a_connection() -> None:
    async with world() as there:
        there.go.set()
        text = await answer(await there.connect(2 * (HEAD + b"body")))
        assert text.count(b"HTTP/1.1 200") == 1 and b"Connection: close" in text and there.begun == 1


async def reset_connections_hurt_nobody() -> None:
    async with world() as there:
        there.go.set()
        for sent in (b"", b"POST", HEAD, HEAD + b"body") * 20:
            with socket.create_connection(("127.0.0.1", there.port)) as client:
                client.sendall(sent)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await asyncio.sleep(0.1)
        assert (await answer(await there.connect(HEAD + b"body"))).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "story",
    [
        the_oldest_that_waits_makes_room,
        who_is_being_answered_is_never_closed,
        who_goes_while_he_is_answered_still_counts,
        who_does_not_take_his_answer_still_counts,
        a_trickle_has_no_more_time_than_silence,
        an_answer_has_its_time_too,
        one_request_a_connection,
        reset_connections_hurt_nobody,
    ],
)
def test_door(story: Callable[[], Coroutine[None, None, None]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "SEND_S", 1.5)
    monkeypatch.setattr(door_module, "SWEEP_S", 0.1)
    asyncio.run(story())
