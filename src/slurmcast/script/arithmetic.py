"""Arithmetic on constants, for the shell's ``$((...))`` and for ``16 * 4`` in Python sources. Runs no code."""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Mapping

MAX_VALUE = 1e18
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def evaluate(node: ast.AST, names: Mapping[str, float] | None = None, depth: int = 16) -> float | None:
    """The number that an expression of constants (and known ``names``) stands for; None where it is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return _bounded(node.value)
    if isinstance(node, ast.Name) and names:
        return names.get(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and depth:
        value = evaluate(node.operand, names, depth - 1)
        return None if value is None else -value
    if isinstance(node, ast.BinOp) and depth:
        left, right = evaluate(node.left, names, depth - 1), evaluate(node.right, names, depth - 1)
        return None if left is None or right is None else _apply(node.op, left, right)
    return None


def shell(expression: str) -> int | None:
    """The value of a shell's arithmetic expression of integers and ``+ - * / % ( )``; None where it has others."""
    if len(expression) > 200 or not re.fullmatch(r"[\d\s+\-*/%()]+", expression, re.ASCII) or "**" in expression:
        return None
    tree = parse(expression.replace("/", "//").strip(), "eval")
    value = evaluate(tree.body) if isinstance(tree, ast.Expression) else None
    return None if value is None else int(value)


def parse(source: str, mode: str = "exec") -> ast.AST | None:
    """Python's syntax tree; None where the text is no Python or nested beyond what the parser takes."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source, mode=mode)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def number(text: str) -> float | None:
    """A number as people type it (``10``, ``1e5``, ``10_000``); None for anything else."""
    if len(text) > 40 or not re.fullmatch(r"\s*[+-]?(\d[\d_]*\.?\d*|\.\d+)([eE][+-]?\d{1,3})?\s*", text, re.ASCII):
        return None
    try:
        return _bounded(float(text))
    except ValueError:
        return None


def _apply(op: ast.operator, left: float, right: float) -> float | None:
    if isinstance(op, ast.Pow):
        return _bounded(left**right) if 0 <= right <= 60 and 0 < left <= 1000 else None
    if type(op) not in _OPERATORS or (right == 0 and isinstance(op, ast.Div | ast.FloorDiv | ast.Mod)):
        return None
    return _bounded(_OPERATORS[type(op)](left, right))


def _bounded(value: float) -> float | None:
    return value if abs(value) <= MAX_VALUE and math.isfinite(value) else None
