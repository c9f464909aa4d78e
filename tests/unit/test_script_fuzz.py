"""Whatever the script, the reader neither raises nor takes long."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmcast.codec import to_json
from slurmcast.model import Submission
from slurmcast.script import Found, read
from slurmcast.script.directives import split_words
from slurmcast.script.expand import Scope
from slurmcast.script.pieces import piece_end
from slurmcast.script.shell import commands

MIB = 1024 * 1024
PARTS = [
    "#SBATCH ", "--gres=gpu:2", "-n4", "#PBS -l nodes=", "#BSUB -n ", "hetjob", "slurmcast:off", "python ", "x.py ",
    "srun ", "bash -c ", "eval ", "source a", "cd ..", "-m ", "-c ", "--epochs ", "epochs=3", "$1", "$@", "shift",
    "set -- ", "${X:-", "}", "$(", "((", ")", "`", "'", '"', "\\", "\n", " ", ";", "&&", "|", ">", "<<E", "E\n",
    "for i in ", "do ", "done", "{1..9}", "X=", "A=(", "+=", "[@]", "(", "#", "\r", "\t", "\0", "é", "\ud800",
    "=", "9" * 50, "-", "~/",
]  # fmt: skip
scripts = st.lists(st.sampled_from(PARTS) | st.text(max_size=5), max_size=60).map("".join)


def submission(script: bytes, **fields: object) -> Submission:
    return Submission(1, "u", "n", 0, script, len(script), argv=("s", "7", "a b"), **fields)  # type: ignore[arg-type]


@settings(max_examples=300, deadline=None)
@given(scripts, scripts)
def test_never_raises(script: str, source: str) -> None:
    made = submission(
        b"#!/bin/sh\n" + script.encode("utf-8", "surrogatepass"),
        request={"tres_per_node": source[:40], "time_limit": source[:5], "comment": source},
        environment={"X": source, "EPOCHS": "3"},
        array=source[:9],
    )
    found = read(made, lambda candidates, _dir, _uid: Found(candidates[0], source.encode("utf-8", "replace")))
    assert len(found.key) == 64
    str(to_json(found)).encode()  # no half characters in what is stored
    assert all(value > 0 for value in found.numbers.values())


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_never_raises_on_bytes(script: bytes) -> None:
    assert read(submission(script)).key == read(submission(script)).key


@settings(max_examples=300, deadline=None)
@given(scripts)
def test_pieces_always_go_on(text: str) -> None:
    at = 0
    while at < len(text):
        end = piece_end(text, at)
        assert at < end <= len(text)
        at = end


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(st.characters(codec="ascii", exclude_characters="\n\0"), min_size=1, max_size=8), max_size=6))
def test_quoted_words_come_back(words: list[str]) -> None:
    quoted = ["'" + word.replace("'", "'\"'\"'") + "'" for word in words]
    found = [list(command.words) for command in commands("p " + " ".join(quoted), Scope())]
    assert found == [["p", *words]]
    escaped = ["".join(f"\\{letter}" for letter in word) for word in words]
    if not any(word.startswith(":") for word in words):
        assert list(split_words(" " + " ".join(escaped))) == words


HARD = {
    "directives": b"#SBATCH -n 4 --gres=gpu:1\n" * 150_000,
    "one line": b"x" * (4 * MIB),
    "words": b"a " * (2 * MIB),
    "directive words": b"#SBATCH " + b"--n " * MIB,
    "directive quotes": b"#SBATCH " + b"'" * (4 * MIB),
    "quotes": b"\"'" * (2 * MIB),
    "dollars and quotes": b'$"' * (2 * MIB),
    "folders": b"cd x\n" * 800_000,
    "open quotes": b'"' * (4 * MIB - 1),
    "backslashes": b"\\" * (4 * MIB),
    "open brackets": b"$(" * (2 * MIB),
    "open braces": b"${a:-" * (MIB // 2),
    "quoted braces": b"echo " + b'${a:-"' * 600,
    "newlines": b"\n" * MIB,
    "nulls": b"\0" * (4 * MIB),
    "here-documents": b"<<a " * MIB,
    "doubling": b"X=aaaaaaaaaaaaaaaa\n" + b"X=$X$X\n" * 1000 + b"echo $X$X$X$X\n" * 100_000,
    "sequences": b"for i in {1..9999}; do\n" * 100_000,
    "growing arrays": b"A+=(x)\n" * 100_000,
    "spaces": b"X='" + b" " * 60_000 + b"'\n" + (b"echo " + b"$X" * 30_000 + b"\n") * 8,
    "launches": b"python a.py --epochs 3 $X\n" * 150_000,
    "nested Python": b"python -c '" + b"(" * 200_000 + b"'\n",
    "unary Python": b"python <<'E'\nx=" + b"-" * 200_000 + b"1\nE\n",
    "long Python": b"python <<'E'\n" + b"epochs=3\nx=1+1+1+1\n" * 24_000 + b"E\n",
    "broken Python": b"python <<'E'\n(\n" + b'add_argument("--epochs", help="' * 8000 + b"\nE\n",
    "other schedulers": b"#BSUB -n 4\n" * 300_000,
}


@pytest.mark.parametrize("name", HARD)
def test_hard_scripts_take_seconds_at_most(name: str) -> None:
    start = time.process_time()
    found = read(submission(b"#!/bin/bash\n" + HARD[name]))
    assert time.process_time() - start < 15  # measured: below 3 s on one slow core
    assert len(found.text) < 70_000
