"""How requests come in: the unix socket, open to every user of this host, and the munge-authenticated TCP door.

Both take a bounded number of connections from each peer, so that nobody can use them up for the others.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web

from slurmcast import munge
from slurmcast.daemon.api import Api
from slurmcast.daemon.requests import Caller, Refused
from slurmcast.store.store import StoreError

log = logging.getLogger("slurmcast.doors")

MAX_BODY = 8 * 1024 * 1024
"""Twice Slurm's longest script; also what all requests of one user may hold at a time."""
MAX_BODIES = 3 * MAX_BODY
"""Bytes of requests in memory at a time, the agent's apart. As objects they may take thirty times more."""
MAX_CREDENTIAL = 2 * 1024 * 1024
"""munged opens none of more than half of that."""
MAX_AGENT_BODY = 256 * 1024 * 1024
"""The agent sends all pending jobs at once, about 1.5 KB each."""
BODY_S = 30.0
"""Within this time a request's body must have come."""
IDLE_S = 30.0
MAX_CONNECTIONS = 64
"""Connections at a time of one user, or at the TCP door of one host."""
DOOR_S = 60.0
"""A TCP connection is one request; after this time it is closed."""
BACKLOG = 512

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Held:
    """How much memory requests take, by whose they are, from the first byte of each until it is answered."""

    def __init__(self, each: int, total: int) -> None:
        self._each, self._total = each, total
        self._held: Counter[Hashable] = Counter()

    @contextmanager
    def room(self, who: Hashable) -> Iterator[Callable[[int], None]]:
        """A function that takes so many bytes more for the request, or raises :class:`Refused`."""
        mine = 0

        def take(size: int) -> None:
            nonlocal mine
            if self._held[who] + size > self._each or self._held.total() + size > self._total:
                raise Refused(503, "too much is being sent at a time; try again in a few seconds")
            self._held[who] += size
            mine += size

        try:
            yield take
        finally:
            self._held[who] -= mine
            if not self._held[who]:
                del self._held[who]


