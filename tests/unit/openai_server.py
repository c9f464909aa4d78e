"""A small real HTTP server that answers as a test tells it to, well or badly."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Reply = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Server:
    """``replies`` are used up in order, the last one for ever. What came in is in ``bodies`` and ``headers``."""

    url: str = ""
    replies: list[Reply] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(json.loads(await request.read()))
        self.headers.append(dict(request.headers))
        self.paths.append(request.path)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return await reply(request)


@contextmanager
def serving(*replies: Reply, port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """A server on 127.0.0.1 in a thread of its own, gone afterwards."""
    server, loop, ready = Server(replies=list(replies)), asyncio.new_event_loop(), threading.Event()

    async def start() -> web.AppRunner:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", server.handle)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls)
        await site.start()
        server.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}/v1"
        return runner

    def run() -> None:
        asyncio.set_event_loop(loop)
        runner = loop.run_until_complete(start())
        ready.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(10), "the test's server didn't start"
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def says(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Reply:
    """``value`` as JSON."""

    async def reply(request: web.Request) -> web.StreamResponse:
        return web.json_response(value, status=status, headers=headers)

    return reply


def sends(data: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Reply:
    """``data`` as it is."""

    async def reply(request: web.Request) -> web.StreamResponse:
        return web.Response(body=data, status=status, headers=headers)

    return reply


async def hangs_up(request: web.Request) -> web.StreamResponse:
    """Closes the connection without a word."""
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def stalls(request: web.Request) -> web.StreamResponse:
    """Takes the request and says nothing."""
    await asyncio.sleep(60)
    return web.Response()


async def drips(request: web.Request) -> web.StreamResponse:
    """An answer that comes byte by byte and has no end."""
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.02)


async def drips_headers(request: web.Request) -> web.StreamResponse:
    """Headers that come byte by byte and have no end."""
    assert request.transport is not None
    request.transport.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while True:
        request.transport.write(b"a")
        await asyncio.sleep(0.02)


async def breaks_off(request: web.Request) -> web.StreamResponse:
    """Promises more than it sends."""
    assert request.transport is not None
    request.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}")
    request.transport.close()
    return web.Response()
