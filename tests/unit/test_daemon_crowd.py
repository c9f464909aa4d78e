"""A user who opens connections and sends nothing whole keeps nobody from slurmcastd: at either door, on either host."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from slurmcast import munge
from slurmcast.daemon.doors import ALL_CONNECTIONS, MAX_CREDENTIAL, USER_CONNECTIONS
from tests.unit.daemon_harness import ALICE, BOB, Daemon, daemon_in, login_node

HEAD = b"POST /v1/munge HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
HALVES = {
    "nothing": b"",
    "half a head": b"POST /v1/mun",
    "half a body": HEAD % 99 + b"MUNGE:",
    "half of a large body": HEAD % MAX_CREDENTIAL + b"x" * (MAX_CREDENTIAL // 2),
}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with daemon_in(tmp_path) as unit:
        yield unit


@pytest.fixture(autouse=True)
def _many_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def is_closed(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


@contextmanager
def crowd(connect: Callable[[int], socket.socket], half: bytes, most: int) -> Iterator[None]:
    """``most`` connections that each send a half request, and whenever one is closed, another one. It is anybody else's
    turn when all have come. ``connect`` is told their number."""
    those: list[socket.socket] = []
    full, stop = threading.Event(), threading.Event()

    def come() -> None:
        number = 0
        while not stop.is_set():
            if number >= most:
                full.set()
                client = those.pop(0)
                if not is_closed(client):
                    those.append(client)
                    time.sleep(0.001)
                    continue
                client.close()
            client = connect(number)
            those.append(client)
            with suppress(OSError):
                client.sendall(half)
            number += 1

    thread = threading.Thread(target=come)
    thread.start()
    try:
        assert full.wait(60)
        yield
    finally:
        stop.set()
        thread.join(60)
        for client in those:
            client.close()


def dialled(door: str, host: str = "127.0.0.1") -> socket.socket:
    """A connection to the TCP door, from one of this machine's many addresses."""
    address, _, port = door.rpartition(":")
    return socket.create_connection((address, int(port)), 20, source_address=(host, 0))


def metric(daemon: Daemon, door: str, reason: str) -> float:
    with daemon.connected() as client:
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        text = client.makefile().read()
    name = f'slurmcast_connections_closed_total{{door="{door}",reason="{reason}"}} '
    return sum(float(line.removeprefix(name)) for line in text.splitlines() if line.startswith(name))


@pytest.mark.parametrize("half", HALVES)
def test_half_requests_of_one_user_keep_nobody_from_the_tcp_door(
    daemon: Daemon, munged: str, tmp_path: Path, half: str
) -> None:
    """Not even those on the same host, however many come and for however long."""
    door = daemon.start_with_door(munged)
    client = login_node(tmp_path, door, munged)
    with crowd(lambda _: dialled(door), HALVES[half], 100 if "large" in half else 900):
        for _ in range(20):
            assert client.request("GET", "/v1/health")["status"] == "ok"
    daemon.eventually(lambda: "the munge door closed connections" in daemon.log)
    assert "the last was of host 127.0.0.1" in daemon.log and daemon.log.count("closed connections") < 5
    assert metric(daemon, "munge", "crowded") > 100


def test_from_many_hosts_too(daemon: Daemon, munged: str, tmp_path: Path) -> None:
    """More than the door takes altogether: a host that has few connections keeps even a slow one."""
    door = daemon.start_with_door(munged)
    client = login_node(tmp_path, door, munged)
    credential = munge.seal({"method": "GET", "path": "/v1/health"}, munged)
    with dialled(door) as slow:
        slow.sendall(HEAD % len(credential) + credential[:10])
        with crowd(lambda n: dialled(door, f"127.0.1.{n % 40}"), b"POST", ALL_CONNECTIONS + 200):
            for _ in range(10):
                assert client.request("GET", "/v1/health")["status"] == "ok"
            slow.sendall(credential[10:])
            assert slow.recv(12) == b"HTTP/1.1 200"


def test_who_is_being_answered_is_not_closed_for_a_crowd(daemon: Daemon, munged: str, tmp_path: Path) -> None:
    door = daemon.start_with_door(munged)
    text = "#SBATCH --gres=gpu:1\n" + "".join(f"echo {n}\n" for n in range(20_000))  # a second or more to encode
    request = munge.seal({"method": "POST", "path": "/v1/predict", "body": {"script": text}}, munged)
    with dialled(door) as busy:
        busy.sendall(HEAD % len(request) + request)
        with crowd(lambda _: dialled(door), b"POST", 300):
            assert busy.recv(12) == b"HTTP/1.1 200"


def test_a_user_at_the_socket_takes_only_his_own(daemon: Daemon) -> None:
    """The agent isn't counted, so no bound can ever hit it."""
    daemon.start()
    agents = [daemon.connected() for _ in range(2 * USER_CONNECTIONS)]
    hers = [daemon.connected(ALICE) for _ in range(2 * USER_CONNECTIONS)]
    daemon.eventually(lambda: sum(is_closed(client) for client in hers) == USER_CONNECTIONS)
    assert [is_closed(client) for client in hers] == [n < USER_CONNECTIONS for n in range(len(hers))]  # the oldest
    assert not any(is_closed(client) for client in agents)
    for uid in (ALICE, BOB):
        assert daemon.ask_as(uid, "GET", "/v1/health")["status"] == "ok"
    assert metric(daemon, "unix", "crowded") == USER_CONNECTIONS + 1
    daemon.eventually(lambda: f"the last was of user {ALICE}" in daemon.log)
