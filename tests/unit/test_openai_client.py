"""The client of OpenAI-style servers, against a real server that misbehaves in each way."""

from __future__ import annotations

import logging
import socket
import ssl
import subprocess
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from slurmcast.breaker import Breaker
from slurmcast.openai_client import OpenAIClient, OpenAIError
from tests.unit.openai_server import breaks_off, drips, drips_headers, hangs_up, says, sends, serving, stalls

GOOD = {"object": "list", "data": []}


def client(url: str, **options: Any) -> tuple[OpenAIClient, list[float]]:
    """A client that only notes its pauses; half of each is jitter, all of which is 0 here."""
    pauses: list[float] = []
    options = {"jitter": lambda: 0.0, "breaker": Breaker(limit=100), **options}
    return OpenAIClient(url, sleep=pauses.append, **options), pauses


def closed_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def test_posts_json_and_returns_it() -> None:
    with serving(says(GOOD)) as server:
        asked = {"model": "m", "input": ["Größe"]}
        assert client(server.url + "/")[0].post("/embeddings", asked) == GOOD
    assert server.bodies == [asked] and server.paths == ["/v1/embeddings"]
    assert "Authorization" not in server.headers[0]


@pytest.mark.parametrize("bad", [says({"error": "busy"}, 429), says({}, 500), says({}, 503), hangs_up, breaks_off])
def test_what_can_pass_is_tried_again_with_growing_pauses(bad: Any) -> None:
    with serving(bad, bad, says(GOOD)) as server:
        asking, pauses = client(server.url, retries=2)
        assert asking.post("/embeddings", {}) == GOOD
    assert pauses == [0.25, 0.5] and len(server.bodies) == 3


def test_jitter_spreads_the_pauses_up_to_twice() -> None:
    with serving(says({}, 500), says(GOOD)) as server:
        asking, pauses = client(server.url, jitter=lambda: 0.999)
        asking.post("/embeddings", {})
    assert pauses == [pytest.approx(0.5, rel=0.01)]


def test_gives_up_after_its_retries() -> None:
    with serving(says({"error": {"message": "no GPU left"}}, 503)) as server:
        asking, pauses = client(server.url, retries=3)
        with pytest.raises(OpenAIError, match=r"status 503 \(no GPU left\); the server is overloaded") as caught:
            asking.post("/embeddings", {})
    assert caught.value.temporary and caught.value.status == 503
    assert len(server.bodies) == 4 and len(pauses) == 3


def test_no_server_at_all() -> None:
    asking, pauses = client(f"http://127.0.0.1:{closed_port()}/v1", retries=2)
    with pytest.raises(OpenAIError, match="can't be reached: Connection refused; is the server up") as caught:
        asking.post("/embeddings", {})
    assert caught.value.temporary and len(pauses) == 2


@pytest.mark.parametrize(
    ("value", "pause"),
    [
        ("7", 7.0),
        ("Wed, 04 Mar 2026 05:06:15 GMT", 8.0),
        ("Wed, 04 Mar 2026 05:05:07 GMT", 0.25),
        ("soon", 0.25),
        ("-3", 0.25),
    ],
)
def test_retry_after_is_honoured(value: str, pause: float) -> None:
    now = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC).timestamp()
    with serving(says({}, 429, {"Retry-After": value}), says(GOOD)) as server:
        asking, pauses = client(server.url, now=lambda: now)
        assert asking.post("/embeddings", {}) == GOOD
    assert pauses == [pause]


def test_a_long_retry_after_is_not_waited_for() -> None:
    with serving(says({}, 429, {"Retry-After": "3600"})) as server:
        asking, pauses = client(server.url)
        with pytest.raises(OpenAIError, match="status 429") as caught:
            asking.post("/embeddings", {})
    assert caught.value.temporary and not pauses and len(server.bodies) == 1


@pytest.mark.parametrize("bad", [stalls, drips, drips_headers])
def test_the_time_limit_holds_for_the_whole_answer_and_no_second_request_follows(bad: Any) -> None:
    with serving(bad) as server:
        asking, pauses = client(server.url, timeout_s=0.3)
        with pytest.raises(OpenAIError, match=r"no whole answer within 0\.3 s; raise timeout_s") as caught:
            asking.post("/embeddings", {})
    assert caught.value.temporary and not pauses and len(server.bodies) == 1


