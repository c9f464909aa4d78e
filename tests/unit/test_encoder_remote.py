"""The remote encoder against a small real server: right vectors, and every wrong answer told."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from slurmcast.config import Config, ConfigError, RemoteConfig, parse
from slurmcast.encoder.base import EncoderAway, EncoderError
from slurmcast.encoder.kinds import load
from slurmcast.encoder.remote import Remote
from slurmcast.openai_client import OpenAIClient
from tests.unit.openai_server import Server, hangs_up, says, serving


def features(text: str) -> list[float]:
    """A stand-in for a model: some numbers that depend on the whole text."""
    return [float(len(text)), float(text.count("\n")), 3.0 * text.count("a"), -1.0]


async def embeds(request: web.Request) -> web.StreamResponse:
    """What a right server does, answers in reverse order."""
    texts = json.loads(await request.read())["input"]
    data = [{"index": n, "object": "embedding", "embedding": features(text)} for n, text in enumerate(texts)]
    return web.json_response({"object": "list", "model": "m", "data": data[::-1]})


def encoder(server: Server, **settings: Any) -> Remote:
    config = RemoteConfig(url=server.url, model="m", **settings)
    return Remote(config, OpenAIClient(server.url, retries=config.retries, sleep=lambda _: None))


def unit(vector: Any) -> Any:
    return np.asarray(vector) / np.linalg.norm(vector)


def test_vectors_are_those_of_the_texts_in_their_order() -> None:
    texts = ["a", "bb\n", "", "café \udce9"]
    with serving(embeds) as server:
        remote = encoder(server, batch_size=3)
        assert remote.dimensions == 0
        vectors = remote.encode(texts)
    assert vectors.dtype == np.float32 and vectors.shape == (4, 4) and remote.dimensions == 4
    sent = ["a", "bb\n", "\n", "café ?"]
    np.testing.assert_allclose(vectors, [unit(features(text)) for text in sent], rtol=1e-6)
    assert [body["input"] for body in server.bodies] == [sent[:3], sent[3:]]
    assert {body["model"] for body in server.bodies} == {"m"} and server.paths[0] == "/v1/embeddings"


def test_no_text_asks_nothing() -> None:
    with serving(embeds) as server:
        assert encoder(server, dimensions=4).encode([]).shape == (0, 4)
    assert not server.bodies


def test_a_long_text_is_read_to_its_end_in_windows() -> None:
    text = "".join(f"line {n}\n" for n in range(60))
    with serving(embeds) as server:
        remote = encoder(server, max_chars=100, overlap_chars=20, batch_size=4)
        vector = remote.encode(["x", text, "y"])[1]
    pieces = [piece for body in server.bodies for piece in body["input"]][1:-1]
    assert max(map(len, pieces)) <= 100 and max(len(body["input"]) for body in server.bodies) <= 4
    rebuilt = pieces[0]
    for piece in pieces[1:]:
        at = max(n for n in range(20, len(piece) + 1) if rebuilt.endswith(piece[:n]))
        rebuilt += piece[at:]
    assert rebuilt == text
    np.testing.assert_allclose(vector, unit(sum(len(p) * unit(features(p)) for p in pieces)), rtol=1e-5)


def test_a_text_s_vector_does_not_depend_on_its_neighbours() -> None:
    texts = ["a" * n for n in range(1, 9)]
    with serving(embeds) as server:
        together, alone = encoder(server, batch_size=3).encode(texts), encoder(server)
        np.testing.assert_array_equal(together, np.concatenate([alone.encode([text]) for text in texts]))


def answer(*vectors: Any, indexes: Any = None) -> dict[str, Any]:
    return {"data": [{"index": i, "embedding": v} for i, v in zip(indexes or range(9), vectors, strict=False)]}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "no list data"),
        ({"data": [1, 2]}, "no list data"),
        (answer([1, 2]), "1 vectors for 2 texts"),
        (answer([1, 2], [3, 4], [5, 6]), "3 vectors for 2 texts"),
        (answer([1, 2], [3, 4], indexes=[0, 0]), "not one for each"),
        (answer([1, 2], [3, 4], indexes=[1, 2]), "not one for each"),
        (answer([1, 2], [3, 4], indexes=["0", "1"]), "not one for each"),
        (answer([1, 2], [3, 4], indexes=[False, True]), "not one for each"),
        (answer([1, 2], [3, 4, 5]), "different lengths"),
        (answer([1, 2], "AACAPw=="), "no list of numbers"),
        (answer([1, 2], [True, False]), "no list of numbers"),
        (answer([1, 2], [[3, 4], [5, 6]]), "no list of numbers"),
        (answer([1, 2], None), "no list of numbers"),
        (answer([1, 2], [3, None]), "no list of numbers"),
        (answer([1, 2], [3, float("nan")]), "not finite"),
        (answer([1, 2], [3, float("inf")]), "not finite"),
        (answer([1, 2], [3, 10**400]), "too large"),
        (answer([1, 2], [1e300, 1e300]), "not finite"),
        (answer([1, 2], [0, 0.0]), "zero"),
        (answer([], []), "empty"),
    ],
)
def test_wrong_answers_are_refused(wrong: Any, message: str) -> None:
    with serving(says(wrong)) as server, pytest.raises(EncoderError, match=f"{server.url}: .*{message}") as caught:
        encoder(server).encode(["a", "b"])
    assert not isinstance(caught.value, EncoderAway)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (says({"error": {"message": "too long"}}, 400), EncoderError),
        (says({"error": {"message": "too long"}}, 413), EncoderError),
        (says({"error": {"message": "too long"}}, 500), EncoderError),
        (says({}, 401), EncoderAway),
        (says({}, 404), EncoderAway),
        (says({}, 429), EncoderAway),
        (says({}, 503), EncoderAway),
        (hangs_up, EncoderAway),
    ],
)
def test_whose_fault_it_is(reply: Any, kind: type[EncoderError]) -> None:
    with serving(reply) as server, pytest.raises(EncoderError) as caught:
        encoder(server).encode(["a"])
    assert type(caught.value) is kind
    assert ("max_chars" in str(caught.value)) is (kind is EncoderError)


def test_another_number_of_dimensions_is_refused() -> None:
    with serving(says(answer([1, 2, 3]))) as server:
        with pytest.raises(EncoderAway, match=r"vectors of 3 dimensions, not 4; .*encoder\.remote\.dimensions"):
            encoder(server, dimensions=4).encode(["a"])
        learned = encoder(server)
        learned.encode(["a"])
        server.replies = [embeds]
        with pytest.raises(EncoderAway, match="of 4 dimensions, not 3"):
            learned.encode(["b"])
        assert learned.dimensions == 3


def test_the_name_tells_the_vectors_apart_and_holds_no_address() -> None:
    def name(**settings: Any) -> str:
        return Remote(RemoteConfig(**{"url": "http://gpu7:8000/v1", "model": "m", **settings})).name

    same: list[dict[str, Any]] = [{}, {"url": "https://other/v1"}, {"batch_size": 1}, {"timeout_s": 1.0}]
    other: list[dict[str, Any]] = [{"model": "n"}, {"dimensions": 8}, {"max_chars": 500}, {"overlap_chars": 0}]
    assert len({name(**settings) for settings in same}) == 1
    assert len({name(**settings) for settings in [*other, {}]}) == 5
    assert "gpu7" not in name()


def config(**settings: Any) -> Config:
    return parse({"encoder": {"kind": "remote", "remote": {"url": "http://gpu7/v1", "model": "m", **settings}}})


def test_it_is_loaded_without_its_server() -> None:
    assert load(config(key_file="/etc/slurmcast/key").encoder).name == "remote-m-mean4000.200"
    with pytest.raises(EncoderError, match=r"encoder\.remote: url = 'gpu7': must be like"):
        load(config(url="gpu7").encoder)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"url": ""}, "needs encoder.remote.url and"),
        ({"model": ""}, "needs encoder.remote.url and"),
        ({"max_chars": 10}, "encoder.remote.max_chars = 10: must be 100 to"),
        ({"overlap_chars": 2001}, "overlap_chars = 2001: must be 0 to 2000"),
        ({"batch_size": 0}, "batch_size = 0"),
        ({"timeout_s": float("nan")}, "timeout_s = nan"),
        ({"retries": -1}, "retries = -1"),
        ({"dimensions": -1}, "dimensions = -1"),
        ({"address": "x"}, "unknown key encoder.remote.address"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(**settings)


def test_closing_ends_it() -> None:
    with serving(embeds) as server:
        remote = encoder(server)
        remote.close()
        with pytest.raises(EncoderAway, match="slurmcast is stopping"):
            remote.encode(["a"])
