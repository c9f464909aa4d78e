"""The cache of vectors: hits, several processes, kill -9, corrupt files."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from slurmcast.encoder import CachedEncoder, VectorCache, text_key
from slurmcast.encoder.base import Vectors


class Counting:
    """An encoder of two dimensions (length, number of lines) that remembers what it was asked."""

    dimensions = 2

    def __init__(self, name: str = "counting") -> None:
        self.name = name
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.asked += texts
        return np.array([[len(text), text.count("\n")] for text in texts], np.float32).reshape(-1, 2)


def test_a_text_is_encoded_once(tmp_path: Path) -> None:
    inner = Counting()
    encoder = CachedEncoder(inner, tmp_path / "embeddings.db")
    first = encoder.encode(["one", "two\n", "one"])
    assert first.tolist() == [[3, 0], [4, 1], [3, 0]]
    assert first.dtype == np.float32
    assert encoder.encode(["two\n", "three"]).tolist() == [[4, 1], [5, 0]]
    assert inner.asked == ["one", "two\n", "three"]
    assert (encoder.name, encoder.dimensions, encoder.encode([]).shape) == ("counting", 2, (0, 2))


def test_vectors_outlive_the_process_and_are_had_by_key(tmp_path: Path) -> None:
    encoder = CachedEncoder(Counting(), tmp_path / "embeddings.db")
    encoder.encode([f"text {n}" for n in range(1200)])
    keys = [encoder.key(f"text {n}") for n in range(1200)]
    other = VectorCache(tmp_path / "embeddings.db")
    found = other.vectors([*keys, "no such key"])
    assert set(found) == set(keys)
    assert found[keys[7]].tolist() == [6, 0]
    assert other.get("no such key") is None


def test_another_encoder_has_other_keys(tmp_path: Path) -> None:
    CachedEncoder(Counting(), tmp_path / "embeddings.db").encode(["one"])
    inner = Counting("another")
    CachedEncoder(inner, tmp_path / "embeddings.db").encode(["one"])
    assert inner.asked == ["one"]


def test_keys_of_texts_that_are_no_utf8_differ() -> None:
    one, two = (data.decode("utf-8", "surrogateescape") for data in (b"\xe9", b"\xe8"))
    assert len({text_key("e", one), text_key("e", two), text_key("e", "?")}) == 3


@pytest.mark.parametrize("damage", ["garbage", "page"])
def test_a_corrupt_file_is_set_aside(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "embeddings.db"
    encoder = CachedEncoder(Counting(), path)
    encoder.encode([f"text {n}" * 50 for n in range(500)])
    encoder.cache.close()
    data = path.read_bytes()
    path.write_bytes(b"nonsense" * 999 if damage == "garbage" else data[:8192] + b"\xff" * 4096 + data[12288:])
    inner = Counting()
    with caplog.at_level(logging.ERROR):
        again = CachedEncoder(inner, path)
    assert again.encode(["one"]).tolist() == [[3, 0]]
    assert "set aside" in caplog.text
    assert len(list(tmp_path.glob("embeddings.db.corrupt-*"))) == 1


@pytest.mark.parametrize("cut", ["substr(vector, 1, 7)", "x''", "'text'"])
def test_a_vector_that_is_damaged_is_made_anew(tmp_path: Path, cut: str) -> None:
    path, inner = tmp_path / "embeddings.db", Counting()
    encoder = CachedEncoder(inner, path)
    encoder.encode(["one", "two\n"])
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE vector SET vector = {cut} WHERE key = ?", (encoder.key("one"),))
    assert encoder.get(encoder.key("one")) is None
    assert encoder.encode(["one", "two\n"]).tolist() == [[3, 0], [4, 1]]
    assert inner.asked == ["one", "two\n", "one"]
    found = encoder.get(encoder.key("one"))
    assert found is not None and found.tolist() == [3, 0]


def test_a_folder_that_is_missing_is_no_corruption(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        VectorCache(tmp_path / "missing" / "embeddings.db")


def test_what_was_put_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "embeddings.db"
    program = (
        "import sys, time, pathlib, numpy as np\n"
        "from slurmcast.encoder.cache import VectorCache\n"
        "cache = VectorCache(pathlib.Path(sys.argv[1]))\n"
        "for n in range(10**6):\n"
        "    cache.put({f'key {n}': np.full(384, n, np.float32)})\n"
        "    print(n, flush=True)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        seen = [int(process.stdout.readline()) for _ in range(50)]
        os.kill(process.pid, signal.SIGKILL)
    found = VectorCache(path).vectors(f"key {n}" for n in seen)
    assert len(found) == 50
    assert found["key 49"].tolist() == [49] * 384
