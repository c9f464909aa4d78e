"""From a batch script to the programs it starts: their texts and the numbers in arguments, variables and sources."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import PurePosixPath

from slurmcast.model import Submission
from slurmcast.script import launch, numbers, python_source
from slurmcast.script.expand import Scope
from slurmcast.script.shell import commands
from slurmcast.script.sources import Found, Missing, SourceReader

MAX_SOURCES = 32
MAX_SOURCE_TEXT = 1024 * 1024
MAX_LAUNCHES = 64
MAX_IMPORTS = 64
_STARTERS = frozenset(("srun", "mpirun", "mpiexec"))
_SETTINGS = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg")


@dataclass(slots=True)
class Gathered:
    """What was found. Numbers in order of how much they count: arguments of programs, variables of the environment and
    the script, settings files, defaults in the launched sources, defaults in what those import."""

    arguments: dict[str, float] = field(default_factory=dict)
    variables: dict[str, float] = field(default_factory=dict)
    settings: dict[str, float] = field(default_factory=dict)
    defaults: dict[str, float] = field(default_factory=dict)
    imported: dict[str, float] = field(default_factory=dict)
    own_arguments: dict[str, float] = field(default_factory=dict)
    """Numbers under names of a program's own, in the same order: arguments, settings files, defaults."""
    own_settings: dict[str, float] = field(default_factory=dict)
    own_defaults: dict[str, float] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    """The sources that were read, by path, in the order of reading."""
    missing: dict[str, str] = field(default_factory=dict)

    def numbers(self) -> dict[str, float]:
        """By name; those of a program's own options after ``--``. What sources and settings files would set where the
        submission says otherwise is under ``default NAME``."""
        said = self.variables | self.arguments
        unsaid = self.imported | self.defaults | self.settings
        own_unsaid = self.own_defaults | self.own_settings
        own = islice((self.own_arguments | own_unsaid | self.own_arguments).items(), numbers.MAX_OWN)
        found = unsaid | said | {f"{numbers.OWN}{name}": value for name, value in own}
        usual = unsaid | {f"{numbers.OWN}{name}": value for name, value in own_unsaid.items()}
        overruled = {name: value for name, value in usual.items() if name in found and found[name] != value}
        return found | {f"{numbers.DEFAULT}{name}": value for name, value in overruled.items()}


def gather(submission: Submission, text: str, slurm: dict[str, str], sources: SourceReader) -> Gathered:
    """Follow the script ``text`` of a submission. ``slurm``: the variables that Slurm will set. Never raises."""
    scope = Scope(
        variables={name: [value] for name, value in (slurm | submission.environment).items()},
        positional=list(submission.argv[1:]),
    )
    gatherer = _Gatherer(submission, sources)
    if text.startswith("#!") and "python" in text[:200].partition("\n")[0]:
        gatherer.python(launch.Launch("python", code=text, arguments=submission.argv[1:]))
    else:
        gatherer.script(text, scope, depth=0)
    found = gatherer.found
    in_script = ((name, values[0]) for name, values in scope.variables.items() if len(values) == 1)
    found.variables = numbers.from_environment(in_script) | found.variables
    return found


