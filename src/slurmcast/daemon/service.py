"""slurmcastd: the event loop around spool, store and API. One daemon a state folder."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from slurmcast.config import Config
from slurmcast.daemon.api import Api
from slurmcast.daemon.desk import Desk
from slurmcast.daemon.doors import MAX_BODIES, MAX_BODY, munge_door, unix_door
from slurmcast.daemon.estimator import Estimator
from slurmcast.daemon.intake import Intake
from slurmcast.daemon.news import News
from slurmcast.daemon.shares import Held
from slurmcast.store.store import Store, StoreError

log = logging.getLogger("slurmcast.daemon")

MODEL_CHECK_S = 2.0
EXPIRY_CHECK_S = 3600.0


def serve(config: Config) -> int:
    """Run the daemon until SIGTERM. Exit status: 0, or 1 where it can't start; the log says why."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("watchfiles").setLevel(logging.WARNING)  # it tells of every file
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # a traceback for whatever a client gets wrong
    os.umask(0o027)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # every user's connections, not only the first ones'
    try:
        with _lock(config.paths.state_dir):
            desk = Desk(Store(config.paths.store, config.cluster))
            try:
                asyncio.run(_serve(config, desk))
            finally:
                desk.close()
    except PermissionError as error:
        log.error("can't run: %s: %s; run it as the user of slurmcastd", error.filename, error.strerror)
        return 1
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


async def _serve(config: Config, desk: Desk) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    estimator = await asyncio.to_thread(_estimator, config)
    news = News()
    intake = Intake(config, desk, estimator, news.bump)
    api = Api(config, desk, estimator, intake, news)
    held = Held(MAX_BODY, MAX_BODIES)
    doors = [await unix_door(config.paths.socket, lambda caller: caller.is_agent(config.daemon), api, held)]
    if config.daemon.listen:
        doors.append(await munge_door(config.daemon.listen, config.daemon.munge_socket, api, held))
    parts = [door.serve() for door in doors]
    parts += [intake.watch(), intake.estimate(), intake.aligning.run(), api.past.encode()]
    parts += [_follow_model(estimator, news), _expire(config, desk)]
    tasks = [asyncio.create_task(part) for part in parts]
    _notify("READY=1")
    log.info("serving on %s", config.paths.socket)
    ended = asyncio.create_task(_until(stop))
    done, _ = await asyncio.wait([ended, *tasks], return_when=asyncio.FIRST_COMPLETED)
    _notify("STOPPING=1")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for door in doors:
        await door.close()
    config.paths.socket.unlink(missing_ok=True)
    intake.close()
    api.close()
    estimator.close()
    for task in done - {ended}:
        task.result()  # a part that ended by itself ends the daemon, with its error


async def _until(event: asyncio.Event) -> None:
    await event.wait()


def _estimator(config: Config) -> Estimator:
    estimator = Estimator(config)
    estimator.reload()
    return estimator


async def _follow_model(estimator: Estimator, news: News) -> None:
    """Take over each new model; the agent's next look finds that the estimates of pending jobs are outdated."""
    while True:
        await asyncio.sleep(MODEL_CHECK_S)
        try:
            if await asyncio.to_thread(estimator.reload):
                news.bump()
        except OSError as error:
            log.error("can't look for a new model: %s", error)


async def _expire(config: Config, desk: Desk) -> None:
    """Forget submissions that never became a job."""
    while True:
        expire = partial(Store.expire, before=int(time.time()) - config.daemon.spool_expiry_s)
        try:
            if gone := await desk.do(expire):
                log.info("%d submissions never became a job", gone)
        except StoreError as error:
            log.error("can't forget submissions that never became a job: %s", error)
        await asyncio.sleep(EXPIRY_CHECK_S)


def _notify(state: str) -> None:
    """Tell systemd (man sd_notify), where it asked to be told."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)
