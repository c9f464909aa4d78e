"""The client side of the socket API: over the unix socket, or from other hosts inside munge credentials.

Standard library only, and what is seldom needed is imported late: the commands should start fast.
"""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any

from slurmcast.config import Config

ENVIRONMENT = (
    "EPOCHS", "NUM_EPOCHS", "MAX_EPOCHS", "STEPS", "NUM_STEPS", "MAX_STEPS", "ITERS", "NUM_ITERS", "ITERATIONS",
    "UPDATES", "MAX_UPDATES", "TIMESTEPS", "EPISODES", "KIMG", "TOKENS", "HOURS", "TRIALS", "BATCH_SIZE", "BATCH",
    "MODEL", "DATASET", "SEQ_LEN", "IMAGE_SIZE", "NUM_SAMPLES", "SAMPLES", "CONFIG", "SCRIPT", "TASK",
)  # fmt: skip
"""The variables that belong to a job's work: those that the hook passes on, so that ``predict`` reads what it reads."""

TOO_LONG = 413
"""The status where less at a time would do."""
FORGOTTEN = 409
"""The status where the daemon doesn't know what it was told before."""


class ClientError(Exception):
    """The daemon refused or can't be reached; the message says what to do. ``status``: its answer's, 0 for none."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


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
        where = self._config.paths.socket
        if self._config.client.server and not _is_there(where):
            return self._by_munge(method, path, body)
        connection = _UnixConnection(where, self._config.client.timeout_s)
        payload = None if body is None else json.dumps(body).encode()
        status, answer = self._exchange(connection, str(where), method, path, payload)
        return _checked(status, _parsed(status, answer))

    def _by_munge(self, method: str, path: str, body: Any) -> Any:
        from slurmcast import munge

        server, munge_socket = self._config.client.server, self._config.client.munge_socket
        host, _, port = server.rpartition(":")
        connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=self._config.client.timeout_s)
        try:
            credential = munge.seal({"method": method, "path": path, "body": body}, munge_socket)
            status, answer = self._exchange(connection, server, "POST", "/v1/munge", credential)
            if status != 200:
                return _checked(status, _parsed(status, answer))
            opened = munge.unseal(answer, munge_socket).value
        except munge.NoAnswer as error:
            problem = f"munge doesn't answer on this host: {error}"
            raise ClientError(f"{problem}; ask your admin to look here: systemctl status munge") from None
        except munge.MungeError as error:
            status = TOO_LONG if isinstance(error, munge.TooLong) else 0
            raise ClientError(f"{server}: {error}", status) from None
        return _checked(opened["status"], opened["body"])

    @staticmethod
    def _exchange(
        connection: http.client.HTTPConnection, where: str, method: str, path: str, payload: bytes | None
    ) -> tuple[int, bytes]:
        try:
            connection.request(method, path, payload)
            response = connection.getresponse()
            return response.status, response.read()
        except (FileNotFoundError, ConnectionRefusedError):
            raise ClientError(
                f"slurmcastd doesn't run here ({where}); ask your admin to start it, or to set client.server"
            ) from None
        except PermissionError:
            raise ClientError(f"{where} may not be opened; ask your admin to make its folder accessible") from None
        except ConnectionError:
            raise ClientError(
                f"slurmcastd closed the connection ({where}) before it answered: it ends, or too much came from this"
                " user or host at a time; try again in a few seconds"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            problem = str(error) or type(error).__name__
            raise ClientError(f"no answer from slurmcastd ({where}): {problem}; its log may say why") from None
        finally:
            connection.close()


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # in a folder that isn't ours to see
        return False


def _parsed(status: int, answer: bytes) -> Any:
    try:
        return json.loads(answer)
    except ValueError:
        raise ClientError(f"slurmcastd answered with status {status} and no JSON; is it of another version?") from None


def _checked(status: int, value: Any) -> Any:
    if status >= 400:
        raise ClientError(str(value.get("error", value)) if isinstance(value, dict) else str(value), status)
    return value
