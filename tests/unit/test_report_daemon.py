"""``slurmcast report`` through a real daemon: who sees whose runs, and the forms in which they come."""

from __future__ import annotations

import csv
import json
import pwd
import resource
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from slurmcast.client import ClientError
from slurmcast.codec import to_json
from slurmcast.model import Outcome
from tests.unit.daemon_harness import ALICE, Daemon, daemon_in, record

NOW = int(time.time())
USER, OTHER = "nobody", "daemon"
"""Users that every Debian has."""
SETTINGS = """readback_after_s = 0
[footprint]
pue = 1.5
g_per_kwh = 400
[report]
price_per_kwh = 0.2
currency = "EUR"
"""


def outcome(job_id: int, user: str, **fields: Any) -> Outcome:
    """A run of one GPU hour that ended an hour ago, after it had waited for ten minutes."""
    end = NOW - 3600
    times = {"start_time": end - 3600, "submit_time": end - 4200, "end_time": end, "elapsed_s": 3600.0}
    facts = {"partition": "a100", "gpu_type": "a100", "gpus": 1, "state": "COMPLETED", "account": "lab"}
    return Outcome(job_id, user=user, **{**times, **facts, **fields})


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_in(tmp_path_factory.mktemp("report")) as made:
        made.settings = SETTINGS
        made.start()
        told = [
            outcome(1, USER, energy_kwh=0.25),
            outcome(2, USER, state="TIMEOUT", gpus=2),
            outcome(3, OTHER, energy_kwh=0.5, account="other"),
            outcome(4, "", energy_kwh=1.0, partition="a6000"),
            outcome(5, OTHER, end_time=10**15, account="other"),
            outcome(6, OTHER, end_time=-(10**15), account="other"),
        ]
        # The last is of an earlier version, which stored no user: its job tells. The name that job 3 goes by was
        # Alice's when she submitted it.
        jobs = [record(4, submit_time=told[3].submit_time), record(3, submit_time=told[2].submit_time)]
        made.ask("POST", "/v1/agent/jobs", {"jobs": to_json(jobs)})
        made.ask("POST", "/v1/agent/outcomes", {"outcomes": to_json(told)})
        yield made


def report(daemon: Daemon, asking: str | int = 0, **query: Any) -> dict[str, Any]:
    uid = pwd.getpwnam(asking).pw_uid if isinstance(asking, str) else asking
    path = f"/v1/report?{urlencode(query)}"
    answer: dict[str, Any] = daemon.ask_as(uid, "GET", path) if uid else daemon.ask("GET", path)
    return answer


def runs(answer: dict[str, Any], dimension: str) -> dict[str, int]:
    return {row["name"]: row["runs"] for row in answer["by"][dimension]}


def test_an_operator_sees_all(daemon: Daemon) -> None:
    answer = report(daemon)
    assert runs(answer, "user") == {USER: 2, OTHER: 1, "alice": 1}
    assert runs(answer, "partition") == {"a100": 3, "a6000": 1}
    total = answer["total"]
    assert (total["runs"], total["measured_runs"], total["gpu_hours"]) == (4, 3, 5.0)
    assert total["energy_kwh"] == pytest.approx(1.75)
    assert total["carbon_kg"] == pytest.approx(1.75 * 1.5 * 0.4)
    assert total["cost"] == pytest.approx(1.75 * 1.5 * 0.2) and answer["currency"] == "EUR"
    assert total["water_l"] is None


@pytest.mark.parametrize(
    ("query", "seen"),
    [
        ({"user": USER}, 2),
        ({"user": "alice"}, 1),
        ({"user": "somebody"}, 0),
        ({"account": "lab"}, 3),
        ({"user": USER, "account": "other"}, 0),
        ({"since": NOW - 7200}, 4),
        ({"since": NOW - 600}, 0),
        ({"until": NOW - 7200}, 0),
    ],
)
def test_an_operators_choices(daemon: Daemon, query: dict[str, Any], seen: int) -> None:
    assert report(daemon, **query)["total"]["runs"] == seen


