"""A client of OpenAI-style servers (vLLM, llama.cpp, text-embeddings-inference, ...): JSON in, JSON or one error out.

For threads that may wait: synchronous, on the standard library's ``http.client``, each request on its own connection.
What may go wrong on the way is bounded: time, size of the answer, number of attempts. Proxies of the environment aren't
used and redirects aren't followed, so a script goes to the configured address or nowhere.
"""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import itertools
import json
import os
import random
import socket
import ssl
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from slurmcast.breaker import Breaker

MAX_ANSWER = 16 << 20
"""Bytes; 32 vectors of 4,608 numbers take about 3 MB."""
MAX_KEY = 4096
MAX_QUOTED = 200
"""Characters of a server's own message that an error repeats."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0


class OpenAIError(Exception):
    """The server gave no usable answer; the message says why and what to do.

    ``status``: the answer's HTTP status, 0 where there was none. ``temporary``: whether the same request may succeed
    later. ``again_after_s``: the least pause before another attempt, None where the client itself tries no other.
    """

    def __init__(
        self, message: str, *, status: int = 0, temporary: bool = False, again_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.temporary, self.again_after_s = status, temporary, again_after_s


class OpenAIClient:
    """Requests to one server. Safe for several threads."""

    def __init__(
        self,
        url: str,
        *,
        key_file: Path | None = None,
        timeout_s: float = 30.0,
        retries: int = 2,
        connect_timeout_s: float = 5.0,
        max_answer: int = MAX_ANSWER,
        breaker: Breaker | None = None,
        sleep: Callable[[float], object] | None = None,
        jitter: Callable[[], float] = random.random,
        now: Callable[[], float] = time.time,
    ) -> None:
        """``url``: the address up to and with ``/v1``, http or https (certificates are checked).

        ``timeout_s``: from the connection to the answer's last byte. ``retries``: further attempts after a first one
        that failed for a passing reason. ``key_file``: holds the bearer token, is read anew for each request.
        ``jitter``: numbers in [0, 1); ``now``: Unix seconds. Contacts nobody. Raises :class:`OpenAIError`
        where ``url`` can't be used.
        """
        self.url = url.rstrip("/")
        self._secure, self._host, self._port, self._base = _address(self.url)
        self._key_file, self._retries, self._max_answer = key_file, retries, max_answer
        self._timeout_s, self._connect_timeout_s = timeout_s, connect_timeout_s
        self._tls = ssl.create_default_context() if self._secure else None
        self._breaker = breaker or Breaker()
        self._jitter, self._now = jitter, now
        self._ended = threading.Event()
        self._sleep = sleep or self._ended.wait
        self._sockets: set[socket.socket] = set()

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to ``body`` at ``path`` (``/embeddings``). Blocks. Raises :class:`OpenAIError`."""
        payload = json.dumps(body, allow_nan=False).encode()
        for attempt in itertools.count():
            try:
                return self._attempt(path, payload)
            except OpenAIError as error:
                least = error.again_after_s
                if least is None or least > LONGEST_PAUSE_S or attempt >= self._retries:
                    raise
            pause = min(FIRST_PAUSE_S * 2**attempt, LONGEST_PAUSE_S) * (1 + self._jitter()) / 2
            self._sleep(max(pause, least))
        raise AssertionError("unreachable")

    def close(self) -> None:
        """End what is under way, in whatever thread, with an error; nothing is sent any more."""
        self._ended.set()
        for sock in list(self._sockets):
            _shut(sock)

    def _attempt(self, path: str, payload: bytes) -> dict[str, Any]:
        if self._ended.is_set():
            raise OpenAIError(f"{self.url}: given up, slurmcast is stopping", temporary=True)
        key = _key(self._key_file)
        wait_s = self._breaker.wait_s()
        if wait_s > 0:
            raise OpenAIError(
                f"{self.url}: failed several times in a row and is left alone for another {wait_s:.0f} s; is it up?",
                temporary=True,
            )
        try:
            status, headers, answer = self._exchange(path, payload, key)
            found = self._judged(status, headers, answer, key)
        except OpenAIError as error:
            if error.temporary:
                self._breaker.failed()
            else:
                self._breaker.succeeded()  # it answered, if not to our liking
            raise
        self._breaker.succeeded()
        return found

    def _exchange(self, path: str, payload: bytes, key: str) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Status, headers and body of the answer, whatever they are."""
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Connection": "close"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        with contextlib.closing(self._connected()) as connection, self._watched(connection.sock) as late:
            try:
                connection.request("POST", self._base + path, payload, headers)
                with connection.getresponse() as response:
                    answer = response.read(self._max_answer + 1)
                    if response.length and len(answer) <= self._max_answer:
                        raise http.client.IncompleteRead(answer, response.length)
            except (OSError, http.client.HTTPException) as error:
                if not late.is_set():
                    raise self._unreached("the connection broke", error, "is the server sound?") from None
            if late.is_set():
                # The server may still be at it: another attempt now would only add to its work.
                raise OpenAIError(
                    f"{self.url}: no whole answer within {self._timeout_s:g} s; raise timeout_s or send less at a time",
                    temporary=True,
                )
        if len(answer) > self._max_answer:
            raise OpenAIError(f"{self.url}: an answer of more than {self._max_answer} bytes; send less at a time")
        return response.status, response.headers, answer

    def _connected(self) -> http.client.HTTPConnection:
        if self._tls is None:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=self._connect_timeout_s)
        else:
            connection = http.client.HTTPSConnection(
                self._host, self._port, timeout=self._connect_timeout_s, context=self._tls
            )
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            connection.close()
            raise OpenAIError(
                f"{self.url}: its certificate isn't valid: {error.verify_message}; this host must know its authority"
            ) from None
        except (OSError, UnicodeError) as error:  # UnicodeError: no name that DNS could have
            connection.close()
            raise self._unreached("can't be reached", error, "is the server up and the address right?") from None
        return connection

    def _unreached(self, what: str, error: Exception, question: str) -> OpenAIError:
        problem = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return OpenAIError(f"{self.url}: {what}: {problem}; {question}", temporary=True, again_after_s=0)

    @contextlib.contextmanager
    def _watched(self, sock: socket.socket) -> Iterator[threading.Event]:
        """Shut ``sock`` down after ``timeout_s``, or when the client is closed; the event tells that time was up.

        A socket's own time-out holds for each read alone, and an answer may come byte by byte.
        """
        late = threading.Event()

        def end() -> None:
            late.set()
            _shut(sock)

        sock.settimeout(None)
        timer = threading.Timer(self._timeout_s, end)
        timer.daemon = True
        self._sockets.add(sock)
        if self._ended.is_set():  # close() may just have missed this one
            _shut(sock)
        timer.start()
        try:
            yield late
        finally:
            timer.cancel()
            self._sockets.discard(sock)

    def _judged(self, status: int, headers: http.client.HTTPMessage, answer: bytes, key: str) -> dict[str, Any]:
        """The JSON of a good answer, or an error that tells what the status means here."""
        value = _json(answer)
        if status == 200 and isinstance(value, dict):
            return value
        said = _quoted(value, key)
        if status == 200:
            raise OpenAIError(
                f"{self.url}: the answer is no JSON object; is this an OpenAI-style server?", status=status
            )
        if status == 429 or status >= 500:
            pause = _retry_after(headers.get("Retry-After"), self._now())
            raise OpenAIError(
                f"{self.url}: status {status}{said}; the server is overloaded or out of order",
                status=status,
                temporary=True,
                again_after_s=pause,
            )
        if 300 <= status < 400:
            remedy = f"it redirects to {headers.get('Location', 'elsewhere')!r}, which is not followed: correct url"
        elif status in (401, 403):
            remedy = f"it refuses the key in {self._key_file}" if key else "it wants a key: set key_file"
        elif status == 404:
            remedy = "url must end where the server's paths begin (mostly /v1), and model be one that it serves"
        else:
            remedy = "the server's log may say more"
        raise OpenAIError(f"{self.url}: status {status}{said}; {remedy}", status=status)


def _address(url: str) -> tuple[bool, str, int | None, str]:
    """(https?, host, port, path) of ``url``."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise OpenAIError(f"url = {url!r}: {error}; must be like http://host:8000/v1") from None
    clean = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in ("http", "https") or not parts.hostname or not clean:
        raise OpenAIError(f"url = {url!r}: must be like http://host:8000/v1 or https://host/v1")
    if parts.username is not None or parts.query or parts.fragment:
        raise OpenAIError("url may hold no user, password, query or fragment; a key belongs into key_file")
    return parts.scheme == "https", parts.hostname, port, parts.path


