"""What a Python source says about the work: defaults of its options, constants, and the modules that it imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from slurmcast.script import arithmetic
from slurmcast.script.numbers import canonical, from_settings, is_own, plain

MAX_NODES = 200_000
_OPTION_CALLS = frozenset(("add_argument", "option", "argument", "Option", "Argument", "add_option"))
_COUNTERS = {"epoch": "epochs", "ep": "epochs", "step": "steps", "iteration": "steps", "it": "steps", "itr": "steps"}
_OPTION, _CONSTANT, _KEYWORD, _PARAMETER, _LOOP = range(5)
"""Where a number stands, the most telling place first."""


@dataclass(frozen=True, slots=True)
class Facts:
    """``defaults``: numbers by canonical name; ``aliases``: option strings of its parser by canonical name;
    ``positionals``: canonical names (or None) of its positional arguments; ``imports``: ``(module, level)`` as in
    ``from ..module import x``, with the imported names appended as submodules where they may be modules."""

    defaults: Mapping[str, float] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    positionals: tuple[str | None, ...] = ()
    imports: tuple[tuple[str, int], ...] = ()
    own_defaults: Mapping[str, float] = field(default_factory=dict)
    """Defaults of its options that have no canonical name, by their own."""
    own_aliases: Mapping[str, str] = field(default_factory=dict)
    own_positionals: tuple[str | None, ...] = ()
    """As ``aliases`` and ``positionals``, with names of its own; "" where the name is a canonical one."""


def read(text: str) -> Facts:
    """Read a Python source. Text that doesn't parse is read line by line for settings. Never raises."""
    tree = arithmetic.parse(text)
    if tree is None:
        return Facts(from_settings(text))
    found = _Finder()
    for count, node in enumerate(ast.walk(tree)):
        if count == MAX_NODES:
            break
        found.visit(node)
    return found.facts()


