"""From a folder or a list to the scripts that are to be labelled."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from slurmcast.client import ENVIRONMENT
from slurmcast.label.words import Work
from slurmcast.model import Reading, Submission
from slurmcast.script import directives
from slurmcast.script.directives import Directives
from slurmcast.script.reader import read
from slurmcast.script.sources import MyFiles


class ListError(Exception):
    """The list or folder can't be used; the message says what to do."""


def listed(place: Path) -> list[tuple[Path, tuple[str, ...]]]:
    """Scripts and their arguments, in order: all batch scripts of a folder, the lines of a list, or a single script.

    A batch script begins with ``#!`` and has ``#SBATCH`` lines. In a list each line has a path, relative to the list's
    folder, and maybe arguments, quoted as in a shell; empty lines and those that begin with ``#`` say nothing.
    Raises :class:`ListError`, and OSError.
    """
    if place.is_dir():
        found = list(_in_folder(place))
    elif not place.is_file():
        raise ListError(f"{place}: neither a folder nor a plain file")
    elif _is_script(place):
        return [(place.absolute(), ())]
    else:
        found = list(_in_list(place))
    if not found:
        raise ListError(f"{place}: no batch scripts (they begin with #! and have #SBATCH lines)")
    return found


def _in_folder(folder: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    for path in sorted(folder.iterdir()):
        readable = path.is_file() and os.access(path, os.R_OK)
        if readable and _is_script(path) and directives.parse(path.read_bytes()).options:
            yield path.absolute(), ()


def _is_script(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"#!"


def _in_list(path: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    for number, line in enumerate(path.read_text(errors="surrogateescape").splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            script, *arguments = shlex.split(line)
            if "\0" in line:
                raise ValueError("it has a NUL")
        except ValueError as error:
            raise ListError(f"{path}, line {number}: {error}") from None
        found = (path.parent / script).absolute()
        if not found.is_file():
            raise ListError(f"{path}, line {number}: {found} is no file")
        yield found, tuple(arguments)


def submission(path: Path, arguments: tuple[str, ...]) -> Submission:
    """What slurmcast would see of ``sbatch PATH ARGUMENTS`` in the script's folder."""
    script = path.read_bytes()
    environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    argv = (str(path), *arguments)
    return Submission(
        os.getuid(), "", "", 0, script, len(script), work_dir=str(path.parent), argv=argv, environment=environment
    )


def work(path: Path, arguments: tuple[str, ...]) -> Work:
    """Read one script, and with this user's rights the programs that it starts."""
    asked = submission(path, arguments)
    said, reading = directives.parse(asked.script), read(asked, MyFiles())
    return Work(
        path=path,
        arguments=arguments,
        key=reading.key,
        options=said.options,
        gpus=reading.gpus_total,
        nodes=int(reading.numbers.get("nodes", 1)),
        request=reading.gpus,
        limit_s=reading.time_limit_s,
        refusal=_refusal(said, reading),
    )


_UNFIT = {
    "array": "it is an array: make a script of one of its tasks",
    "hold": "it is to be held (--hold)",
    "test-only": "it is only to be tested (--test-only)",
    "wait": "sbatch would wait for its end (--wait)",
    "dependency": "it waits for other jobs (--dependency)",
    "begin": "it begins at a set time (--begin)",
    "nodelist": "it names its nodes (--nodelist)",
    "reservation": "it names a reservation",
}
"""By options of sbatch, why a script with them can't be run at will on each partition."""


def _refusal(said: Directives, reading: Reading) -> str:
    if said.refused:
        return f"sbatch refuses {said.refused[0]!r}"
    if said.components > 1:
        return "it is a heterogeneous job"
    if not reading.gpus_total:
        return "it asks for no GPUs"
    if reading.gpus is not None and reading.gpus.shared:
        return "it shares its GPU with others (MIG, MPS or shard)"
    return next((reason for option, reason in _UNFIT.items() if option in said.options), "")
