"""The client side of the socket API: over the unix socket, or from other hosts inside munge credentials.

Standard library only: the commands should start fast.
"""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any

from slurmcast import munge
from slurmcast.config import Config


class ClientError(Exception):
    """The daemon refused or can't be reached; the message says what to do."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Client:
    """Requests to slurmcastd. One request at a time; every call opens a connection of its own."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """The answer's JSON. Raises :class:`ClientError`."""
        payload = None if body is None else json.dumps(body).encode()
        if not self._config.paths.socket.exists() and self._config.client.server:
            return self._by_munge(method, path, body)
        connection = _UnixConnection(self._config.paths.socket, self._config.client.timeout_s)
        return _decode(*self._exchange(connection, str(self._config.paths.socket), method, path, payload))

    def _by_munge(self, method: str, path: str, body: Any) -> Any:
        server, munge_socket = self._config.client.server, self._config.client.munge_socket
        host, _, port = server.rpartition(":")
        try:
            credential = munge.encode(json.dumps({"method": method, "path": path, "body": body}).encode(), munge_socket)
            connection = http.client.HTTPConnection(host, int(port), timeout=self._config.client.timeout_s)
            status, answer = self._exchange(connection, server, "POST", "/v1/munge", credential)
            return _decode(status, munge.decode(answer, munge_socket).payload if status == 200 else answer)
        except (munge.MungeError, ValueError) as error:
            raise ClientError(f"{server}: {error}") from None

    @staticmethod
    def _exchange(
        connection: http.client.HTTPConnection, where: str, method: str, path: str, payload: bytes | None
    ) -> tuple[int, bytes]:
        try:
            connection.request(method, path, payload)
            response = connection.getresponse()
            return response.status, response.read()
        except (FileNotFoundError, ConnectionRefusedError):
            raise ClientError(f"slurmcastd doesn't run here ({where}); start it, or set client.server") from None
        except (OSError, http.client.HTTPException) as error:
            raise ClientError(f"no answer from slurmcastd ({where}): {error}") from None
        finally:
            connection.close()


def _decode(status: int, answer: bytes) -> Any:
    """The JSON of an answer. Through munge the status travels inside, as ``{"status", "body"}``."""
    try:
        value = json.loads(answer)
    except ValueError:
        raise ClientError(f"slurmcastd answered with status {status} and no JSON") from None
    if isinstance(value, dict) and set(value) == {"status", "body"}:
        status, value = value["status"], value["body"]
    if status >= 400:
        raise ClientError(str(value.get("error", value)) if isinstance(value, dict) else str(value))
    return value