class Door:
    """A listening socket whose connections are counted by ``peer``."""

    def __init__(
        self,
        listening: socket.socket,
        runner: web.AppRunner,
        peer: Callable[[socket.socket], Hashable],
        longest_s: float | None = None,
    ) -> None:
        self._listening, self._runner, self._peer, self._longest_s = listening, runner, peer, longest_s
        self._open: dict[Hashable, set[asyncio.Transport]] = {}

    async def serve(self) -> None:
        """Accept connections. Ends only by cancellation."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listening)
            except OSError as error:  # out of file descriptors: what is waiting will be served when some are free
                log.error("can't accept a connection: %s", error)
                await asyncio.sleep(0.5)
                continue
            await self._admit(connection)

    async def _admit(self, connection: socket.socket) -> None:
        loop, server = asyncio.get_running_loop(), self._runner.server
        self._forget_closed()
        try:
            peer = self._peer(connection)
        except OSError:  # gone already
            connection.close()
            return
        theirs = self._open.setdefault(peer, set())
        if len(theirs) >= MAX_CONNECTIONS or server is None:
            connection.close()
            return
        transport, _ = await loop.connect_accepted_socket(server, connection)
        theirs.add(transport)
        if self._longest_s is not None:
            loop.call_later(self._longest_s, transport.abort)

    def _forget_closed(self) -> None:
        alive = {peer: {t for t in theirs if not t.is_closing()} for peer, theirs in self._open.items()}
        self._open = {peer: theirs for peer, theirs in alive.items() if theirs}

    async def close(self) -> None:
        """Take no more requests and end those that wait."""
        self._listening.close()
        await self._runner.cleanup()


async def unix_door(path: Path, agent_body: Callable[[Caller], bool], api: Api, held: Held) -> Door:
    """The unix socket: open to everybody, rights by peer credentials. The state folder's lock must be held.

    Raises OSError.
    """
    path.unlink(missing_ok=True)  # of a daemon that was killed: the lock says that none runs
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    before = os.umask(0o111)
    try:
        listening.bind(str(path))
    except OSError as error:
        listening.close()
        raise OSError(f"{path}: {error}; does its folder exist, and may this user write there?") from None
    finally:
        os.umask(before)
    listening.listen(BACKLOG)

    async def local(request: web.Request) -> web.Response:
        caller = Caller(_peer_uid(request.get_extra_info("socket")))
        if agent_body(caller):
            return await answer(request, caller, await _body(request, MAX_AGENT_BODY))
        with held.room(caller.uid) as take:
            return await answer(request, caller, await _body(request, MAX_BODY, take))

    async def answer(request: web.Request, caller: Caller, content: bytes) -> web.Response:
        try:
            body = json.loads(content) if content else None
        except (ValueError, RecursionError) as error:
            raise Refused(400, f"the body is no JSON: {error}") from None
        return web.json_response(await api.dispatch(caller, request.method, request.path_qs, body))

    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(text=await api.metrics())

    routes = [web.get("/metrics", _answered(metrics)), web.route("*", "/{path:.*}", _answered(local))]
    return Door(listening, await _runner(routes), _peer_uid)


async def munge_door(address: str, munge_socket: str, api: Api, held: Held) -> Door:
    """The TCP door for login nodes: munge credentials only. Raises OSError."""
    host, _, port = address.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise OSError(f"daemon.listen = {address!r}: must be host:port")
    host = host.strip("[]") or "0.0.0.0"
    try:
        listening = socket.create_server(
            (host, int(port)), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=BACKLOG
        )
    except OSError as error:
        raise OSError(f"daemon.listen = {address!r}: {error}") from None
    listening.setblocking(False)
    # munge and unmunge block; a munged that hangs must not take the threads of others.
    munging = ThreadPoolExecutor(4, "munge")

    unproved = Held(4 * MAX_CREDENTIAL, 16 * MAX_CREDENTIAL)  # by host: nobody has proved who he is yet

    async def remote(request: web.Request) -> web.Response:
        loop = asyncio.get_running_loop()
        with unproved.room(request.remote) as take:
            credential = await _body(request, MAX_CREDENTIAL, take)
            try:
                unpack = partial(munge.unpacked, credential, munge_socket, MAX_BODY)
                uid, content = await loop.run_in_executor(munging, unpack)
            except munge.TooLong as error:
                raise Refused(413, f"{error}; send less at a time") from None
            except munge.MungeError as error:
                raise Refused(401, f"the munge credential isn't accepted: {error}") from None
        with held.room(uid) as take:
            take(len(content))
            method, path, body = _asked(content)
            status, answer = await _outcome(api.dispatch(Caller(uid), method, path, body))
        # Only the user who asked can open the answer.
        seal = partial(munge.seal, {"status": status, "body": answer}, munge_socket, uid)
        try:
            return web.Response(body=await loop.run_in_executor(munging, seal))
        except munge.MungeError as error:
            raise Refused(502, f"the answer can't be put into a munge credential: {error}") from None

    runner = await _runner([web.post("/v1/munge", _answered(remote))])
    return Door(listening, runner, lambda connection: connection.getpeername()[0], DOOR_S)


def _asked(content: bytes) -> tuple[str, str, Any]:
    """Method, path and body out of an opened credential."""
    try:
        value = munge.parsed(content)
        return str(value["method"]), str(value["path"]), value.get("body")
    except munge.MungeError as error:
        raise Refused(400, str(error)) from None
    except (KeyError, TypeError, AttributeError):
        raise Refused(400, "the credential holds no request; is the client of another version?") from None


def _peer_uid(connection: socket.socket) -> int:
    """The user at the other end, as the kernel says (man unix, SO_PEERCRED)."""
    size = struct.calcsize("3i")
    return int(struct.unpack("3I", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[1])


async def _runner(routes: list[web.RouteDef]) -> web.AppRunner:
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, keepalive_timeout=IDLE_S)
    await runner.setup()
    return runner


async def _body(request: web.Request, most: int, take: Callable[[int], None] = lambda _: None) -> bytes:
    """The request's body; ``take`` is told of each part."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.content.iter_any():
                parts.append(part)
                size += len(part)
                if size > most:
                    raise Refused(413, f"the request has more than {most} bytes; send less at a time")
                take(len(part))
    except TimeoutError:
        raise Refused(408, f"the request didn't come within {BODY_S:g} s") from None
    return b"".join(parts)


def _answered(handler: Handler) -> Handler:
    """``handler`` with every error as status and JSON."""

    async def handle(request: web.Request) -> web.StreamResponse:
        status, answer = await _outcome(handler(request))
        return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer, status=status)

    return handle


async def _outcome(work: Awaitable[Any]) -> tuple[int, Any]:
    """Status and answer of some work; what goes wrong is an answer too."""
    try:
        return 200, await work
    except Refused as refusal:
        return refusal.status, {"error": str(refusal)}
    except StoreError as error:
        log.error("%s", error)
        return 503, {"error": str(error)}
    except (web.HTTPException, ConnectionError):
        raise
    except Exception:  # a fault of ours must not look like silence
        log.exception("a request failed")
        return 500, {"error": "slurmcastd failed at this request; its log says why"}
