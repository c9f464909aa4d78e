"""The rewriter against a server that answers well and badly: asked once, only vectors kept, nothing raised."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from aiohttp import web

from slurmcast.align import Rewriter
from slurmcast.config import AlignConfig
from slurmcast.encoder import CachedEncoder
from slurmcast.encoder.base import Vectors
from tests.unit.chat_server import Server, chat_server, completion, raw, texts

EXEMPLARS = {
    "class.sh": "#!/bin/bash\npython - <<END\nclass Trainer:\n    rate = 0.1\nTrainer().fit()\nEND\n",
    "plain.sh": "#!/bin/bash\npython - <<END\nrate = 0.1\nwhile fit(rate): pass\nEND\n",
}
SCRIPT = "#!/bin/bash\npython - <<END\nRATE, N, FILES = 0.7, 33, '/data/x'\nTrainer(RATE, N, FILES)\nEND"
TEXT = f"# arguments: --token sesame\n# environment: TASK=cola\n{SCRIPT}"


class Words:
    """An encoder that counts two words, so that a text's style can be told from its vector."""

    name, dimensions = "words", 2

    def encode(self, texts: list[str]) -> Vectors:
        return np.array([[1 + text.count("class"), 1 + text.count("while")] for text in texts], np.float32)

    def close(self) -> None:
        """Nothing to end."""


def in_its_style(message: str) -> str:
    """A rewriting: a line of the example's style, and what the program is about."""
    example, program = texts(message)
    style = "class Trainer:" if "class" in example else "while True:"
    return f"```bash\n{style}\n" + "\n".join(f"    {line}  " for line in program.split("\n")[2:-1]) + "\nrun(1)\n```"


@pytest.fixture
def server() -> Iterator[Server]:
    with chat_server(in_its_style) as running:
        yield running


@pytest.fixture
def encoder(tmp_path: Path) -> CachedEncoder:
    return CachedEncoder(Words(), tmp_path / "embeddings.db")


@pytest.fixture
def config(server: Server, tmp_path: Path) -> AlignConfig:
    folder = tmp_path / "exemplars"
    folder.mkdir()
    for name, text in EXEMPLARS.items():
        (folder / name).write_text(text)
    return AlignConfig(url=server.url, model="some-model", exemplars=folder, timeout_s=5)


@pytest.fixture
def rewriter(config: AlignConfig, encoder: CachedEncoder) -> Iterator[Rewriter]:
    made = Rewriter(config, encoder)
    made.load()
    yield made
    made.close()


def everything(_: Vectors) -> bool:
    return True


@pytest.mark.parametrize(("about", "rewritten"), [("trainer", [2, 1]), ("fit_pass", [1, 2])])
def test_a_script_takes_on_the_nearest_style(rewriter: Rewriter, about: str, rewritten: list[int]) -> None:
    found = rewriter.rewrite(TEXT.replace("Trainer", about), everything)
    assert found is not None and found.tolist() == rewritten
    assert rewriter.results == {"rewritten": 1}


def test_only_styles_that_the_probe_knows_count(rewriter: Rewriter, server: Server, encoder: CachedEncoder) -> None:
    loops, nothing = lambda vector: vector[1] > vector[0], lambda _: False
    found = rewriter.rewrite(TEXT, loops)
    assert found is not None and found.tolist() == [1, 2]
    assert rewriter.rewrite(TEXT, nothing) is None
    key = encoder.key(TEXT)
    assert rewriter.known(key, loops) is not None and rewriter.known(key, nothing) is None
    assert len(server.bodies) == 1


def test_arguments_and_environment_stay_here(rewriter: Rewriter, server: Server) -> None:
    rewriter.rewrite(TEXT, everything)
    (body,) = server.bodies
    assert texts(body["messages"][-1]["content"]) == (EXEMPLARS["class.sh"].strip(), SCRIPT)
    assert "sesame" not in str(body) and "cola" not in str(body)
    assert "Authorization" not in server.headers[0]


