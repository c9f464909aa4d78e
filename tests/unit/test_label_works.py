"""Which scripts a folder or a list has, and which of them can't be labelled."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurmcast.label.works import ListError, listed, work

SCRIPT = "#!/bin/bash\n#SBATCH --gpus=1 -t 10\npython train.py\n"


def script(folder: Path, name: str, text: str = SCRIPT) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_folder_has_its_batch_scripts_in_order(tmp_path: Path) -> None:
    script(tmp_path, "b.sh")
    script(tmp_path, "a")
    script(tmp_path, "helper.py", "#!/usr/bin/env python\nprint(1)\n")
    script(tmp_path, "notes", "#SBATCH --gpus=1\n")
    (tmp_path / "bytes").write_bytes(b"#!\xff\x00\n#SBATCH --gpus=1\n")
    (tmp_path / "folder").mkdir()
    script(tmp_path / "folder", "c.sh")
    assert [(path.name, arguments) for path, arguments in listed(tmp_path)] == [("a", ()), ("b.sh", ()), ("bytes", ())]


def test_a_list_has_arguments(tmp_path: Path) -> None:
    script(tmp_path, "a b.sh")
    absolute = script(tmp_path, "c.sh")
    path = script(tmp_path, "list", f"# two\n\n'a b.sh' --epochs 3 'x y' # no comment\n  {absolute}\n")
    assert listed(path) == [
        (tmp_path / "a b.sh", ("--epochs", "3", "x y", "#", "no", "comment")), (absolute, ())
    ]  # fmt: skip


def test_a_single_script(tmp_path: Path) -> None:
    path = script(tmp_path, "a.sh")
    assert listed(path) == [(path, ())]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.sh\nmissing.sh 1\n", r"list, line 2: .*missing\.sh is no file"),
        ("a.sh 'x\n", "list, line 1: No closing quotation"),
        (".\n", "list, line 1: .* is no file"),
        ("''\n", "list, line 1: .* is no file"),
        ("a.sh 'a\0b'\n", "list, line 1: it has a NUL"),
        ("# nothing\n", "no batch scripts"),
    ],
)
def test_a_wrong_list(tmp_path: Path, text: str, message: str) -> None:
    script(tmp_path, "a.sh")
    with pytest.raises(ListError, match=message):
        listed(script(tmp_path, "list", text))


def test_what_is_read_once_or_for_ever_is_no_list(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ListError, match="neither a folder nor a plain file"):
            listed(place)


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(ListError, match="no batch scripts"):
        listed(tmp_path)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("--gpus=1", ""),
        ("--gpus=1 --exclusive --requeue --partition=x --comment=slurmcast:off", ""),
        ("--cpus-per-task=4", "it asks for no GPUs"),
        ("--gres=shard:2", "it shares its GPU"),
        ("--gres=gpu:a100_1g.5gb:1", "it shares its GPU"),
        ("--gpus=1 --array=0-3", "it is an array"),
        ("--gpus=1 -H", "it is to be held"),
        ("--gpus=1 -W", "sbatch would wait"),
        ("--gpus=1 -w n1", "it names its nodes"),
        ("--gpus=1 --begin=now+1hour", "it begins at a set time"),
        ("--gpus=1 --nonsense", "sbatch refuses '--nonsense'"),
        ("--gpus=1\n#SBATCH hetjob\n#SBATCH --gpus=1", "it is a heterogeneous job"),
    ],
)
def test_what_can_be_labelled(tmp_path: Path, lines: str, reason: str) -> None:
    path = script(tmp_path, "a.sh", f"#!/bin/bash\n#SBATCH {lines}\nsleep 1\n")
    refusal = work(path, ()).refusal
    assert refusal.startswith(reason) and bool(refusal) == bool(reason)


def test_another_work_by_arguments_and_sources_but_not_by_its_path(tmp_path: Path) -> None:
    path, copy = script(tmp_path, "a.sh"), script(tmp_path, "b.sh")
    (tmp_path / "train.py").write_text("epochs = 1\n")
    before = work(path, ())
    assert (before.limit_s, before.gpus, before.nodes) == (600, 1, 1)
    assert work(copy, ()).key == before.key
    assert work(path, ("3",)).key != before.key
    (tmp_path / "train.py").write_text("epochs = 2\n")
    assert work(path, ()).key != before.key