class _Finder:
    """Collects facts from the nodes of one tree, visited from the outside in."""

    def __init__(self) -> None:
        self.best: dict[str, tuple[int, float]] = {}
        self.constants: dict[str, float] = {}
        self.options: list[tuple[list[str], ast.expr | None]] = []
        self.named: dict[str, ast.expr] = {}  # what programs without a parser have: numbers under names in tables
        self.counted: dict[str, str] = {}  # an option's name -> what a loop over it counts
        self.argv: dict[int, str] = {}
        self.imports: dict[tuple[str, int], None] = {}

    def facts(self) -> Facts:
        aliases: dict[str, str] = {}
        positionals: list[str | None] = []
        own_defaults: dict[str, float] = {}
        own_aliases: dict[str, str] = {}
        own_positionals: list[str | None] = []
        for strings, default in self.options:
            known = [self.counted.get(plain(string)) or canonical(string) for string in strings]
            name = next((name for name in known if name), None)
            own = plain(max(strings, key=len))
            value = None if default is None else self._number(default)
            if not strings[0].startswith("-"):
                positionals.append(name)
                own_positionals.append("" if name else own)
            own_aliases |= {string: "" if name else own for string in strings if string.startswith("-")}
            if not name and value is not None and is_own(own, value):
                own_defaults.setdefault(own, value)
            if name:
                aliases |= {string: name for string in strings if string.startswith("-")}
                if default is not None:
                    self._note(name, default, _OPTION)
        for own, default in ((plain(name), default) for name, default in self.named.items()):
            value = self._number(default)
            if value is not None and own.isidentifier() and is_own(own, value):
                own_defaults.setdefault(own, value)
        by_index = [self.argv.get(place + 1) for place in range(min(max(self.argv, default=0), 32))]
        if not positionals:
            positionals = [canonical(name) if name else None for name in by_index]
            own_positionals = [name and ("" if canonical(name) else plain(name)) for name in by_index]
        return Facts(
            defaults={name: float(value) for name, (_, value) in self.best.items()},
            aliases=aliases,
            positionals=tuple(positionals),
            imports=tuple(self.imports),
            own_defaults=own_defaults,
            own_aliases=own_aliases,
            own_positionals=tuple(own_positionals),
        )

    def visit(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                self._unpacking([_last_name(target) for target in targets], value)
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assignment(_last_name(target), value)
            case ast.Call():
                self._call(node)
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        self._named(key.value, value)
            case ast.Tuple(elts=[ast.Constant(value=str(name)), ast.Constant() as value]):
                self._named(name, value)
            case ast.If(test=ast.Compare(ops=[ast.Eq()], comparators=[ast.Constant(value=str(flag))]), body=body):
                self._branch(flag, body)
            case ast.FunctionDef(args=arguments) | ast.AsyncFunctionDef(args=arguments):
                for name, default in _parameters(arguments):
                    self._note(name, default, _PARAMETER)
            case ast.For(target=ast.Name(id=counter), iter=ast.Call() as call) if counter in _COUNTERS:
                if _last_name(call.func) in ("range", "trange") and call.args:
                    last = call.args[min(len(call.args), 2) - 1]
                    self.counted[plain(_last_name(last))] = _COUNTERS[counter]
                    self._note(_COUNTERS[counter], last, _LOOP)
            case ast.Import(names=names):
                self.imports |= {(alias.name, 0): None for alias in names}
            case ast.ImportFrom(module=module, names=names, level=level):
                self.imports |= {(module, level): None} if module else {}
                self.imports |= {(f"{module or ''}.{alias.name}".lstrip("."), level): None for alias in names}

    def _assignment(self, name: str, value: ast.expr) -> None:
        self._note(name, value, _CONSTANT)
        number = self._number(value)
        if number is not None:
            self.constants.setdefault(name, number)
        inner = value.args[0] if isinstance(value, ast.Call) and len(value.args) == 1 else value
        match inner:
            case ast.Subscript(value=argv, slice=ast.Constant(value=int(index))) if _last_name(argv) == "argv":
                self.argv[index] = name

    def _branch(self, flag: str, body: list[ast.stmt]) -> None:
        """``if flag == "-n": SAMPLES = int(text)``: an option of a parser that the program wrote itself."""
        match body:
            case [ast.Assign(targets=[ast.Name(id=name) as target])] if flag.startswith("-"):
                self.options.append(([flag, f"--{name}"], target))

    def _unpacking(self, names: list[str], value: ast.expr) -> None:
        """``samples, features = map(int, sys.argv[1:])``, and ``samples, features = 3000, 20``"""
        if isinstance(value, ast.Tuple) and len(value.elts) == len(names):
            for name, element in zip(names, value.elts, strict=True):
                self._assignment(name, element)
            return
        for node in ast.walk(value):
            match node:
                case ast.Subscript(value=argv, slice=ast.Slice(lower=ast.Constant(value=int(first)))):
                    if _last_name(argv) == "argv":
                        self.argv |= {first + place: name for place, name in enumerate(names) if name}
                        return

    def _call(self, node: ast.Call) -> None:
        name = _last_name(node.func)
        strings = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        if name in _OPTION_CALLS and strings:
            self.options.append((strings, next((k.value for k in node.keywords if k.arg == "default"), None)))
        elif name == "dict":
            for keyword in node.keywords:
                self._named(keyword.arg or "", keyword.value)
        elif strings and len(node.args) > 1 and (name.startswith("DEFINE_") or name in ("getenv", "get")):
            self._named(strings[0], node.args[1], _OPTION)
        else:
            if len(strings) == 1 and len(node.args) == 2:  # arg("rows", 40000)
                self._named(strings[0], node.args[1])
            for keyword in node.keywords:
                self._note(keyword.arg or "", keyword.value, _KEYWORD)

    def _named(self, name: str, node: ast.expr, rank: int = _KEYWORD) -> None:
        self._note(name, node, rank)
        self.named.setdefault(name, node)

    def _note(self, name: str, node: ast.expr, rank: int) -> None:
        full = canonical(name)
        if full is None or self.best.get(full, (99, 0))[0] <= rank:
            return
        value = self._number(node)
        if value is not None and value > 0:
            self.best[full] = (rank, value)

    def _number(self, node: ast.expr) -> float | None:
        """The number that an expression most likely stands for; of ``a if debug else b`` it is ``b``."""
        match node:
            case ast.Constant(value=str(text)):
                return arithmetic.number(text)
            case ast.IfExp(orelse=ast.Constant() as otherwise):
                return self._number(otherwise)
            case ast.Call(func=function, args=[ast.expr() as only]) if _last_name(function) in ("int", "float"):
                return self._number(only) if not isinstance(only, ast.Call) or len(only.args) == 2 else None
            case ast.Call(func=function, args=[_, default]) if _last_name(function) in ("getenv", "get"):
                return arithmetic.number(str(default.value)) if isinstance(default, ast.Constant) else None
            case ast.Call(func=function) if _last_name(function) in ("field", "Field", "Option", "Argument"):
                defaults = [*(k.value for k in node.keywords if k.arg == "default"), *node.args[:1]]
                return arithmetic.evaluate(defaults[0], self.constants) if defaults else None
        return arithmetic.evaluate(node, self.constants)


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _parameters(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    plain = [*arguments.posonlyargs, *arguments.args]
    if arguments.defaults:
        for argument, default in zip(plain[-len(arguments.defaults) :], arguments.defaults, strict=True):
            yield argument.arg, default
    for argument, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if keyword_default is not None:
            yield argument.arg, keyword_default