class _Gatherer:
    def __init__(self, submission: Submission, sources: SourceReader) -> None:
        self.found = Gathered()
        self.launches = 0
        self._submission = submission
        self._sources = sources
        self._written: dict[str, str] = {}  # by the script itself, with cat and a here-document
        self._by_path: dict[str, str] = {}
        self._known: dict[str, python_source.Facts] = {}
        self._size = 0

    def script(self, text: str, scope: Scope, depth: int) -> None:
        """Follow one shell script; scripts that it calls are followed two levels down."""
        for command in commands(text, scope):
            if command.output and command.stdin and command.words[0] == "cat":
                self._written[str(PurePosixPath(command.directory) / command.output)] = command.stdin
            started = launch.launched(command)
            if started is None:
                if "/" in command.words[0] or command.words[0] in _STARTERS:
                    self.found.arguments = numbers.most(self.found.arguments, numbers.from_arguments(command.words))
                continue
            self.launches += 1
            if self.launches > MAX_LAUNCHES:
                return
            self.found.variables |= numbers.from_environment(started.environment.items())
            counts = {"trials": float(started.repeat)} if started.repeat > 1 else {}
            launcher = numbers.from_arguments(started.launcher)
            counts |= {name: launcher[name] for name in launcher if name == "processes"}
            self.found.arguments = numbers.most(self.found.arguments, counts)
            if started.language == "python":
                self.python(started)
            elif depth < 2:
                self._shell(started, scope, depth)

    def _shell(self, started: launch.Launch, scope: Scope, depth: int) -> None:
        path = str(PurePosixPath(started.directory) / started.path)
        text = started.code or self._read([path], "" if started.sourced else started.path)
        if text is None:
            return
        if started.sourced:
            self.script(text, scope, depth + 1)
            return
        arguments = list(started.arguments) or (scope.positional if started.code else [])
        inner = Scope(dict(scope.variables), arguments, scope.directory, scope.budget)
        self.script(text, inner, depth + 1)
        scope.budget = inner.budget

    def python(self, started: launch.Launch) -> None:
        """Take in one Python program: its arguments, its text, the settings files it is given, what it imports."""
        here = PurePosixPath(started.directory)
        if started.module:
            stem = started.module.replace(".", "/")
            text = self._read([str(here / f"{stem}{end}") for end in (".py", "/__main__.py")], started.module)
        else:
            text = started.code or self._read([str(here / started.path)], started.path)
        facts = self._facts(text or "")
        found = self.found
        found.defaults = numbers.most(found.defaults, facts.defaults)
        found.arguments = numbers.most(
            found.arguments, numbers.from_arguments(started.arguments, facts.aliases, facts.positionals)
        )
        found.own_defaults = numbers.most(found.own_defaults, facts.own_defaults)
        own = numbers.own_from_arguments(started.arguments, facts.own_aliases, facts.own_positionals)
        found.own_arguments = numbers.most(found.own_arguments, own)
        for word in started.arguments:
            path = word.rpartition("=")[2]
            if path.endswith(_SETTINGS):
                settings = self._read([str(here / path)])
                found.settings = numbers.most(found.settings, numbers.from_settings(settings or ""))
                found.own_settings = numbers.most(found.own_settings, numbers.own_from_settings(settings or ""))
        package = here / (started.module.replace(".", "/") if started.module else started.path)
        for name, level in islice(facts.imports, MAX_IMPORTS):
            base = here if started.module and not level else package.parent
            self._import(base, name, level)

    def _import(self, base: PurePosixPath, name: str, level: int) -> None:
        """Take in a module that lies beside the program; those from elsewhere (torch, the standard library) don't."""
        if level == 0 and name.partition(".")[0] in sys.stdlib_module_names:
            return
        for _ in range(min(level, 8) - 1):
            base = base.parent
        stem = base / name.replace(".", "/")
        text = self._read([f"{stem}.py", f"{stem}/__init__.py"])
        if text:
            self.found.imported = numbers.most(self.found.imported, self._facts(text).defaults)

    def _facts(self, text: str) -> python_source.Facts:
        if text not in self._known:
            self._known[text] = python_source.read(text)
        return self._known[text]

    def _read(self, candidates: Sequence[str], name: str = "") -> str | None:
        """The text of the first candidate that may be read. With a ``name``, it is said to be missing otherwise."""
        for path in candidates:
            text = self._written.get(path) or self._by_path.get(path)
            if text is not None:
                return text
        if "$" in candidates[0] or "`" in candidates[0]:
            result: Found | Missing = Missing("its path is known only when the job runs")
        elif len(self.found.texts) == MAX_SOURCES or self._size > MAX_SOURCE_TEXT:
            result = Missing("more sources than are read")
        else:
            result = self._sources(candidates, self._submission.work_dir, self._submission.uid)
        if isinstance(result, Missing):
            if name:
                self.found.missing[name] = result.reason
            return None
        text = result.data.decode("utf-8", "replace")
        self._size += len(text)
        self.found.texts[result.path] = text
        self._by_path |= dict.fromkeys(candidates, text)
        return text