def test_closing_ends_a_request_under_way_and_all_later_ones() -> None:
    failures: list[OpenAIError] = []
    with serving(stalls) as server:
        asking = OpenAIClient(server.url, timeout_s=60)

        def ask() -> None:
            try:
                asking.post("/embeddings", {})
            except OpenAIError as error:
                failures.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        while not server.bodies:
            time.sleep(0.01)
        asking.close()
        thread.join(10)
        assert not thread.is_alive()
    assert "given up" in str(failures[0]) and len(server.bodies) == 1


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (says({}, 302, {"Location": "http://elsewhere/"}), "redirects to 'http://elsewhere/', which is not followed"),
        (says({"error": {"message": "who?"}}, 401), r"status 401 \(who\?\); it wants a key: set key_file"),
        (says({"detail": "Not Found"}, 404), r"status 404 \(Not Found\); url must end where"),
        (
            says({"error": {"message": "x\n\x1b[31m" + "y" * 999}}, 400),
            r"status 400 \(x \?\[31my{190,200}\); the server's",
        ),
        (says({"error": [1]}, 413), "status 413; the server's log"),
        (sends(b"<html>"), "no JSON object"),
        (sends(b""), "no JSON object"),
        (sends(b"\xff\xfe"), "no JSON object"),
        (sends(b"[" * 200_000), "no JSON object"),
        (says([1, 2]), "no JSON object"),
        (says({"a": "b" * 400_000}), "an answer of more than 300000 bytes"),
        (sends(b"{}", 204), "status 204"),
    ],
)
def test_what_can_not_pass_is_told_at_once(reply: Any, message: str) -> None:
    with serving(reply) as server:
        asking, pauses = client(server.url, max_answer=300_000)
        with pytest.raises(OpenAIError, match=message) as caught:
            asking.post("/embeddings", {})
    assert not caught.value.temporary and not pauses
    assert len(server.bodies) == 1 and "\n" not in str(caught.value)


def test_something_that_speaks_no_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"220 mail.example ESMTP\r\n")
                connection.recv(1 << 16)

        threading.Thread(target=greet, daemon=True).start()
        asking, _ = client(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", retries=0)
        with pytest.raises(OpenAIError, match="the connection broke") as caught:
            asking.post("/embeddings", {})
    assert caught.value.temporary


@pytest.mark.parametrize(
    "url",
    [
        "", "host:8000", "ftp://host/v1", "http://", "http://host:99999/v1", "http://host:x/v1", "http://a b/v1",
        "http://host/v1?x=1", "http://host/v1#x", "http://höst/v1", "http://[::1/v1", "http://host/\r\nX: y",
    ],
)  # fmt: skip
def test_addresses_that_are_refused(url: str) -> None:
    with pytest.raises(OpenAIError, match="url"):
        OpenAIClient(url)


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(OpenAIError, match="key_file") as caught:
        OpenAIClient("https://user:geheim@host/v1")
    assert "geheim" not in str(caught.value)


def test_a_name_that_dns_can_not_have() -> None:
    with pytest.raises(OpenAIError, match="can't be reached"):
        client(f"http://{'a' * 70}.example/v1", retries=0)[0].post("/embeddings", {})


# The key


def key_file(folder: Path, text: bytes = b"sk-geheim\n", mode: int = 0o600) -> Path:
    path = folder / "key"
    path.write_bytes(text)
    path.chmod(mode)
    return path


def test_the_key_is_sent_and_read_anew_when_it_changes(tmp_path: Path) -> None:
    path = key_file(tmp_path, mode=0o640)
    with serving(says(GOOD)) as server:
        asking, _ = client(server.url, key_file=path)
        asking.post("/embeddings", {})
        path.write_text("sk-other")
        asking.post("/embeddings", {})
    assert [headers["Authorization"] for headers in server.headers] == ["Bearer sk-geheim", "Bearer sk-other"]


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        (b"sk-geheim", 0o644, "open to everybody .mode 0644.: chmod 0640"),
        (b"sk-geheim", 0o602, "open to everybody"),
        (b"", 0o600, "must hold the key alone"),
        (b"sk-geheim\nX: y", 0o600, "must hold the key alone"),
        (b"sk-geheim" * 1000, 0o600, "must hold the key alone"),
        ("sk-größe".encode(), 0o600, "must hold the key alone"),
    ],
)
def test_key_files_that_are_refused(tmp_path: Path, text: bytes, mode: int, message: str) -> None:
    with serving(says(GOOD)) as server:
        asking, _ = client(server.url, key_file=key_file(tmp_path, text, mode))
        with pytest.raises(OpenAIError, match=message) as caught:
            asking.post("/embeddings", {})
    assert not server.bodies and "geheim" not in str(caught.value)


