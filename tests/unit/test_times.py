"""Times as people give them, the same for every command."""

from __future__ import annotations

import os
import pwd
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurmcast.cli import main
from slurmcast.times import moment

NOW = datetime(2026, 11, 30, 12, 0, 0).timestamp()


@pytest.mark.parametrize(
    ("text", "then"),
    [
        ("2026-11-01", datetime(2026, 11, 1).timestamp()),
        ("2026-11-01T08:30", datetime(2026, 11, 1, 8, 30).timestamp()),
        ("2026-11-01T08:30+00:00", 1793521800.0),
        (" 12h ", NOW - 12 * 3600),
        ("7d", datetime(2026, 11, 23, 12).timestamp()),
        ("4w", datetime(2026, 11, 2, 12).timestamp()),
    ],
)
def test_times_as_people_give_them(text: str, then: float) -> None:
    assert moment(text, NOW) == then


@pytest.mark.parametrize("text", ["", "yesterday", "7", "-7d", "7y", "99999w", "2026-13-01", "0001-01-01", "now\n7d"])
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="must be like 2026-11-01"):
        moment(text, NOW)


@pytest.mark.parametrize("command", ["report", "import", "simulate replay history"])
@pytest.mark.parametrize("given", ["2026-01-02", "2026-01-02T08:00", "2026-01-02T08:00:00", "12h", "7d", "7 days"])
def test_every_command_takes_the_same_forms(command: str, given: str, tmp_path: Path) -> None:
    config, user = tmp_path / "slurmcast.toml", pwd.getpwuid(os.getuid()).pw_name
    folders = "".join(f'{name} = "{tmp_path}"\n' for name in ("run_dir", "state_dir", "agent_state_dir"))
    config.write_text(f'[paths]\n{folders}[daemon]\nagent_user = "{user}"\n')
    words = ["--config", str(config), *command.split(), "--since", given]
    result = CliRunner().invoke(main, words)
    if given == "7 days":
        assert result.exit_code == 2 and f"'{given}' is no time: must be like 2026-11-01, 2026-" in result.output
    else:  # there is neither a daemon nor a store
        assert result.exit_code == 1 and ("slurmcastd doesn't run" in result.output or "no such file" in result.output)
    assert "12h, 7d, 4w ago" in " ".join(CliRunner().invoke(main, [*command.split(), "--help"]).output.split())
