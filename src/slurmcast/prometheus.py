"""Prometheus' text format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Sample = tuple[Mapping[str, str], float | None]
"""Labels and value; a value that isn't known is left out."""


def metric(name: str, kind: str, meaning: str, samples: Sequence[Sample]) -> str:
    """``slurmcast_NAME`` with its lines of help and type; empty where nothing of it is known."""
    known = [(labels, value) for labels, value in samples if value is not None]
    if not known:
        return ""
    lines = [f"# HELP slurmcast_{name} {_escaped(meaning)}\n", f"# TYPE slurmcast_{name} {kind}\n"]
    for labels, value in known:
        pairs = ",".join(f'{label}="{_quoted(text)}"' for label, text in labels.items())
        lines.append(f"slurmcast_{name}{{{pairs}}} {value}\n" if pairs else f"slurmcast_{name} {value}\n")
    return "".join(lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')
