"""``slurmcast simulate``: the group that the simulator's commands belong to."""

from __future__ import annotations

from importlib import import_module

import click

COMMANDS = {
    "paper": "slurmcast.simulate.commands_paper",
    "replay": "slurmcast.simulate.replay.commands",
}
"""Modules by the name of the command in them. They load numpy, which ``slurmcast capture``, started by every sbatch,
must not wait for: each is imported when it is asked for."""


class Lazy(click.Group):
    """Finds its commands in COMMANDS."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(COMMANDS[cmd_name]), cmd_name)
        return command


@click.group(cls=Lazy)
def simulate() -> None:
    """Try policies on made-up or recorded work, without a cluster."""
