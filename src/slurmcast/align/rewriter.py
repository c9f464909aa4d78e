"""The edge of Align: has scripts rewritten by an OpenAI-style chat server, embeds the result and keeps its vector."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from enum import StrEnum
from weakref import WeakValueDictionary

from slurmcast.align.answer import Unusable, rewriting
from slurmcast.align.exemplars import Exemplar, load, nearest
from slurmcast.align.prompt import INSTRUCTIONS, request
from slurmcast.config import AlignConfig
from slurmcast.encoder.base import EncoderError, Vectors
from slurmcast.encoder.cache import CachedEncoder
from slurmcast.openai_client import OpenAIClient, OpenAIError
from slurmcast.script.reader import program

log = logging.getLogger(__name__)

MAX_ANSWER = 1 << 20
MAX_REFUSED = 10_000
"""Scripts without a usable rewriting that are remembered, so that they aren't sent again."""


Knows = Callable[[Vectors], bool]
"""Whether the probe knows scripts of that vector."""


class Result(StrEnum):
    """What became of one script, for the metrics."""

    REWRITTEN = "rewritten"
    UNUSABLE = "unusable"
    FAILED = "failed"


class Rewriter:
    """Safe for several threads. Of rewritings only vectors are kept (in the encoder's cache), no text."""

    def __init__(self, config: AlignConfig, encoder: CachedEncoder) -> None:
        """Raises :class:`slurmcast.openai_client.OpenAIError` where ``config.url`` can't be used; contacts nobody."""
        self._config, self._encoder = config, encoder
        self._client = OpenAIClient(
            config.url, key_file=config.key_file, timeout_s=config.timeout_s, max_answer=MAX_ANSWER
        )
        self._exemplars: tuple[Exemplar, ...] = ()
        self._refused: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()
        self._turns: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self.results: Counter[Result] = Counter()

    def load(self) -> None:
        """Read the exemplars. Blocks on files and on the encoder."""
        self._exemplars = load(self._config.exemplars, self._encoder, self._config.max_chars)

    def known(self, text_key: str, knows: Knows) -> Vectors | None:
        """The vector of a rewriting of the text with that key that the probe ``knows``, None where there is none."""
        found = self._encoder.vectors(self._key(exemplar, text_key) for exemplar in self._exemplars)
        return next((vector for vector in found.values() if knows(vector)), None)

    def rewrite(self, text: str, knows: Knows) -> Vectors | None:
        """The vector of ``text`` (a :attr:`slurmcast.model.Reading.text`) in the style of the nearest exemplar that the
        probe ``knows``; None where there is none. From now on :meth:`known`, if the probe knows it.

        Asks the server once for each script: blocks as long as that takes.
        """
        script = program(text)
        # The style of an exemplar that the probe doesn't know would lead nowhere.
        exemplar = nearest(script, [exemplar for exemplar in self._exemplars if knows(exemplar.vector)])
        if exemplar is None or not 0 < len(script) <= self._config.max_chars:
            return None
        # Submissions that differ in arguments alone are one script to the server.
        key = self._key(exemplar, script)
        with self._turn(key):
            rewritten = self._encoder.get(key)
            if rewritten is None and key not in self._refused:
                rewritten = self._ask(key, script, exemplar)
            if rewritten is not None:
                own = self._key(exemplar, self._encoder.key(text))
                self._encoder.cache.put({key: rewritten, own: rewritten})
        return rewritten

    def _ask(self, key: str, script: str, exemplar: Exemplar) -> Vectors | None:
        config, vector = self._config, None
        asked = request(exemplar.text, script, config.model, config.max_tokens)
        try:
            text = rewriting(self._client.post("/chat/completions", asked), exemplar.text, script, 2 * config.max_chars)
            vector, result = self._encoder.encode([text])[0], Result.REWRITTEN
        except Unusable as error:
            log.info("an answer in the style of %s is of no use: %s", exemplar.name, error)
            result = Result.UNUSABLE
        except (OpenAIError, EncoderError) as error:
            log.warning("a script isn't rewritten, its estimate stands: %s", error)
            result = Result.FAILED
        with self._lock:
            self.results[result] += 1
            if result is Result.UNUSABLE:
                self._refused[key] = None
                while len(self._refused) > MAX_REFUSED:
                    self._refused.popitem(last=False)
        return vector

    def _key(self, exemplar: Exemplar, what: str) -> str:
        """Where a rewriting's vector is kept: all that decides it, and ``what`` was rewritten."""
        parts = ["align", self._encoder.name, self._config.model, INSTRUCTIONS, exemplar.text, what]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _turn(self, key: str) -> threading.Lock:
        """Held by the thread that asks for that script, so that others wait for its answer; gone when nobody does."""
        with self._lock:
            return self._turns.setdefault(key, threading.Lock())

    def close(self) -> None:
        """End requests under way."""
        self._client.close()
