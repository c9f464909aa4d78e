"""What ``train`` and ``evaluate`` did and found, for people on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from slurmcast.show import Answer, moment, new_table, percent, terminal


def trained(answer: Answer) -> None:
    """What ``train`` did: whether the model was put to use, why, and its figures on left-out jobs."""
    console = terminal()
    _impossible(console, answer["impossible"])
    if not answer["promoted"]:
        console.print(f"{'Not put to use' if answer['tested'] else 'Not trained'}: {answer['reason']}.", soft_wrap=True)
        if answer["former"]:
            console.print(f"Model {answer['former']} stays in use.", soft_wrap=True)
        if answer["tested"]:
            console.print("slurmcast train --force puts the new one to use all the same.", soft_wrap=True)
        return
    why = "by --force; the test said" if answer["forced"] else "the model trained on the older jobs was"
    console.print(f"Model {answer['model']} ({answer['kind']}, {answer['examples']} jobs) is in use.", soft_wrap=True)
    console.print(f"Why: {why} {answer['reason']}.", soft_wrap=True)
    table = new_table(
        "Jobs left out in training", "GPU type", "estimate of", "jobs", "median error", "80 % interval holds"
    )
    for gpu_type, targets in answer["figures"].get("types", {}).items():
        for target, row in targets.items():
            table.add_row(gpu_type, target, str(row["keys"]), percent(row["median_ape"]), percent(row["coverage80"]))
    console.print(table)


def _impossible(console: Console, count: int) -> None:
    """That so many runs in the store are none to learn from."""
    if count:
        told = f"Finished runs left out, whose times or energies are negative or beyond all measure: {count}."
        console.print(told, soft_wrap=True)


def trained_when_due(answer: Answer) -> None:
    """What ``train --when-due`` did."""
    if answer["due"]:
        terminal().print(f"Training was due: {answer['because']}.", soft_wrap=True)
        trained(answer)
    else:
        terminal().print(f"Training isn't due: {answer['because']}.", soft_wrap=True)


def versions(answer: Answer) -> None:
    """What ``train --list`` shows."""
    console = terminal()
    table = new_table("Models, the newest first", "version", "", "kind", "examples", "median error of time")
    table.columns[0].no_wrap = True  # it is copied behind --rollback
    for model in answer["versions"]:
        if "error" in model:
            table.add_row(model["version"], model["state"], "can't be used", "", "")
            continue
        types = model["figures"].get("types", {})
        errors = (f"{name} {percent(row['time']['median_ape'])}" for name, row in types.items() if "time" in row)
        examples = str(model["figures"].get("examples", ""))
        table.add_row(model["version"], model["state"], model["kind"], examples, ", ".join(errors))
    console.print(table if answer["versions"] else "No model has been trained yet.")
    for model in answer["versions"]:
        if "error" in model:
            console.print(model["error"], soft_wrap=True)
    if answer["watch"] is not None:
        _watch(answer["watch"])
    else:
        told = "Nobody has looked yet whether training is due: slurmcast-train.timer does so every hour."
        console.print(told, soft_wrap=True)


def _watch(seen: Answer) -> None:
    """How the estimates of the last jobs came true, beside what the model in use reached when it was tested."""
    columns = ("estimate of", "partition", "jobs", "unknown", "median error", "tested", "80 % interval holds", "tested")
    table = new_table("Estimates of the last jobs", *columns)
    tested = {(row["target"], row["partition"]): row for row in seen["tested"]}
    for row in seen["recent"]:
        then = tested.get((row["target"], row["partition"]), {})
        shares = [of.get(name) for name in ("median_ape", "coverage") for of in (row, then)]
        told = [percent(share) for share in (row["unknown"], *shares)]
        table.add_row(row["target"], row["partition"], str(row["jobs"]), *told)
    console = terminal()
    if seen["recent"]:
        console.print(table)
    due = "is due" if seen["due"]["now"] else "isn't due"
    console.print(f"Training {due} (looked at {moment(seen['at'])}): {seen['due']['reason']}.", soft_wrap=True)


def rolled_back(answer: Answer) -> None:
    """What ``train --rollback`` did."""
    terminal().print(f"Model {answer['model']} is in use again, in place of {answer['former']}.", soft_wrap=True)


def evaluation(answer: Answer) -> None:
    """What ``evaluate`` measured."""
    console = terminal()
    _impossible(console, answer["impossible"])
    since = moment(answer["since"])
    console.print(
        f"{answer['newer']} jobs that ended since {since}, estimated from the {answer['older']} before; "
        f"{percent(answer['repeated'])} of them had run before.",
        soft_wrap=True,
    )
    for target in ("time", "energy"):
        rows = [row for row in answer["results"] if row["target"] == target]
        if rows:
            console.print(_evaluated(target, rows))
    for name, reason in answer["left_out"].items():
        console.print(f"{name}: left out, {reason}", soft_wrap=True)


def _evaluated(target: str, rows: Sequence[Answer]) -> Table:
    names = ("estimate", "jobs", "unknown", "median error", "p90 error", "Spearman", "80 % interval", "better type")
    table = new_table(target.capitalize(), *names)
    for row in rows:
        spearman = "" if row["spearman"] is None else f"{row['spearman']:.2f}"
        errors = (percent(row["unknown"]), percent(row["median_ape"]), percent(row["p90_ape"]))
        table.add_row(
            row["estimate"], str(row["jobs"]), *errors, spearman, percent(row["coverage80"]), percent(row["better"])
        )
    return table
