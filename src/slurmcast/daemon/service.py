"""slurmcastd: the event loop around spool, store and API. One daemon a state folder."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from aiohttp import web

from slurmcast import munge
from slurmcast.config import Config
from slurmcast.daemon.api import Api, Caller
from slurmcast.daemon.estimator import Estimator
from slurmcast.store.store import Store, StoreError

log = logging.getLogger("slurmcast.daemon")

MAX_BODY = 64 * 1024 * 1024
MODEL_CHECK_S = 2.0
EXPIRY_CHECK_S = 3600.0
PENDING_SPAN_S = 30 * 86400

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def serve(config: Config) -> int:
    """Run the daemon until SIGTERM. Exit status: 0, or 1 where it can't start; the log says why."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    try:
        with _lock(config.paths.state_dir):
            store = Store(config.paths.store, config.cluster)
            try:
                asyncio.run(_serve(config, store))
            finally:
                store.close()
    except (StoreError, OSError) as error:
        log.error("can't run: %s", error)
        return 1
    return 0


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Hold the state folder against a second daemon; the kernel lets go of it whatever ends this one."""
    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(f"another slurmcastd runs on {folder}; stop it first") from None
        yield


async def _serve(config: Config, store: Store) -> None:
    estimator = Estimator(config)
    estimator.reload()
    api = Api(config, store, estimator)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    runners = [await _open_socket(config, api)]
    if config.daemon.listen:
        runners.append(await _open_door(config, api))
    api.intake.estimate_again()
    jobs = (api.intake.watch(), api.intake.estimate(), _follow_model(estimator, store, api), _expire(config, store))
    tasks = [asyncio.create_task(job) for job in jobs]
    _notify("READY=1")
    log.info("serving on %s", config.paths.socket)
    ended = asyncio.create_task(_until(stop))
    done, _ = await asyncio.wait([ended, *tasks], return_when=asyncio.FIRST_COMPLETED)
    _notify("STOPPING=1")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for runner in runners:
        await runner.cleanup()
    for task in done - {ended}:
        task.result()  # a part that ended by itself ends the daemon, with its error


async def _until(event: asyncio.Event) -> None:
    await event.wait()


async def _open_socket(config: Config, api: Api) -> web.AppRunner:
    """The unix socket: open to everybody, rights by peer credentials."""
    path = config.paths.socket
    path.unlink(missing_ok=True)  # of a daemon that was killed: the lock says that none runs
    runner = await _runner([web.get("/metrics", _metrics(api)), web.route("*", "/{path:.*}", _local(api))])
    await web.UnixSite(runner, str(path)).start()
    path.chmod(0o666)
    return runner


async def _open_door(config: Config, api: Api) -> web.AppRunner:
    """The TCP door for login nodes: munge credentials only."""
    host, _, port = config.daemon.listen.rpartition(":")
    runner = await _runner([web.post("/v1/munge", _remote(config, api))])
    await web.TCPSite(runner, host or "0.0.0.0", int(port)).start()
    return runner


async def _runner(routes: list[web.RouteDef]) -> web.AppRunner:
    app = web.Application(client_max_size=MAX_BODY)
    app.add_routes(routes)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    return runner


def _local(api: Api) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        peer: socket.socket = request.get_extra_info("socket")
        _, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
        status, answer = await _answer(api, Caller(uid), request.method, request.path_qs, await request.read())
        return web.json_response(answer, status=status)

    return handle


def _remote(config: Config, api: Api) -> Handler:
    munge_socket = config.daemon.munge_socket

    async def handle(request: web.Request) -> web.Response:
        try:
            credential = await asyncio.to_thread(munge.decode, await request.read(), munge_socket)
            inner = json.loads(credential.payload)
            method, path, body = str(inner["method"]), str(inner["path"]), inner.get("body")
        except munge.MungeError as error:
            return web.json_response({"error": f"the munge credential isn't accepted: {error}"}, status=401)
        except (ValueError, KeyError, TypeError):
            return web.json_response({"error": "the credential holds no request"}, status=400)
        status, answer = await api.dispatch(Caller(credential.uid), method, path, body)
        sealed = json.dumps({"status": status, "body": answer}).encode()
        # Only the user who asked can open the answer.
        return web.Response(body=await asyncio.to_thread(munge.encode, sealed, munge_socket, credential.uid))

    return handle


async def _answer(api: Api, caller: Caller, method: str, path: str, content: bytes) -> tuple[int, dict[str, object]]:
    try:
        body = json.loads(content) if content else None
    except ValueError as error:
        return 400, {"error": f"the body is no JSON: {error}"}
    try:
        return await api.dispatch(caller, method, path, body)
    except StoreError as error:
        log.error("%s", error)
        return 503, {"error": str(error)}


def _metrics(api: Api) -> Handler:
    async def handle(_request: web.Request) -> web.Response:
        _, health = await api.dispatch(Caller(0), "GET", "/v1/health", None)
        numbers = {name: health[name] for name in ("submissions", "estimates", "outcomes", "waiting", "rejected")}
        numbers["encode_seconds_total"] = api.intake.encode_seconds
        return web.Response(text="".join(f"slurmcast_{name} {value}\n" for name, value in numbers.items()))

    return handle


async def _follow_model(estimator: Estimator, store: Store, api: Api) -> None:
    """Take over each new model and estimate anew what is still pending."""
    while True:
        await asyncio.sleep(MODEL_CHECK_S)
        if await asyncio.to_thread(estimator.reload):
            store.outdate_pending(int(time.time()) - PENDING_SPAN_S)
            api.intake.estimate_again()


async def _expire(config: Config, store: Store) -> None:
    while True:
        if gone := store.expire(int(time.time()) - config.daemon.spool_expiry_s):
            log.info("%d submissions never became a job", gone)
        await asyncio.sleep(EXPIRY_CHECK_S)


def _notify(state: str) -> None:
    """Tell systemd (man sd_notify), where it asked to be told."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)
