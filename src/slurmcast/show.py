"""Answers as tables for people on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table

Answer = Mapping[str, Any]


def _console() -> Console:
    return Console(highlight=False)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def duration(seconds: float | None) -> str:
    """Seconds as people say them: ``45 s``, ``12 min``, ``3.5 h``, ``2.1 d``; ``unknown`` for None."""
    if seconds is None:
        return "unknown"
    for limit, unit, size in ((120, "s", 1), (7200, "min", 60), (172800, "h", 3600)):
        if seconds < limit:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 86400:.3g} d"


def _time(interval: Answer | None) -> str:
    if interval is None:
        return "unknown"
    return f"{duration(interval['p50'])} ({duration(interval['p10'])} to {duration(interval['p90'])})"


def _energy(interval: Answer | None) -> str:
    if interval is None:
        return "unknown"
    return f"{interval['p50']:.3g} kWh ({interval['p10']:.3g} to {interval['p90']:.3g})"


def moment(at: float | None) -> str:
    """Unix seconds as local time."""
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S") if at else "never"


def _estimates(estimates: Sequence[Answer]) -> Table:
    table = _table("Expected (median, 10 to 90 %)", "partition", "GPUs", "time", "energy", "from")
    for e in estimates:
        time, energy = _time(e["time_s"]), _energy(e["energy_kwh"])
        table.add_row(e["partition"], str(e["gpus"]), time, energy, e["source"])
    return table


def _numbers(numbers: Answer) -> str:
    return "Read from script: " + ", ".join(f"{name} {value:g}" for name, value in sorted(numbers.items()))


def _made_from(answer: Answer) -> str:
    names = ", ".join(path.rpartition("/")[2] for path in answer.get("sources", ()))
    return f"Made from: {answer['made_from']}" + (f" ({names})" if names else "")


def prediction(answer: Answer) -> None:
    """The answer of ``predict``."""
    console = _console()
    if not answer["estimates"]:
        console.print("Nothing can be said: the script asks for no GPUs of a partition that slurmcast manages.")
        return
    console.print(_estimates(answer["estimates"]))
    console.print(_made_from(answer), soft_wrap=True)
    if answer.get("numbers"):
        console.print(_numbers(answer["numbers"]), soft_wrap=True)
    for missing in answer.get("missing_sources", ()):
        console.print(f"Not read: {missing}")


def explanation(answer: Answer) -> None:
    """The answer of ``explain``."""
    console = _console()
    console.print(f"[bold]Job {answer['job_id']}[/bold]  {answer['reason']}")
    if answer["estimates"]:
        console.print(_estimates(answer["estimates"]))
        console.print(_made_from(answer), soft_wrap=True)
    if answer.get("numbers"):
        console.print(_numbers(answer["numbers"]), soft_wrap=True)
    verdicts = _table("What may be done", "partition", "may", "why")
    for v in answer["eligibility"]:
        verdicts.add_row(v["partition"], v["may"], v["reason"])
    if answer["eligibility"]:
        console.print(verdicts)
    values = _table(
        "Values v = 1/(a t) - kappa e, higher goes first", "partition", "a: GPUs", "t: time", "e: energy", "kappa", "v"
    )
    for v in answer["values"]:
        energy = "unknown" if v["e_kwh"] is None else f"{v['e_kwh']:.3g} kWh"
        values.add_row(v["partition"], str(v["a"]), duration(v["t_s"]), energy, f"{v['kappa']:.3g}", f"{v['v']:.4g}")
    if answer["values"]:
        console.print(values)
    decision = answer.get("decision")
    if decision:
        how = "priority" if decision.get("priority") is not None else "site factor"
        number = decision.get("priority") if how == "priority" else decision.get("site_factor")
        place = answer.get("rank")
        rank = "" if place is None else f", rank {place} ({place} job{'' if place == 1 else 's'} before it there)"
        factor = f", {how} {number}" if number is not None else ""
        console.print(f"Decision at {moment(decision['at'])}: {decision['partition']}{rank}{factor}", soft_wrap=True)


def queue(answer: Answer) -> None:
    """The answer of ``queue``."""
    table = _table(
        "Pending jobs in slurmcast's order (rank: jobs before it; median time and energy)",
        "job",
        "user",
        "name",
        "partition",
        "rank",
        "time",
        "energy",
        "reason",
    )
    for job in answer["jobs"]:
        partition = job.get("partition") or ""
        mine = next((e for e in job["estimates"] if e["partition"] == partition), None)
        rank = "" if job.get("rank") is None else str(job["rank"])
        time_s, kwh = (mine["time_s"], mine["energy_kwh"]) if mine else (None, None)
        time, energy = duration(time_s and time_s["p50"]), f"{kwh['p50']:.3g} kWh" if kwh else "unknown"
        row = (str(job["job_id"]), job["user"], job["name"], partition, rank, time, energy, job.get("reason") or "")
        table.add_row(*row)
    _console().print(table if answer["jobs"] else "No pending GPU jobs of yours.")


def kappa(answer: Answer) -> None:
    """The answer of ``kappa``."""
    by = f", set by {answer['by']} at {moment(answer['since'])}" if answer.get("by") else " (from the configuration)"
    _console().print(f"kappa = {answer['kappa']:g} 1/(GPU s kWh){by}")


def checks(answer: Sequence[Answer]) -> None:
    """The report of ``doctor``."""
    console = _console()
    for check in answer:
        mark = "[green]ok  [/green]" if check["ok"] else "[red]FAIL[/red]"
        console.print(f"{mark} {check['name']:<11} {check['detail']}", soft_wrap=True)
        if not check["ok"]:
            console.print(f"     {'':<11} -> {check['remedy']}", soft_wrap=True)


def released(answer: Sequence[Answer]) -> None:
    """What ``release`` did."""
    console = _console()
    for result in answer:
        console.print(f"job {result['job_id']}: {result['detail']}", soft_wrap=True)
    if not answer:
        console.print("Nothing to give back: no pending job was changed by slurmcast.")


def figures(answer: Answer) -> None:
    """What ``train`` measured: one row per partition and target, cross-validated."""
    console = _console()
    console.print(f"Model {answer['model']}: {answer['examples']} examples, kind {answer['kind']}")
    for key, value in answer.get("figures", {}).items():
        console.print(f"  {key}: {value:.4g}" if isinstance(value, float) else f"  {key}: {value}", soft_wrap=True)