def _key(path: Path | None) -> str:
    """The key in ``path``, empty for None. Refuses a file that everybody may read or change."""
    if path is None:
        return ""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise OpenAIError(f"{path}: must be a regular file that holds the key")
            if mode & 0o007:
                raise OpenAIError(f"{path}: open to everybody (mode {mode & 0o777:04o}): chmod 0640 it or less")
            data = file.read(MAX_KEY + 1)
    except OSError as error:
        raise OpenAIError(f"{path}: {error.strerror}; key_file must be readable for slurmcast") from None
    key = data.strip()
    if not key or len(data) > MAX_KEY or any(byte <= 32 or byte >= 127 for byte in key):
        raise OpenAIError(f"{path}: must hold the key alone, one line of printable ASCII")
    return key.decode("ascii")


def _json(answer: bytes) -> Any:
    try:
        return json.loads(answer)
    except (ValueError, RecursionError):
        return None


def _quoted(value: Any, key: str) -> str:
    """What the server says in an error, short, on one line and without the key; the places differ by server."""
    found = value.get("error", value.get("message", value.get("detail"))) if isinstance(value, dict) else None
    if isinstance(found, dict):
        found = found.get("message")
    if not isinstance(found, str):
        return ""
    text = " ".join((found.replace(key, "***") if key else found).split())[:MAX_QUOTED]
    return f" ({''.join(c if c.isprintable() else '?' for c in text)})" if text else ""


def _retry_after(value: str | None, now: float) -> float:
    """Seconds that a Retry-After header asks for (RFC 9110, section 10.2.3), 0 where it says nothing readable."""
    if value is None:
        return 0.0
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(email.utils.parsedate_to_datetime(value).timestamp() - now, 0.0)
    except ValueError:
        return 0.0


def _shut(sock: socket.socket) -> None:
    """Wake whoever waits on ``sock``. Not by SSLSocket's own method, which takes its state from under the reader."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
