"""Vectors by content hash, in an SQLite file of their own: the same text is encoded once.

The file holds nothing that can't be made again, so one that can't be read is set aside and a new one begun.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from slurmcast.encoder.base import Closable, Encoder, Vectors
from slurmcast.files import write_ahead

log = logging.getLogger(__name__)

TABLE = "CREATE TABLE IF NOT EXISTS vector (key TEXT PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
BUSY_S = 30.0
"""How long to wait for another process (``slurmcast train``) that is using the file."""
BATCH = 500
"""Keys asked for in one statement; SQLite allows at least 999 parameters."""


def text_key(encoder: str, text: str) -> str:
    """sha256 over the encoder's name and the text: the key of the text's vector."""
    return hashlib.sha256(f"{encoder}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()


class VectorCache:
    """Vectors by key. Safe for several threads of one process and for several processes; survives kill -9 (WAL)."""

    def __init__(self, path: Path) -> None:
        """Open or create ``path``. A file that is no sound database is renamed to ``*.corrupt-SECONDS`` first."""
        self._lock = threading.Lock()
        try:
            self._connection = _open(path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise  # locked, read-only or no such folder: nothing is wrong with the file itself
            aside = path.with_name(f"{path.name}.corrupt-{int(time.time())}")
            log.error("%s: %s; set aside as %s, scripts are encoded anew", path, error, aside.name)
            path.rename(aside)
            for suffix in ("-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            self._connection = _open(path)

    def vectors(self, keys: Iterable[str]) -> dict[str, Vectors]:
        """The vectors, float32 of shape (dimensions,), of those ``keys`` that are known; a damaged one isn't."""
        wanted = list(dict.fromkeys(keys))
        found: dict[str, object] = {}
        with self._lock:
            for start in range(0, len(wanted), BATCH):
                part = wanted[start : start + BATCH]
                marks = ",".join("?" * len(part))
                found.update(self._connection.execute(f"SELECT key, vector FROM vector WHERE key IN ({marks})", part))
        whole = {key: data for key, data in found.items() if isinstance(data, bytes) and data and len(data) % 4 == 0}
        if damaged := len(found) - len(whole):
            log.error("embeddings.db: %d damaged vectors; their texts are encoded anew when they come again", damaged)
        return {key: np.frombuffer(data, "<f4") for key, data in whole.items()}

    def get(self, key: str) -> Vectors | None:
        """The vector of ``key``, None where it isn't known."""
        return self.vectors([key]).get(key)

    def put(self, vectors: Mapping[str, Vectors]) -> None:
        """Keep ``vectors``, in the place of any of the same keys."""
        rows = [(key, np.ascontiguousarray(vector, "<f4").tobytes()) for key, vector in vectors.items()]
        with self._lock, self._connection:
            self._connection.executemany("INSERT OR REPLACE INTO vector (key, vector) VALUES (?, ?)", rows)

    def close(self) -> None:
        """Close the file; the cache can't be used afterwards."""
        with self._lock:
            self._connection.close()


class CachedEncoder:
    """An encoder that asks ``encoder`` only for texts that it hasn't seen; itself an Encoder."""

    def __init__(self, encoder: Encoder, path: Path) -> None:
        self._encoder = encoder
        self.cache = VectorCache(path)
        self.name = encoder.name

    @property
    def dimensions(self) -> int:
        """See :attr:`slurmcast.encoder.base.Encoder.dimensions`."""
        return self._encoder.dimensions

    def close(self) -> None:
        """End what the encoder is at, where that can last: it then raises :class:`EncoderError`."""
        if isinstance(self._encoder, Closable):
            self._encoder.close()

    def key(self, text: str) -> str:
        """The key under which :meth:`encode` keeps the vector of ``text``."""
        return text_key(self.name, text)

    def get(self, key: str) -> Vectors | None:
        """See :meth:`VectorCache.get`."""
        return self.cache.get(key)

    def vectors(self, keys: Iterable[str]) -> dict[str, Vectors]:
        """See :meth:`VectorCache.vectors`."""
        return self.cache.vectors(keys)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """See :meth:`slurmcast.encoder.base.Encoder.encode`."""
        keys = [self.key(text) for text in texts]
        known = self.vectors(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            made = dict(zip(missing, self._encoder.encode(list(missing.values())), strict=True))
            self.cache.put(made)
            known |= made
        return np.stack([known[key] for key in keys]) if keys else np.empty((0, self.dimensions), np.float32)


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_S, check_same_thread=False)
    try:
        write_ahead(connection, BUSY_S)
        connection.execute(TABLE)
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
    except sqlite3.Error:
        connection.close()
        raise
    return connection
