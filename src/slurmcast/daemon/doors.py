"""How requests come in: the unix socket, open to every user of this host, and the munge-authenticated TCP door."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web

from slurmcast import munge
from slurmcast.daemon.api import Api
from slurmcast.daemon.door import CONNECTION_SIZE, Door, Seldom, Visit, Work
from slurmcast.daemon.requests import Caller, Refused
from slurmcast.daemon.shares import Held
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
USER_CONNECTIONS, ALL_CONNECTIONS = 64, 1024
"""At a time, at the unix socket; the agent's are not counted."""
HOST_ROOM, DOOR_ROOM = 8 * 1024 * 1024, 64 * 1024 * 1024
"""What the connections of one host, and of all, may hold at the TCP door: 128 and 1,024 that send nothing. A login node
has many users, but a request that has come is never closed for another, and the daemon answers hundreds a second."""
DOOR_S = 60.0
"""A TCP connection is closed after this time, whoever is waited for."""
BACKLOG = 512

T = TypeVar("T")


async def unix_door(path: Path, is_agent: Callable[[Caller], bool], api: Api, held: Held) -> Door:
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

    def peer(connection: socket.socket) -> str | None:
        caller = Caller(_peer_uid(connection))
        return None if is_agent(caller) else f"user {caller.uid}"

    async def local(request: web.Request, visit: Visit) -> web.Response:
        caller = Caller(_peer_uid(request.get_extra_info("socket")))
        if is_agent(caller):
            return await answer(request, caller, await _body(request, MAX_AGENT_BODY))
        with held.room(caller.uid) as take:
            content = await _body(request, MAX_BODY, take)
            with visit.answering():
                return await answer(request, caller, content)

    async def answer(request: web.Request, caller: Caller, content: bytes) -> web.Response:
        try:
            body = json.loads(content) if content else None
        except (ValueError, RecursionError) as error:
            raise Refused(400, f"the body is no JSON: {error}") from None
        return web.json_response(await api.dispatch(caller, request.method, request.path_qs, body))

    async def metrics(_request: web.Request, visit: Visit) -> web.Response:
        with visit.answering():
            return web.Response(text=await api.metrics())

    places = Held(USER_CONNECTIONS * CONNECTION_SIZE, ALL_CONNECTIONS * CONNECTION_SIZE)
    door = Door("unix", listening, peer, places, api.closed)
    await door.open([("GET", "/metrics", _answered(metrics)), ("*", "/{path:.*}", _answered(local))])
    return door


async def munge_door(address: str, munge_socket: str, api: Api, held: Held) -> Door:
    """The TCP door for login nodes: munge credentials only. Raises OSError."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        listening = socket.create_server(
            (host, int(port)), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=BACKLOG
        )
    except OSError as error:
        raise OSError(f"daemon.listen = {address!r}: {error}") from None
    listening.setblocking(False)
    # munge and unmunge block; a munged that hangs must not take the threads of others.
    munging = ThreadPoolExecutor(4, "munge")

    async def remote(request: web.Request, visit: Visit) -> web.Response:
        credential = await _body(request, MAX_CREDENTIAL, partial(places.take, visit.share))
        with visit.answering():
            return await opened(credential)

    async def opened(credential: bytes) -> web.Response:
        try:
            uid, content = await munged(partial(munge.unpacked, credential, munge_socket, MAX_BODY))
        except munge.TooLong as error:
            raise Refused(413, f"{error}; send less at a time") from None
        except munge.MungeError as error:
            raise Refused(401, f"the munge credential isn't accepted: {error}") from None
        with held.room(uid) as take:
            take(len(content))
            method, path, body = _asked(content)
            status, answer = await _outcome(api.dispatch(Caller(uid), method, path, body))
        # Only the user who asked can open the answer.
        try:
            sealed = await munged(partial(munge.seal, {"status": status, "body": answer}, munge_socket, uid))
        except munge.MungeError as error:
            raise Refused(502, f"the answer can't be put into a munge credential: {error}") from None
        return web.Response(body=sealed)

    seldom = Seldom()

    async def munged(work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(munging, work)
        except munge.NoAnswer as error:
            if seldom():
                log.error("nobody is served from other hosts: munge doesn't answer: %s", error)
            problem = f"munge doesn't answer on slurmcastd's host: {error}"
            raise Refused(503, f"{problem}; ask your admin to look there: systemctl status munge") from None

    places = Held(HOST_ROOM, DOOR_ROOM)  # by host: nobody has proved who he is yet
    door = Door(
        "munge", listening, lambda connection: f"host {connection.getpeername()[0]}", places, api.closed, DOOR_S
    )
    await door.open([("POST", "/v1/munge", _answered(remote))])
    return door


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


async def _body(request: web.Request, most: int, take: Callable[[int], None] = lambda _: None) -> bytes:
    """The request's body; ``take`` is told of each part."""
    parts, size = [], 0
    async for part in request.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > most:
            raise Refused(413, f"the request has more than {most} bytes; send less at a time")
        take(len(part))
    return b"".join(parts)


def _answered(work: Work) -> Work:
    """``work`` with every error as status and JSON."""

    async def handle(request: web.Request, visit: Visit) -> web.StreamResponse:
        status, answer = await _outcome(work(request, visit))
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