def test_the_same_script_is_sent_once(
    rewriter: Rewriter, server: Server, config: AlignConfig, encoder: CachedEncoder
) -> None:
    key = encoder.key(TEXT)
    assert rewriter.known(key, everything) is None
    first = rewriter.rewrite(TEXT, everything)
    other = TEXT.replace("sesame", "open")
    np.testing.assert_array_equal(rewriter.rewrite(other, everything), first)
    later = Rewriter(config, encoder)
    later.load()
    for text in (TEXT, other):  # known by the text's key alone, even after a restart
        np.testing.assert_array_equal(later.known(encoder.key(text), everything), first)
    assert len(server.bodies) == 1
    renamed = Rewriter(replace(config, model="another-model"), encoder)
    renamed.load()
    assert renamed.known(key, everything) is None


def test_many_at_a_time_share_one_request(rewriter: Rewriter, server: Server) -> None:
    arrived, go = threading.Event(), threading.Event()

    def slowly(message: str) -> str:
        arrived.set()
        assert go.wait(20)
        return in_its_style(message)

    server.chat = slowly
    with ThreadPoolExecutor(6) as pool:
        texts = [TEXT.replace("sesame", str(n)) for n in range(6)]
        asked = [pool.submit(rewriter.rewrite, text, everything) for text in texts]
        assert arrived.wait(20)
        time.sleep(0.1)  # for the others to come as far as they get
        go.set()
        assert all(one.result().tolist() == [2, 1] for one in asked)
    assert len(server.bodies) == 1


def test_no_text_is_kept(rewriter: Rewriter, tmp_path: Path) -> None:
    rewriter.rewrite(TEXT, everything)
    files = b"".join(path.read_bytes() for path in tmp_path.glob("embeddings.db*"))
    assert files and b"RATE" not in files and b"/data/x" not in files


@pytest.mark.parametrize(
    "bad",
    [
        lambda message: texts(message)[0],
        lambda message: texts(message)[1],
        lambda _: "",
        lambda _: "I'd rather not.",
        lambda message: raw(completion(in_its_style(message), "length")),
        lambda _: raw(completion(None)),
        lambda _: raw({"choices": "none"}),
        lambda _: "x = 1\n" * 10_000,
    ],
)
def test_a_useless_answer_is_not_asked_for_again(
    rewriter: Rewriter, server: Server, bad: Callable[[str], str | web.Response]
) -> None:
    server.chat = bad
    for text in (TEXT, TEXT, TEXT.replace("sesame", "open")):
        assert rewriter.rewrite(text, everything) is None
    assert len(server.bodies) == 1 and rewriter.results == {"unusable": 1}


@pytest.mark.parametrize(
    "trouble",
    [
        lambda _: raw({"error": {"message": "no such model"}}, 404),
        lambda _: raw(["a", "list"]),
        lambda _: web.Response(text="<html>"),
        lambda _: web.Response(text="{" * 100_000),
    ],
)
def test_after_a_failure_it_is_tried_again(
    rewriter: Rewriter, server: Server, trouble: Callable[[str], web.Response], caplog: pytest.LogCaptureFixture
) -> None:
    server.chat = trouble
    assert rewriter.rewrite(TEXT, everything) is None
    assert "isn't rewritten" in caplog.text
    server.chat = in_its_style
    assert rewriter.rewrite(TEXT, everything) is not None
    assert rewriter.results == {"failed": 1, "rewritten": 1}


def test_a_server_that_never_answers_is_given_up(config: AlignConfig, encoder: CachedEncoder, server: Server) -> None:
    go = threading.Event()
    server.chat = lambda _: str(go.wait(20))
    impatient = Rewriter(replace(config, timeout_s=0.3), encoder)
    impatient.load()
    assert impatient.rewrite(TEXT, everything) is None
    go.set()


@pytest.mark.parametrize("text", ["", "# arguments: only", "#!/bin/sh\n" + "echo\n" * 3000])
def test_what_is_empty_or_too_long_is_not_sent(rewriter: Rewriter, server: Server, text: str) -> None:
    assert rewriter.rewrite(text, everything) is None
    assert not server.bodies
