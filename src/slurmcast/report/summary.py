"""All that a report says, added up from runs. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slurmcast.report.accuracy import Accuracy
from slurmcast.report.rates import Rates
from slurmcast.report.usage import Usage
from slurmcast.store.columns import Runs


def summary(chunks: Iterable[Runs], rates: Rates) -> dict[str, Any]:
    """The figures of ``slurmcast report --json`` (docs/report.md), in memory that doesn't grow with the runs."""
    usage, accuracy = Usage(rates), Accuracy()
    for runs in chunks:
        usage.add(runs)
        accuracy.add(runs)
    return {"currency": rates.currency or None, **usage.answer(), "estimates": accuracy.answer()}