def test_a_key_file_that_is_none(tmp_path: Path) -> None:
    for path, message in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(OpenAIError, match=message):
            client("http://127.0.0.1:9/v1", key_file=path)[0].post("/embeddings", {})


def test_a_key_that_the_server_repeats_is_not_told_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with serving(says({"error": {"message": "bad key: sk-geheim"}}, 401)) as server:
        asking, _ = client(server.url, key_file=key_file(tmp_path))
        with pytest.raises(OpenAIError, match=r"bad key: \*\*\*.*refuses the key in .*/key") as caught:
            asking.post("/embeddings", {})
    assert "geheim" not in str(caught.value) + repr(asking.__dict__) + caplog.text


# https


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert]
    subprocess.run(command, check=True, capture_output=True)
    return key, cert


@pytest.mark.parametrize(
    ("known", "host", "message"),
    [(True, "localhost", ""), (False, "localhost", "self-signed"), (True, "127.0.0.1", "IP")],
)
def test_certificates_are_checked(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, known: bool, host: str, message: str
) -> None:
    key, cert = certificate
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    with serving(says(GOOD), tls=tls) as server:
        if known:
            monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        asking, pauses = client(server.url.replace("127.0.0.1", host), retries=1)
        if not message:
            assert asking.post("/embeddings", {}) == GOOD
            return
        with pytest.raises(OpenAIError, match=f"certificate isn't valid: .*{message}") as caught:
            asking.post("/embeddings", {})
    assert not caught.value.temporary and not pauses


def test_https_time_limit(certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    key, cert = certificate
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    with serving(drips, tls=tls) as server:
        asking, _ = client(server.url.replace("127.0.0.1", "localhost"), timeout_s=0.3)
        with pytest.raises(OpenAIError, match="no whole answer within"):
            asking.post("/embeddings", {})


# The circuit breaker


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_after_failures_in_a_row_nothing_is_sent_then_one_probe() -> None:
    clock = Clock()
    with serving(says({}, 500)) as server:
        asking, _ = client(server.url, retries=0, breaker=Breaker(3, 30, clock))
        for _ in range(5):
            with pytest.raises(OpenAIError):
                asking.post("/embeddings", {})
        assert len(server.bodies) == 3
        with pytest.raises(OpenAIError, match="left alone for another 30 s") as caught:
            asking.post("/embeddings", {})
        assert caught.value.temporary
        clock.now = 31
        for _ in range(2):  # one probe, which fails
            with pytest.raises(OpenAIError):
                asking.post("/embeddings", {})
        assert len(server.bodies) == 4
        clock.now = 62
        server.replies = [says(GOOD)]
        for _ in range(3):
            assert asking.post("/embeddings", {}) == GOOD


def test_retries_stop_where_the_breaker_opens() -> None:
    with serving(says({}, 500)) as server:
        asking, _ = client(server.url, retries=10, breaker=Breaker(3, 30, Clock()))
        with pytest.raises(OpenAIError, match="left alone"):
            asking.post("/embeddings", {})
    assert len(server.bodies) == 3


def test_refusals_are_signs_of_life() -> None:
    with serving(says({}, 500), says({}, 500), says({}, 400), says({}, 500), says({}, 500), says(GOOD)) as server:
        asking, _ = client(server.url, retries=0, breaker=Breaker(3, 30, Clock()))
        for _ in range(5):
            with pytest.raises(OpenAIError, match="status"):
                asking.post("/embeddings", {})
        assert asking.post("/embeddings", {}) == GOOD


def test_one_probe_at_a_time_and_one_that_never_reports_blocks_nobody_for_ever() -> None:
    clock = Clock()
    breaker = Breaker(1, 30, clock)
    breaker.failed()
    clock.now = 30
    assert [breaker.wait_s() for _ in range(3)] == [0, 30, 30]
    clock.now = 60
    assert breaker.wait_s() == 0
    breaker.succeeded()
    assert [breaker.wait_s() for _ in range(3)] == [0, 0, 0]


def test_the_body_is_strict_json() -> None:
    with pytest.raises(ValueError, match="JSON"):
        client("http://127.0.0.1:9/v1")[0].post("/embeddings", {"x": float("nan")})
