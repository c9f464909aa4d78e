"""The client's errors say what to do; it needs nothing heavy."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from slurmcast.client import Client, ClientError
from slurmcast.config import ClientConfig, Config, Paths


def config(run: Path, server: str = "", timeout_s: float = 10.0) -> Config:
    return replace(Config(), paths=Paths(run_dir=run), client=ClientConfig(server=server, timeout_s=timeout_s))


@contextmanager
def answering(run: Path, answer: bytes | None) -> Iterator[None]:
    """Something that answers one connection, None: never, on the daemon's socket."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(run / "slurmcastd.sock"))
        listening.listen()

        def serve() -> None:
            connection, _ = listening.accept()
            connection.recv(1000)
            if answer is not None:
                connection.sendall(answer)
                connection.close()
            else:
                connection.recv(1000)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield
        thread.join(10)


def http(status: str, body: bytes) -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (http("404 Not Found", b'{"error": "no such thing; do that"}'), "^no such thing; do that$"),
        (http("500 Oops", b"<html>"), "status 500 and no JSON"),
        (http("500 Oops", b"[1]"), "1"),
        (b"", "closed the connection .* try again"),
        (b"nonsense\r\n\r\n", "no answer from slurmcastd"),
    ],
)
def test_what_the_daemon_says_is_an_error(tmp_path: Path, answer: bytes, problem: str) -> None:
    with answering(tmp_path, answer), pytest.raises(ClientError, match=problem):
        Client(config(tmp_path)).request("GET", "/v1/health")


def test_an_answer_that_looks_like_an_envelope_is_an_answer(tmp_path: Path) -> None:
    with answering(tmp_path, http("200 OK", b'{"status": 500, "body": 1}')):
        assert Client(config(tmp_path)).request("GET", "/v1/health") == {"status": 500, "body": 1}


def test_a_daemon_that_hangs_is_given_up(tmp_path: Path) -> None:
    with answering(tmp_path, None), pytest.raises(ClientError, match="timed out"):
        Client(config(tmp_path, timeout_s=0.2)).request("GET", "/v1/health")


def test_no_daemon(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="ask your admin to start it"):
        Client(config(tmp_path)).request("GET", "/v1/health")


def test_a_path_that_is_too_long_for_a_socket(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="too long"):
        Client(config(tmp_path / ("x" * 120))).request("GET", "/v1/health")


def test_a_folder_that_may_not_be_seen(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    child = os.fork()
    if child == 0:
        os.setresuid(54321, 54321, 54321)
        try:
            Client(config(tmp_path)).request("GET", "/v1/health")
        except ClientError as error:
            os._exit(0 if "may not be opened" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_importing_it_is_light() -> None:
    code = "import sys, slurmcast.client; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"aiohttp", "numpy", "rich", "subprocess", "sqlite3"} & set(loaded)
