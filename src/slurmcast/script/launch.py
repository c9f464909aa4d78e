"""Which programs a command starts: Python files, modules and code, and other shell scripts, behind any launcher."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from slurmcast.script.shell import Command

_WRAPPER_NAMES = """
    srun mpirun mpiexec mpiexec.hydra orterun prterun ibrun aprun jsrun horovodrun env time exec command builtin
    nohup nice ionice timeout numactl taskset stdbuf unbuffer setsid sudo xvfb-run xargs nsys ncu rocprof
    singularity apptainer shifter podman docker podman-hpc enroot ch-run conda mamba micromamba uv poetry pipenv
    pixi hatch pdm rye coverage kernprof py-spy scalene memray viztracer eval"""
_WRAPPERS = frozenset(_WRAPPER_NAMES.split())
"""Programs that start another one, named further to the right; their own options are passed over."""
_LAUNCHERS = frozenset(("torchrun", "accelerate", "deepspeed", "composer", "lightning", "fabric", "colossalai"))
"""Programs that start a Python file, or a module after ``-m``, in several processes."""
_LAUNCHER_MODULES = frozenset(
    ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "deepspeed.launcher.runner")
)
_PROFILERS = frozenset(("cProfile", "profile", "pdb", "trace", "coverage", "scalene", "viztracer", "kernprof"))
_TOOLS = frozenset(("pip", "virtualenv", "ipykernel")) | sys.stdlib_module_names
_SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ksh", "source", "."))
_SET_UP = frozenset(("activate", ".bashrc", ".bash_profile", ".profile", "conda.sh", "bashrc", "modules.sh"))
_PYTHON = re.compile(r"i?python[\d.]*|pypy[\d.]*", re.ASCII)
_MAX_DEPTH = 16


@dataclass(frozen=True, slots=True)
class Launch:
    """One program that a command starts. One of ``path``, ``module`` and ``code`` is set."""

    language: Literal["python", "shell"]
    path: str = ""
    module: str = ""
    code: str = ""
    arguments: tuple[str, ...] = ()
    launcher: tuple[str, ...] = ()
    """The launchers' own words, such as ``--nproc_per_node=4``."""
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str = ""
    repeat: int = 1
    sourced: bool = False
    """Read by ``source``, so that it shares its variables with the script."""


def launched(command: Command) -> Launch | None:
    """The program that a command starts, where it is one whose text can be read; else None. Never raises."""
    words = list(command.words)
    environment = dict(command.assignments)
    passed: list[str] = []
    for _ in range(_MAX_DEPTH):
        name = _name(words[0])
        if name not in _WRAPPERS:
            break
        if name == "eval" and len(words) == 2:
            return Launch("shell", code=words[1], environment=environment, directory=command.directory, sourced=True)
        inner = next((place for place, word in enumerate(words) if place and _is_program(word)), None)
        if inner is None:
            return None
        if name == "env":
            environment |= {word.partition("=")[0]: word.partition("=")[2] for word in words[1:inner] if "=" in word}
        passed += words[1:inner]
        words = words[inner:]
    found = _program(_name(words[0]), words, command.stdin)
    if found is None:
        return None
    return replace(
        found,
        launcher=(*passed, *found.launcher),
        environment=environment,
        directory=command.directory,
        repeat=command.repeat,
    )


def _program(name: str, words: Sequence[str], stdin: str | None) -> Launch | None:
    if name in _LAUNCHERS:
        return _launcher(words[1:])
    if name in _SHELLS:
        return _shell(name, words[1:], stdin)
    if _PYTHON.fullmatch(name):
        return _python(words[1:], stdin)
    if name.endswith(".py"):
        return Launch("python", path=words[0], arguments=tuple(words[1:]))
    if name.endswith((".sh", ".bash", ".slurm", ".sbatch")) or (words[0].startswith("./") and "." not in name):
        return Launch("shell", path=words[0], arguments=tuple(words[1:]))
    return None


def _launcher(words: Sequence[str]) -> Launch | None:
    """``torchrun --nproc_per_node=4 train.py ...`` and its kind: the first Python file, or the module behind ``-m``."""
    for place, word in enumerate(words):
        rest = words[place + 1 :]
        if word in ("-m", "--module") and rest:
            return Launch("python", module=rest[0], arguments=tuple(rest[1:]), launcher=tuple(words[:place]))
        if word.endswith(".py") and not word.startswith("-"):
            return Launch("python", path=word, arguments=tuple(rest), launcher=tuple(words[:place]))
    return None


def _shell(name: str, words: Sequence[str], stdin: str | None) -> Launch | None:
    sourced = name in ("source", ".")
    for place, word in enumerate(words):
        rest = words[place + 1 :]
        if re.fullmatch(r"-[a-z]*c", word) and rest:
            return Launch("shell", code=rest[0], arguments=tuple(rest[2:]))
        if not word.startswith(("-", "+")):
            if _name(word) in _SET_UP:
                return None
            return Launch("shell", path=word, arguments=tuple(rest), sourced=sourced)
    return Launch("shell", code=stdin) if stdin else None


def _python(words: Sequence[str], stdin: str | None) -> Launch | None:
    """Python's own command line (man python): ``-c``, ``-m``, ``-``, a file, or a program on standard input."""
    place = 0
    while place < len(words):
        word, rest = words[place], words[place + 1 :]
        place += 1
        if word == "-" or (word in ("/dev/stdin", "-i") and stdin):
            return Launch("python", code=stdin or "", arguments=tuple(rest))
        flag = re.fullmatch(r"-[A-Za-z]*?([cm])(.*)", word, re.DOTALL) if not word.startswith("--") else None
        if flag and (flag[2] or rest):
            value, arguments = (flag[2], rest) if flag[2] else (rest[0], rest[1:])
            return _module(value, arguments) if flag[1] == "m" else Launch("python", "", "", value, tuple(arguments))
        if word in ("-W", "-X"):
            place += 1
        elif not word.startswith("-"):
            return Launch("python", path=word, arguments=tuple(rest))
    return Launch("python", code=stdin) if stdin else None


def _module(name: str, arguments: Sequence[str]) -> Launch | None:
    if name in _LAUNCHER_MODULES or name in _PROFILERS:
        return _launcher(arguments)
    if name.partition(".")[0] in _TOOLS:
        return None
    return Launch("python", module=name, arguments=tuple(arguments))


def _name(word: str) -> str:
    return word.rpartition("/")[2]


def _is_program(word: str) -> bool:
    """Whether a word further to the right names a program that is known here."""
    name = _name(word)
    if word.startswith("-") or "=" in word or "://" in word:
        return False
    return (
        name in _WRAPPERS
        or name in _LAUNCHERS
        or name in _SHELLS - {"."}
        or bool(_PYTHON.fullmatch(name))
        or name.endswith((".py", ".sh"))
    )
