"""How sbatch is asked for the runs of a script."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmcast.label.slurm import command
from slurmcast.label.words import Batch

BATCH = Batch("b1", 5.0, "key", "/x/a.sh", ("--epochs", "3 4"), "a100", 3, 1, 600, None, None)


def test_options_come_before_the_script_and_its_arguments_after_it() -> None:
    words = command(BATCH, ("--exclusive=user",), Path("/x/logs/%A_%a"), "")
    assert words == [
        "sbatch", "--parsable", "--partition=a100", "--array=0-2%1", "--no-requeue", "--comment=slurmcast-label:b1",
        "--output=/x/logs/%A_%a", "--error=/x/logs/%A_%a", "--exclusive=user", "/x/a.sh", "--epochs", "3 4",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("own", "kept"),
    [
        ("project x", "project x "),
        ("slurmcast:off", ""),
        ("mine,slurmcast:move; more", "mine,; more "),
        (" slurmcast:off slurmcast:move ", ""),
        ("slurmcast:offer", "slurmcast:offer "),
        ("noslurmcast:off", "noslurmcast:off "),
    ],
)
def test_a_scripts_comment_stays_but_for_wishes_about_its_place(own: str, kept: str) -> None:
    assert f"--comment={kept}slurmcast-label:b1" in command(BATCH, (), Path("/x"), own)