def test_users_see_their_own(daemon: Daemon) -> None:
    assert runs(report(daemon, USER), "state") == {"COMPLETED": 1, "TIMEOUT": 1}
    assert runs(report(daemon, USER, user=USER), "user") == {USER: 2}
    assert report(daemon, USER, account="other")["total"]["runs"] == 0
    # A job is its uid's, whatever name the run goes by.
    assert runs(report(daemon, ALICE), "user") == {"alice": 1, OTHER: 1}
    assert report(daemon, OTHER)["total"]["runs"] == 0


def test_nobody_learns_who_is_there(daemon: Daemon) -> None:
    refusals = set()
    for name in (OTHER, "alice", "somebody"):
        with pytest.raises(ClientError) as refused:
            report(daemon, USER, user=name)
        refusals.add(str(refused.value))
    assert refusals == {"only operators may see other users' runs; ask your admin"}


@pytest.mark.parametrize(
    "query", [{"since": "yesterday"}, {"since": "nan"}, {"since": NOW, "until": NOW - 1}, {"until": 1e400}]
)
def test_times_that_are_none(daemon: Daemon, query: dict[str, Any]) -> None:
    with pytest.raises(ClientError, match=r"since|until|convert"):
        report(daemon, **query)


def command(daemon: Daemon, *words: str, fails: int = 0) -> str:
    done = subprocess.run(daemon.command("report", *words), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == fails, done.stderr
    return done.stderr if fails else done.stdout


def test_the_command(daemon: Daemon, tmp_path: Path) -> None:
    assert json.loads(command(daemon, "--since", "1d", "--json"))["total"]["runs"] == 4
    assert json.loads(command(daemon, "--until", "1d", "--json"))["total"]["runs"] == 0
    rows = list(csv.DictReader(command(daemon, "--csv", "--user", USER).splitlines()))
    assert [(row["by"], row["name"], row["runs"]) for row in rows][:2] == [("total", "", "2"), ("user", USER, "2")]
    table = command(daemon)
    assert USER in table and "1.75" in table
    page = tmp_path / "page.html"
    assert str(page) in command(daemon, "--html", str(page))
    assert page.read_text().startswith("<!DOCTYPE html>")
    printed = command(daemon, "--html", "-")
    assert printed.startswith("<!DOCTYPE html>") and printed.rstrip().endswith("</html>")


def test_a_run_whose_end_has_no_date_is_in_no_report(daemon: Daemon) -> None:
    assert report(daemon, since=-1e300, until=2e15)["total"]["runs"] == 4


def test_a_page_stays_where_the_new_one_has_no_room(daemon: Daemon, tmp_path: Path) -> None:
    page, limits = tmp_path / "page.html", resource.getrlimit(resource.RLIMIT_FSIZE)
    command(daemon, "--html", str(page))
    old = page.read_text()
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(old) // 2, limits[1]))
    try:
        assert f"{page}: " in command(daemon, "--html", str(page), fails=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert page.read_text() == old
    command(daemon, "--html", "/dev/null")


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("--since", "yesterday"), 2, "'yesterday' is no time: must be like 2026-11-01"),
        (("--until", "9999-12-31T23:59:59-23:00"), 2, "is no time"),
        (("--until", "0001-01-10"), 2, "is no time"),
        (("--user", ""), 2, "is no name"),
        (("--json", "--html", "x.html"), 2, "different things"),
        (("--csv", "--json"), 2, "different things"),
        (("--csv", "--html", "-"), 2, "different things"),
        (("--html", "/nowhere/x.html"), 1, "/nowhere/x.html"),
        (("--html", "/sys/x.html"), 1, "choose a file that you may write"),
        (("--since", "2026-02-01", "--until", "2026-01-01"), 2, "--since must be before --until"),
        (("--since", "2100-01-01"), 2, "which is now unless it is given"),
    ],
)
def test_wrong_usage(daemon: Daemon, words: tuple[str, ...], status: int, told: str) -> None:
    assert told in command(daemon, *words, fails=status)
