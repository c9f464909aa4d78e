"""Arguments of the benchmarks, by argparse: --help shows what each measures, and a wrong one ends in one line that says
what is allowed."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable, Collection


def parser(description: str | None) -> ArgumentParser:
    """For a benchmark with that docstring."""
    return ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)


def whole(least: int) -> Callable[[str], int]:
    """A whole number from ``least`` up."""

    def read(text: str) -> int:
        if not (text.isdecimal() and len(text) < 10 and int(text) >= least):
            raise ArgumentTypeError(f"{text!r}: must be a whole number from {least} up")
        return int(text)

    return read


def names(allowed: Collection[str]) -> Callable[[str], list[str]]:
    """Names with commas between them."""

    def read(text: str) -> list[str]:
        found = text.split(",")
        if unknown := [name for name in found if name not in allowed]:
            raise ArgumentTypeError(f"there is no {', '.join(map(repr, unknown))}; there are: {', '.join(allowed)}")
        return found

    return read


def numbers(least: float, most: float) -> Callable[[str], list[float]]:
    """Numbers with commas between them, each in a range."""

    def read(text: str) -> list[float]:
        try:
            found = [float(part) for part in text.split(",")]
        except ValueError:
            found = []
        if not (found and all(least <= number <= most for number in found)):
            raise ArgumentTypeError(f"{text!r}: must be numbers from {least:g} to {most:g} with commas between them")
        return found

    return read
