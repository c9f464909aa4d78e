"""A small OpenAI-style chat server, really spoken to over HTTP, whose answers a test decides."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Chat = Callable[[str], "str | web.Response"]
"""What to answer to a user's message: the content of a good answer, or any other response. May block."""


@dataclass
class Server:
    """A running server, and the requests that it got."""

    url: str
    chat: Chat
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


@contextmanager
def chat_server(chat: Chat) -> Iterator[Server]:
    """Serves ``/v1/chat/completions`` on 127.0.0.1 from a thread of its own."""
    loop, server = asyncio.new_event_loop(), Server("", chat)

    async def answer(request: web.Request) -> web.Response:
        body = await request.json()
        server.bodies.append(body)
        server.headers.append(dict(request.headers))
        said = await asyncio.to_thread(server.chat, body["messages"][-1]["content"])
        return said if isinstance(said, web.Response) else web.json_response(completion(said))

    async def start() -> web.AppRunner:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    runner = loop.run_until_complete(start())
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def completion(content: Any, finish_reason: str = "stop") -> dict[str, Any]:
    """The body of a chat server's answer."""
    message = {"role": "assistant", "content": content}
    return {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}


def texts(message: str) -> tuple[str, str]:
    """The example and the program in a user's message."""
    example, program = (part.split("```")[1].strip("\n") for part in message.split("PROGRAM:\n", 1))
    return example, program


def raw(body: Any, status: int = 200) -> web.Response:
    """Any JSON as an answer."""
    return web.Response(text=json.dumps(body), status=status, content_type="application/json")
