"""A listening socket that nobody can use up for the others: each peer has its share of connections, of one request
each, and a request has its time."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from slurmcast.daemon.requests import Refused
from slurmcast.daemon.shares import Held, Share

log = logging.getLogger("slurmcast.doors")

SEND_S = 30.0
"""Within this time of its connection, a whole request must have come."""
SWEEP_S = 1.0
"""How often it is looked whose time is over."""
TELL_S = 60.0
"""The log has at most one line of a kind in this time."""
CONNECTION_SIZE = 64 * 1024
"""What a connection counts for beside what is read from it: aiohttp takes in as much before anybody asks for it."""

CROWDED, REFUSED, SLOW = "crowded", "refused", "slow"
WORDS = {CROWDED: "to make room for newer ones", REFUSED: "at once, for want of room", SLOW: "that took too long"}
"""Why connections are closed."""

Work = Callable[[web.Request, "Visit"], Awaitable[web.StreamResponse]]


class Seldom:
    """Whether it's time for another line of its kind in the log."""

    def __init__(self) -> None:
        self._next = -math.inf

    def __call__(self) -> bool:
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + TELL_S
        return True


@dataclass(eq=False, slots=True)
class Visit:
    """One connection, and its request."""

    connection: socket.socket
    share: Share
    since: float
    transport: asyncio.Transport | None = None
    came: bool = False
    """Whether all of the request has come."""
    closed: bool = False
    """Whether we have closed it."""

    @contextmanager
    def answering(self) -> Iterator[None]:
        """The request has come and the peer waits for us: the connection is closed for nobody, and counts until the
        end even if the peer goes. Raises ConnectionError where it was closed before."""
        if self.closed:
            raise ConnectionResetError("the connection was closed")
        self.came = True
        give_up, self.share.give_up = self.share.give_up, None
        try:
            yield
        finally:
            self.share.give_up = give_up


class Door:
    """Takes connections from ``listening``, which must not block.

    ``peer`` names who is at the other end, and None whoever isn't to be counted; it may raise OSError. ``held`` bounds
    what each may have: a connection counts for :data:`CONNECTION_SIZE`, and what else is taken for its share. The
    oldest that waits for its peer makes room for a new one: who opens connections and sends nothing loses his own, and
    who sends a request is heard. ``longest_s`` after its connection, a request is over. ``closed`` is told of those
    that we close, by name and :data:`WORDS`.
    """

    def __init__(
        self,
        name: str,
        listening: socket.socket,
        peer: Callable[[socket.socket], str | None],
        held: Held,
        closed: Counter[tuple[str, str]],
        longest_s: float = math.inf,
    ) -> None:
        self._name, self._listening, self._peer = name, listening, peer
        self._held, self._closed, self._longest_s = held, closed, longest_s
        self._app = web.Application()
        self._app.on_response_prepare.append(_one_request_each)
        self._runner = web.AppRunner(self._app, access_log=None, shutdown_timeout=1.0)
        self._visits: dict[RequestHandler, Visit] = {}
        """By aiohttp's end of the connection, which each request knows."""
        self._untold: Counter[str] = Counter()
        self._last: Hashable = None
        """Whose connection was closed last."""

    async def open(self, routes: Iterable[tuple[str, str, Work]]) -> None:
        """Method, path and work of each request that is answered."""
        self._app.add_routes([web.route(method, path, partial(self._visited, work)) for method, path, work in routes])
        await self._runner.setup()

    async def serve(self) -> None:
        """Accept connections. Ends only by cancellation."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._accept())
            tasks.create_task(self._sweep())

    async def close(self) -> None:
        """Take no more requests and end those that wait."""
        self._listening.close()
        await self._runner.cleanup()

    async def _visited(self, work: Work, request: web.Request) -> web.StreamResponse:
        visit = self._visits.get(request.protocol)
        if visit is None:
            raise ConnectionResetError("the connection was closed")
        return await work(request, visit)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listening)
            except OSError as error:  # out of file descriptors: what is waiting will be served when some are free
                log.error("can't accept a connection: %s", error)
                await asyncio.sleep(0.5)
                continue
            await self._admit(connection)
            await asyncio.sleep(0)  # however many come: those that are here go on

    async def _admit(self, connection: socket.socket) -> None:
        loop, server = asyncio.get_running_loop(), self._runner.server
        assert server is not None  # since open()
        self._forget_closed()
        peer = None
        try:
            peer = self._peer(connection)
            share = Share(None) if peer is None else self._held.enter(peer, CONNECTION_SIZE)
        except (OSError, Refused) as error:
            connection.close()
            if isinstance(error, Refused):  # else it is gone already
                self._note(REFUSED, peer)
            return
        protocol = server()
        visit = self._visits[protocol] = Visit(connection, share, loop.time())
        visit.transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection)
        share.give_up = partial(self._close, visit, CROWDED)

    def _forget_closed(self) -> None:
        """A connection is over when its socket is closed, after the last byte of the answer, and nobody works on it."""
        for protocol, visit in list(self._visits.items()):
            if visit.connection.fileno() < 0 and visit.share.give_up is not None:
                del self._visits[protocol]
                self._held.leave(visit.share)

    def _close(self, visit: Visit, why: str) -> None:
        visit.closed = True
        if visit.transport is not None:
            visit.transport.abort()
        self._note(why, visit.share.who)

    def _note(self, why: str, peer: Hashable) -> None:
        self._closed[self._name, why] += 1
        self._untold[why] += 1
        self._last = peer

    async def _sweep(self) -> None:
        loop, seldom = asyncio.get_running_loop(), Seldom()
        while True:
            await asyncio.sleep(SWEEP_S)
            self._forget_closed()
            for visit in self._visits.values():
                longest_s = self._longest_s if visit.came else min(SEND_S, self._longest_s)
                if visit.share.who is not None and not visit.closed and loop.time() > visit.since + longest_s:
                    self._close(visit, SLOW)
            if self._untold and seldom():
                counts = ", ".join(f"{count} {WORDS[why]}" for why, count in self._untold.items())
                log.warning("the %s door closed connections: %s; the last was of %s", self._name, counts, self._last)
                self._untold.clear()


async def _one_request_each(_request: web.Request, response: web.StreamResponse) -> None:
    """A connection ends with its answer, so that the time of each request counts from a connection."""
    response.force_close()
    response.headers["Connection"] = "close"
