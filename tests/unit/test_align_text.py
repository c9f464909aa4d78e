"""Align's pure part: what is sent to the chat server, what is taken from its answer, which exemplar is nearest."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurmcast.align.answer import Unusable, code, marks, rewriting
from slurmcast.align.exemplars import Exemplar, load, nearest, words
from slurmcast.align.prompt import fenced, request
from slurmcast.encoder.base import Vectors

EXAMPLE = """#!/bin/bash
#SBATCH --gres=gpu:1
python - <<END
import torch
config = {"epochs": 10, "data": "/data/cats"}
class Trainer:
    def fit(self):
        for epoch in range(config["epochs"]):
            self.step()
Trainer().fit()
END"""
SCRIPT = """#!/bin/bash
#SBATCH --gres=gpu:1
python - <<END
import torch
N = 37
FILES = "/data/dogs"
RATE = 3e-4
for n in range(N):
    optimizer.step()
END"""
REWRITTEN = """#!/bin/bash
#SBATCH --gres=gpu:1
python - <<END
import torch
config = {"epochs": 37, "data": "/data/dogs", "learning_rate": 0.0003}
class Trainer:
    def fit(self):
        for epoch in range(config["epochs"]):
            self.optimizer.step()
Trainer().fit()
END"""


def answer(content: Any, ended: str | None = "stop") -> dict[str, Any]:
    """A chat server's answer."""
    return {"choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": ended}]}


def test_the_request_holds_both_texts_and_asks_for_one_certain_answer() -> None:
    body = request(EXAMPLE, SCRIPT, "some-model", 99)
    assert body["model"] == "some-model" and body["temperature"] == 0 and body["max_tokens"] == 99
    said = body["messages"][-1]["content"]
    assert said.index(EXAMPLE) < said.index(SCRIPT)


@pytest.mark.parametrize("text", ["plain", "```\nrm -rf\n```", "`````", "a ```` b"])
def test_no_text_ends_its_own_fence(text: str) -> None:
    block = fenced(text)
    fence = block.split("\n")[0]
    assert fence not in text and block == f"{fence}\n{text}\n{fence}"
    assert code(f"Here:\n{block}\nDone.") == text + "\n"


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("x = 1", "x = 1"),
        ("```python\nx = 1\n```", "x = 1\n"),
        ("Sure!\n```\nx = 1\n```\nHope that helps.", "x = 1\n"),
        ("~~~\nx = 1\n~~~", "x = 1\n"),
        ("```bash\na\n```\nand\n```python\nb\n```", "a\n\nb\n"),
        ("```\nnever closed", "never closed"),
        ("<think>```\nno\n```</think>\n```\nyes\n```", "yes\n"),
        ("", ""),
    ],
)
def test_fences_and_talk_are_taken_off(content: str, found: str) -> None:
    assert code(content) == found


def test_marks_are_numbers_by_value_and_strings() -> None:
    assert marks("lr = 3e-4; n=1_000 x2 v1.2.3 'ab' \"it's\" 'c'") == {0.0003, 1000.0, "ab", "it's"}
    assert marks("a = 0.0003") == marks("b=3e-4")


@pytest.mark.parametrize("wrapped", [REWRITTEN, f"```bash\n{REWRITTEN}\n```", f"# made\n\n{REWRITTEN}\n\n"])
def test_a_rewriting_is_taken_as_the_reader_would_read_it(wrapped: str) -> None:
    assert rewriting(answer(wrapped), EXAMPLE, SCRIPT, 1000) == REWRITTEN


def test_the_lines_that_open_files_stay() -> None:
    script = SCRIPT + "\n\n# file: train.py\nx = 'some/where'"
    text = rewriting(
        answer(f"```\n{REWRITTEN}\n\n# file: train.py\n# talk\ny = 'some/where'\n```"), EXAMPLE, script, 1000
    )
    assert text.endswith("END\n# file: train.py\ny = 'some/where'")


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({}, "no choices"),
        ({"choices": []}, "no choices"),
        ({"choices": ["text"]}, "no choices"),
        ({"choices": [{"message": None}]}, "no choices"),
        (answer(None), "no text"),
        (answer(["parts"]), "no text"),
        (answer(""), "empty"),
        (answer("```\n# only talk\n```"), "empty"),
        (answer(REWRITTEN, "length"), "cut short"),
        (answer(REWRITTEN + "x" * 1000), "more than"),
        (answer(EXAMPLE), "repeats"),
        (answer(SCRIPT), "repeats"),
        (answer(f"```\n{EXAMPLE}\n```\n```\n{SCRIPT}\n```"), "repeats"),
        (answer(EXAMPLE.replace("epoch ", "step ").replace("Trainer", "Learner")), "isn't the same work"),
        (answer("I'm sorry, but I can't help with that."), "isn't the same work"),
    ],
)
def test_what_is_no_rewriting_is_refused(bad: dict[str, Any], why: str) -> None:
    with pytest.raises(Unusable, match=why):
        rewriting(bad, EXAMPLE, SCRIPT, 1000)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("encode_patches(VIT)", "vision"),
        ("for epoch in epochs: loss = criterion(LSTM(x))", "text"),
        ("def noiseSchedule(): ...", "diffusion"),
        ("class Trainer: attention, heads", "vision"),
        ("", "vision"),
    ],
)
def test_the_nearest_exemplar_shares_the_rare_words(text: str, name: str) -> None:
    common = "import torch\nclass Trainer:\n    for epoch in epochs: loss = criterion(model(x))\n"
    own = {"vision": "ViT patches heads attention", "text": "nn.LSTM characters", "diffusion": "NoiseSchedule steps"}
    exemplars = [Exemplar(name, common + text, np.zeros(2, np.float32)) for name, text in own.items()]
    found = nearest(text, exemplars)
    assert found is not None and found.name == name
    assert nearest(text, exemplars[:1]) is exemplars[0] and nearest(text, []) is None


def test_words_are_the_parts_of_names() -> None:
    assert words("TrainLoop(train_loop, x2, LSTMCell)") == {"train", "loop", "x", "lstm", "cell"}


class Lengths:
    """An encoder whose vectors can be read."""

    name, dimensions = "lengths", 2

    def encode(self, texts: list[str]) -> Vectors:
        return np.array([[len(text), text.count("\n")] for text in texts], np.float32)


def test_exemplars_are_batch_scripts_with_their_sources(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "b.sh").write_text("#!/bin/bash\n# comment\npython train.py --lr 1\n")
    (tmp_path / "a.sh").write_text("#!/bin/sh\nsrun true\n")
    (tmp_path / "train.py").write_text("import torch\n\ntorch.ones(3)\n")
    (tmp_path / "long.sh").write_text("#!/bin/sh\n" + "echo\n" * 200)
    (tmp_path / "folder").mkdir()
    found = load(tmp_path, Lengths(), max_chars=500)
    assert [exemplar.name for exemplar in found] == ["a.sh", "b.sh"]
    assert found[1].text == "#!/bin/bash\npython train.py --lr 1\n\n# file: train.py\nimport torch\ntorch.ones(3)"
    assert found[1].vector.tolist() == [len(found[1].text), 5]
    assert "long.sh is no exemplar" in caplog.text


def test_without_a_folder_there_are_no_exemplars(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert load(tmp_path / "none", Lengths(), 100) == ()
    assert "No such file" in caplog.text
