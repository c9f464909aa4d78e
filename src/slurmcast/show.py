"""Answers as tables for people on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

Answer = Mapping[str, Any]


class _Terminal(Console):
    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


def terminal(width: int | None = None, stderr: bool = False) -> Console:
    """Where answers are printed: as they are, for ``[red]`` or ``:bomb:`` may be somebody's job, but for what a
    terminal would obey, and bytes that are no text."""
    return _Terminal(highlight=False, markup=False, emoji=False, width=width, stderr=stderr)


def printable(text: str) -> str:
    """``text`` with U+FFFD for each character but the newline that is no visible one."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def new_table(title: str, *columns: str) -> Table:
    """A table without rows."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def duration(seconds: float | None) -> str:
    """Seconds as people say them: ``45 s``, ``12 min``, ``3.5 h``, ``2.1 d``; ``unknown`` for None."""
    if seconds is None:
        return "unknown"
    unit, size = _unit(seconds)
    return f"{_figure(seconds / size)} {unit}"


def _unit(seconds: float) -> tuple[str, int]:
    """The unit that ``seconds`` are told in, and how many seconds it has."""
    for limit, unit, size in ((120, "s", 1), (7200, "min", 60), (172800, "h", 3600)):
        if seconds < limit:
            return unit, size
    return "d", 86400


def _figure(number: float) -> str:
    """Three digits that count, and as many as it takes before the point."""
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"


def _time(interval: Answer | None) -> str:
    unit, size = _unit(interval["p50"]) if interval else ("", 1)
    return _amount(interval, unit, size)


def _amount(interval: Answer | None, unit: str, size: float = 1) -> str:
    """``interval`` in ``unit``, of which one is ``size``: ``24 min (3 to 60)``."""
    if interval is None:
        return "unknown"
    p10, p50, p90 = (_figure(interval[name] / size) for name in ("p10", "p50", "p90"))
    return f"{p50} {unit} ({p10} to {p90})"


def percent(share: float | None, unknown: str = "") -> str:
    """``7.5 %``, ``42 %``; whole above 10."""
    if share is None:
        return unknown
    return f"{100 * share:.0f} %" if share >= 0.0995 or share == 0 else f"{100 * share:.1f} %"


def moment(at: float | None) -> str:
    """Unix seconds as local time."""
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S") if at else "never"


def _estimates(estimates: Sequence[Answer]) -> Table:
    further = {
        name: (key, unit)
        for name, key, unit in (
            ("GPU memory", "gpu_memory_gb", "GB"),
            ("carbon", "carbon_kg", "kg CO2e"),
            ("water", "water_l", "L"),
        )
        if any(e.get(key) is not None for e in estimates)
    }
    table = new_table("Expected (median, 10 to 90 %)", "partition", "GPUs", "time", "energy", *further, "from")
    for e in estimates:
        amounts = [_amount(e["energy_kwh"], "kWh"), *(_amount(e.get(key), unit) for key, unit in further.values())]
        table.add_row(e["partition"], str(e["gpus"]), _time(e["time_s"]), *amounts, e["source"])
    return table


def _numbers(numbers: Answer) -> str:
    return "Numbers found: " + ", ".join(f"{name} {value:.12g}" for name, value in sorted(numbers.items()))


def _made_from(answer: Answer) -> str:
    names = ", ".join(path.rpartition("/")[2] for path in answer.get("sources", ()))
    return f"Made from: {answer['made_from']}" + (f" ({names})" if names else "")


def _expected(console: Console, answer: Answer) -> None:
    """What ``predict`` and ``explain`` expect of a job, and from what."""
    if answer["estimates"]:
        console.print(_estimates(answer["estimates"]))
        if all(e["time_s"] is None for e in answer["estimates"]):
            told = "Nothing tells how long it runs: it has no time limit (--time), and no job like it has finished."
            console.print(told, soft_wrap=True)
    limit = (answer.get("numbers") or {}).get("time_limit_s")
    late = [e["partition"] for e in answer["estimates"] if limit and e["time_s"] and e["time_s"]["p50"] > limit]
    if late:
        told = f"Its time limit of {duration(limit)} is more likely than not to end it on {', '.join(late)}."
        console.print(told, soft_wrap=True)
    if answer.get("made_from"):
        console.print(_made_from(answer), soft_wrap=True)
    if answer.get("numbers"):
        console.print(_numbers(answer["numbers"]), soft_wrap=True)


def prediction(answer: Answer) -> None:
    """The answer of ``predict``."""
    console = terminal()
    if answer["estimates"]:
        _expected(console, answer)
    else:
        console.print("Nothing can be said: the script asks for no GPUs of a partition that slurmcast manages.")
    if answer.get("remark"):
        console.print(answer["remark"], soft_wrap=True)
    for missing in answer.get("missing_sources", ()):
        console.print(f"Not read: {missing}")


def explanation(answer: Answer) -> None:
    """The answer of ``explain``."""
    console = terminal()
    console.print(Text.assemble((f"Job {answer['job_id']}", "bold"), printable(f"  {answer['reason']}")))
    _expected(console, answer)
    verdicts = new_table("What may be done", "partition", "may", "why")
    for v in answer["eligibility"]:
        verdicts.add_row(v["partition"], v["may"], v["reason"])
    if answer["eligibility"]:
        console.print(verdicts)
    weighed = any(v.get("energy_weight", 1.0) != 1.0 for v in answer["values"])
    names = ("partition", "a: GPUs", "t: time", "e: energy", *(["w: price"] if weighed else []), "kappa", "v")
    formula = "kappa w e (w: price of its hours next to the mean)" if weighed else "kappa e"
    values = new_table(f"Values v = 1/(a t) - {formula}, higher goes first", *names)
    for v in answer["values"]:
        energy = "unknown" if v["e_kwh"] is None else f"{_figure(v['e_kwh'])} kWh"
        weight = [f"{v.get('energy_weight', 1.0):.2f}"] if weighed else []
        row = (v["partition"], str(v["a"]), duration(v["t_s"]), energy, *weight, f"{v['kappa']:.3g}", f"{v['v']:.4g}")
        values.add_row(*row)
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
    table = new_table(
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
        time, energy = duration(time_s and time_s["p50"]), f"{_figure(kwh['p50'])} kWh" if kwh else "unknown"
        row = (str(job["job_id"]), job["user"], job["name"], partition, rank, time, energy, job.get("reason") or "")
        table.add_row(*row)
    terminal().print(table if answer["jobs"] else "No pending GPU jobs to show.")


def kappa(answer: Answer) -> None:
    """The answer of ``kappa``."""
    for setting in (answer, *answer.get("others", ())):
        by = f"set by {setting['by']} at {moment(setting['since'])}" if setting["by"] else "from the configuration"
        terminal().print(f"kappa{_scope(setting)} = {setting['kappa']:g} 1/(GPU s kWh), {by}", soft_wrap=True)
    if answer.get("pending_jobs") == 0:
        terminal().print("No pending job has this QOS: is the name right? (sacctmgr show qos)", soft_wrap=True)


def kappa_history(answer: Answer) -> None:
    """The answer of ``kappa --history``."""
    table = new_table("kappa, the newest first, in 1/(GPU s kWh)", "when", "by", "for", "kappa")
    for setting in answer["settings"]:
        value = "back to the configuration" if setting["kappa"] is None else f"{setting['kappa']:g}"
        table.add_row(moment(setting["since"]), setting["by"], _scope(setting).strip() or "all jobs", value)
    terminal().print(table if answer["settings"] else "Nobody has set kappa: the configuration's holds.")


def _scope(setting: Answer) -> str:
    """Which jobs a kappa is for; empty: all."""
    named = ((" on partition ", setting["partition"]), (" of QOS ", setting["qos"]))
    return "".join(f"{words}{name}" for words, name in named if name)


def checks(answer: Sequence[Answer]) -> None:
    """The report of ``doctor``."""
    console = terminal()
    for check in answer:
        mark = ("ok  ", "green") if check["ok"] else ("FAIL", "red")
        console.print(Text.assemble(mark, printable(f" {check['name']:<11} {check['detail']}")), soft_wrap=True)
        if not check["ok"]:
            console.print(f"     {'':<11} -> {check['remedy']}", soft_wrap=True)


def released(answer: Sequence[Answer]) -> None:
    """What ``release`` did."""
    console = terminal()
    for result in answer:
        console.print(f"job {result['job_id']}: {result['detail']}", soft_wrap=True)
    if not answer:
        console.print("Nothing to give back: no pending job was changed by slurmcast.")
