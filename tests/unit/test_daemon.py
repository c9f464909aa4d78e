"""slurmcastd as a process: its requests, who may ask them, its start and its end."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from slurmcast.client import ENVIRONMENT, ClientError
from slurmcast.codec import to_json
from slurmcast.drift.trainings import Training, recorded
from slurmcast.model import Decision, Outcome
from tests.unit.daemon_harness import ALICE, BOB, SUBMITTED, Daemon, daemon_in, record, script, submission


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with daemon_in(tmp_path) as unit:
        yield unit


def test_from_spool_to_explain(daemon: Daemon) -> None:
    daemon.start()
    daemon.spool("1.job", submission(5))
    daemon.eventually(lambda: daemon.settled(1))
    (known,) = daemon.look(record(7))
    assert known["final"] and not known["partition_named"] and not known["script_wanted"]
    assert [e["partition"] for e in known["estimates"]] == ["a100", "a6000"]
    fast, slow = known["estimates"]
    assert slow["source"] == "prior" and slow["time_s"]["p90"] == 1800.0
    assert slow["energy_kwh"]["p90"] == pytest.approx(1800 * 200 / 3.6e6)
    assert fast["time_s"]["p50"] < slow["time_s"]["p50"]
    assert daemon.ask("GET", "/v1/explain/7")["decision"] is None
    decision = Decision(7, SUBMITTED, 5.0, "a6000", "because", rank=0, site_factor=12, changed=True)
    daemon.ask("POST", "/v1/agent/decisions", {"decisions": [to_json(decision)]})
    answer = daemon.ask("GET", "/v1/explain/7")
    assert answer["decision"] == {"partition": "a6000", "site_factor": 12, "at": 5.0}
    assert (answer["reason"], answer["rank"], answer["job_id"]) == ("because", 0, 7)
    assert {"estimates", "eligibility", "values"} <= set(answer)
    daemon.ask("POST", "/v1/agent/decisions", {"decisions": [], "lines": {"a6000": [[6, 30], [7, 20]]}})
    answer = daemon.ask("GET", "/v1/explain/7")
    assert (answer["rank"], answer["decision"]) == (1, {"partition": "a6000", "site_factor": 20, "at": 5.0})
    assert [(job["job_id"], job["rank"]) for job in daemon.ask("GET", "/v1/queue")["jobs"]] == [(7, 1)]
    daemon.ask("POST", "/v1/agent/decisions", {"decisions": [], "lines": {}})
    assert daemon.ask("GET", "/v1/explain/7")["rank"] == 0  # it waits no more: as it was decided


def test_of_a_job_that_has_begun_explain_says_where_it_runs_and_ran(daemon: Daemon) -> None:
    daemon.start()
    daemon.spool("1.job", submission(5))
    daemon.eventually(lambda: daemon.settled(1))
    pending = record(7)
    daemon.look(pending)
    decision = Decision(7, SUBMITTED, 5.0, "a6000", "a6000 has the best value for it, and it fits there now.")
    daemon.ask("POST", "/v1/agent/decisions", {"decisions": [to_json(decision)]})

    def reason() -> str:
        answer = daemon.ask("GET", "/v1/explain/7")
        return str(answer["reason"])

    began, ended = (datetime.fromtimestamp(SUBMITTED + after) for after in (60, 120))
    planned = f" While it waited: {decision.reason}"
    assert reason() == decision.reason
    daemon.look(running=[replace(pending, state="RUNNING", partitions=("a6000",), start_time=SUBMITTED + 60)])
    assert reason() == f"It has run on a6000 since {began}.{planned}"
    daemon.look(pending)  # requeued
    assert reason() == decision.reason
    daemon.look()
    outcome = Outcome(7, SUBMITTED, "a6000", "a6000", 1, "COMPLETED", SUBMITTED + 60, SUBMITTED + 120, 60.0)
    daemon.ask("POST", "/v1/agent/outcomes", {"outcomes": [to_json(outcome)]})
    assert reason() == f"It ran on a6000 from {began} to {ended} and ended as COMPLETED.{planned}"


def test_of_a_job_that_went_without_a_run_explain_says_so_once_somebody_has_looked(daemon: Daemon) -> None:
    daemon.start()
    daemon.spool("1.job", submission(5))
    daemon.eventually(lambda: daemon.settled(1))
    daemon.look(record(7))
    daemon.ask("POST", "/v1/agent/decisions", {"decisions": [to_json(Decision(7, SUBMITTED, 5.0, "a6000", "because"))]})
    daemon.end()
    daemon.start()
    assert daemon.ask("GET", "/v1/explain/7")["reason"] == "because", "nobody has looked since the start"
    daemon.look(record(7))
    assert daemon.ask("GET", "/v1/explain/7")["reason"] == "because"
    daemon.look()
    told = daemon.ask("GET", "/v1/explain/7")["reason"]
    assert told.startswith("It waits no more") and told.endswith("While it waited: because")


def test_only_owner_and_operators_see_a_job(daemon: Daemon) -> None:
    daemon.start()
    daemon.spool("1.job", submission(5))
    daemon.eventually(lambda: daemon.settled(1))
    daemon.look(record(7))
    assert daemon.ask_as(ALICE, "GET", "/v1/explain/7")["job_id"] == 7
    refusals = []
    for job_id in (7, 8):
        with pytest.raises(ClientError) as refusal:
            daemon.ask_as(BOB, "GET", f"/v1/explain/{job_id}")
        refusals.append(str(refusal.value).replace(str(job_id), "N"))
    assert refusals[0] == refusals[1]
    assert [j["job_id"] for j in daemon.ask_as(ALICE, "GET", "/v1/queue")["jobs"]] == [7]
    assert daemon.ask_as(BOB, "GET", "/v1/queue")["jobs"] == []


def test_operators_are_named_in_the_configuration(daemon: Daemon) -> None:
    daemon.settings = 'operators = ["daemon"]'  # a user that every Debian has
    daemon.start()
    daemon.look(record(7))
    assert daemon.ask_as(1, "GET", "/v1/explain/7")["user"] == "alice"
    assert daemon.ask_as(1, "PUT", "/v1/kappa", {"kappa": 1})["by"] == "daemon"
    with pytest.raises(ClientError, match="only slurmcast-agent"):
        daemon.ask_as(1, "POST", "/v1/agent/jobs", {"jobs": []})


def test_only_the_agent_may_speak_for_it(daemon: Daemon) -> None:
    daemon.settings = 'agent_user = "daemon"'
    daemon.start()
    for method, path in [("POST", p) for p in ("jobs", "script", "decisions", "outcomes")] + [("GET", "wait")]:
        with pytest.raises(ClientError, match=f"not {ALICE}"):
            daemon.ask_as(ALICE, method, f"/v1/agent/{path}", {})
    with pytest.raises(ClientError, match="only operators"):
        daemon.ask_as(ALICE, "PUT", "/v1/kappa", {"kappa": 1})
    assert daemon.ask_as(ALICE, "GET", "/v1/kappa")["kappa"] == pytest.approx(1e-5)
    assert daemon.ask_as(1, "POST", "/v1/agent/jobs", {"jobs": []})["jobs"] == []


def test_kappa_is_kept(daemon: Daemon) -> None:
    daemon.start()
    assert daemon.ask("PUT", "/v1/kappa", {"kappa": 0.5})["kappa"] == 0.5
    daemon.end()
    daemon.start()
    assert daemon.ask("GET", "/v1/kappa")["by"] == "root"
    assert daemon.ask("POST", "/v1/agent/jobs", {"jobs": []})["kappa"]["general"] == 0.5
    with pytest.raises(ClientError, match=r"from 0 to 1e\+09"):
        daemon.ask("PUT", "/v1/kappa", {"kappa": -1})


def test_predict_reads_what_the_hook_would_have_passed_on(daemon: Daemon) -> None:
    daemon.start()
    body = {"script": script(3).decode(), "argv": ["train.sh", "--epochs", "1"], "work_dir": "/home/alice"}
    answer = daemon.ask_as(ALICE, "POST", "/v1/predict", {**body, "environment": {"BATCH_SIZE": "8", "LR_X": "3"}})
    assert answer["numbers"]["epochs"] == 3 and answer["numbers"]["batch_size"] == 8
    assert [e["source"] for e in answer["estimates"]] == ["prior", "prior"]
    assert answer["request"]["per_node"] == 1
    assert "switched off" in answer["missing_sources"][0]


@pytest.mark.parametrize(
    ("named", "remark"),
    [
        ("", None),
        ("-p a6000,a100", None),
        ("-p a100,nosuch", "The script names nosuch, but slurmcast manages only a100, a6000: is the name"),
    ],
)
def test_predict_says_which_partitions_it_does_not_know(daemon: Daemon, named: str, remark: str | None) -> None:
    daemon.start()
    text = script(3).decode().replace("-t 30", f"-t 30 {named}")
    answer = daemon.ask_as(ALICE, "POST", "/v1/predict", {"script": text})
    assert len(answer["estimates"]) == 2
    assert answer["remark"] is None if remark is None else answer["remark"].startswith(remark)


def test_predict_says_why_sbatch_would_refuse_the_file(daemon: Daemon) -> None:
    daemon.start()
    text = script(3).decode()
    for sent, remark in ((text.replace("-t 30", "--tiem=30"), "doesn't know '--tiem=30'"), ("hello", "first line")):
        assert remark in daemon.ask_as(ALICE, "POST", "/v1/predict", {"script": sent})["remark"]


def test_client_and_hook_pass_on_the_same_variables() -> None:
    hook = Path(__file__).parents[2] / "job_submit_lua/slurmcast.lua"
    listed = hook.read_text().split("environment = {")[1].split("}")[0].partition("\n")[2]
    assert set(ENVIRONMENT) == {name.strip(' "') for name in listed.replace("\n", "").split(",") if name.strip()}


def test_outcomes_come_once(daemon: Daemon) -> None:
    daemon.start()
    outcome = to_json(Outcome(7, SUBMITTED, "a100", "a100", 1, "COMPLETED", SUBMITTED + 10, SUBMITTED + 20, 10.0))
    assert daemon.ask("POST", "/v1/agent/outcomes", {"outcomes": [outcome]})["stored"] == 1
    assert daemon.ask("POST", "/v1/agent/outcomes", {"outcomes": [outcome]})["stored"] == 0


def test_a_users_finished_runs_tell_of_his_next_ones_and_of_nobody_elses(daemon: Daemon) -> None:
    daemon.start()
    for number, fields in enumerate(({}, {}, {"uid": b"%d" % BOB})):
        daemon.spool(f"{number}.job", submission(5, name=b"n%d" % number, **fields))
    daemon.eventually(lambda: daemon.settled(3))
    ran, waits, bobs = record(7, name="n0"), record(8, name="n1"), record(9, name="n2", uid=BOB, user="bob")
    daemon.look(ran, waits, bobs)
    ended = Outcome(7, SUBMITTED, "a100", "a100", 1, "COMPLETED", SUBMITTED + 10, SUBMITTED + 310, 300.0, 0.02)
    daemon.ask("POST", "/v1/agent/outcomes", {"outcomes": [to_json(ended)]})
    daemon.eventually(lambda: not daemon.ask("GET", "/v1/health")["waiting"])
    his, bobs_own = (known["estimates"] for known in daemon.look(waits, bobs))
    assert [e["source"] for e in his] == ["history", "history"]
    assert his[0]["time_s"]["p50"] == pytest.approx(300) and his[0]["energy_kwh"]["p50"] == pytest.approx(0.02)
    assert his[1]["time_s"]["p50"] > 300
    assert [e["source"] for e in bobs_own] == ["prior", "prior"]
    body = {"script": script(5).decode(), "argv": [], "work_dir": "/"}
    for uid, source in ((ALICE, "history"), (BOB, "prior")):
        answer = daemon.ask_as(uid, "POST", "/v1/predict", body)
        assert {e["source"] for e in answer["estimates"]} == {source}


def test_the_agent_is_woken_by_an_estimate(daemon: Daemon) -> None:
    daemon.start()
    revision = daemon.ask("GET", "/v1/agent/wait?revision=-1")["revision"]
    began = time.monotonic()
    assert daemon.ask("GET", f"/v1/agent/wait?revision={revision}&timeout=0.2")["revision"] == revision
    assert 0.2 <= time.monotonic() - began < 2
    daemon.spool("1.job", submission(5))
    assert daemon.ask("GET", f"/v1/agent/wait?revision={revision}&timeout=9")["revision"] > revision
    daemon.end(signal.SIGKILL)
    daemon.start()
    assert daemon.ask("GET", "/v1/agent/wait?revision=-1")["revision"] > revision + 1


@pytest.mark.parametrize(
    ("method", "path", "body", "problem"),
    [
        ("GET", "/v1/nothing", None, "there is no"),
        ("DELETE", "/v1/kappa", None, "there is no"),
        ("GET", "/v1/explain/99999999999", None, "there is no"),
        ("GET", "/v1/explain/%d9", None, "there is no"),
        ("POST", "/v1/agent/jobs", {"jobs": [{"job_id": "x"}]}, "job_id"),
        ("POST", "/v1/agent/jobs", {"jobs": [to_json(record(2**70))]}, "too large"),
        ("POST", "/v1/agent/jobs", [], "JSON object"),
        ("POST", "/v1/agent/jobs", {"jobs": 3}, "jobs: must be a list"),
        ("POST", "/v1/agent/script", {"job": {}, "script_base64": ""}, "job_id"),
        ("POST", "/v1/agent/script", {"job": to_json(record(1)), "script_base64": "?"}, "script_base64"),
        ("GET", "/v1/agent/wait?revision=x", None, "understood"),
        ("PUT", "/v1/kappa", {"kappa": "much"}, "must be a number"),
        ("PUT", "/v1/kappa", {"kappa": True}, "must be a number"),
        ("POST", "/v1/predict", {}, "script: must be a string"),
        ("POST", "/v1/predict", {"script": "\u20ac"}, "understood"),
        ("POST", "/v1/predict", {"script": "", "environment": []}, "environment: must be an object"),
    ],
)
def test_bad_requests_are_answered(shared: Daemon, method: str, path: str, body: Any, problem: str) -> None:
    with pytest.raises(ClientError, match=problem):
        shared.ask(method, path, body)
    assert "Traceback" not in shared.log


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon_in(tmp_path_factory.mktemp("shared")) as unit:
        unit.start()
        yield unit


def test_metrics_are_prometheus_text(daemon: Daemon) -> None:
    with recorded(daemon.config.paths.models, Training(1.0, "by hand", 5)) as end:
        end(False, "worse", "")
    daemon.start()
    daemon.spool("1.job", submission(5))
    daemon.spool("bad.job", b"garbage end\n")
    daemon.eventually(lambda: daemon.settled(1))
    assert daemon.ask("POST", "/v1/energy", {"records": [{}, {}]})["new"] == 0
    with pytest.raises(ClientError, match="may not report"):
        daemon.ask_as(ALICE, "POST", "/v1/energy", {"records": []})
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(daemon.config.paths.socket))
    client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    with client.makefile() as answer:
        text = answer.read().partition("\n\n")[2]
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert values["slurmcast_submissions"] == "1" and values["slurmcast_rejected_total"] == "1"
    assert values['slurmcast_estimates{source="prior"}'] == "2"
    assert float(values["slurmcast_encode_seconds_total"]) > 0
    assert values['slurmcast_trainings_total{result="refused"}'] == "1"
    told = {result: values[f'slurmcast_energy_records_total{{result="{result}"}}'] for result in ("new", "refused")}
    assert told == {"new": "0", "refused": "3"}
    names = [
        {line.split(" ")[2] for line in text.splitlines() if line.startswith(f"# {kind} ")} for kind in ("HELP", "TYPE")
    ]
    assert names[0] == names[1] == {name.partition("{")[0] for name in values}


def test_a_second_daemon_is_refused(daemon: Daemon) -> None:
    daemon.start()
    second = subprocess.run(daemon.command("serve"), capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode == 1 and "another slurmcastd runs" in second.stderr
    assert daemon.answers()


@pytest.mark.parametrize("what", ["run", "listen"])
def test_what_keeps_it_from_starting_is_said(daemon: Daemon, what: str) -> None:
    if what == "run":
        (daemon.folder / "run/spool").rmdir()
        (daemon.folder / "run").rmdir()
    else:
        daemon.settings = 'listen = "nonsense"'
    done = subprocess.run(daemon.command("serve"), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert ("does its folder exist" if what == "run" else "must be host:port") in done.stderr


def test_it_starts_and_ends_as_systemd_wants(daemon: Daemon) -> None:
    address = daemon.folder / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(address))
        systemd.settimeout(30)
        path = daemon.config.paths.socket
        with socket.socket(socket.AF_UNIX) as killed:
            killed.bind(str(path))  # left by a daemon that was killed
        daemon.start(NOTIFY_SOCKET=str(address))
        assert systemd.recv(100) == b"READY=1"
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
        assert stat.S_IMODE((daemon.folder / "state").stat().st_mode) == 0o750
        assert not stat.S_IMODE((daemon.folder / "state/store.db").stat().st_mode) & 0o007
        assert daemon.end() == 0
        assert systemd.recv(100) == b"STOPPING=1"
    assert not path.exists()


def test_a_long_poll_does_not_keep_it_from_ending(daemon: Daemon) -> None:
    daemon.start()
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(daemon.config.paths.socket))
    revision = daemon.ask("GET", "/v1/agent/wait?revision=-1")["revision"]
    client.sendall(b"GET /v1/agent/wait?revision=%d&timeout=60 HTTP/1.1\r\nHost: x\r\n\r\n" % revision)
    began = time.monotonic()
    assert daemon.end() == 0
    assert time.monotonic() - began < 10


def test_without_weights_it_goes_on_with_priors_and_says_so(daemon: Daemon) -> None:
    hidden = daemon.folder / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys; sys.modules['onnxruntime'] = None\n")
    daemon.start(PYTHONPATH=os.pathsep.join([str(hidden), *filter(None, [os.environ.get("PYTHONPATH")])]))
    daemon.spool("1.job", submission(5))
    daemon.eventually(lambda: daemon.settled(1))
    health = daemon.ask("GET", "/v1/health")
    assert (health["status"], health["encoder"]) == ("no encoder", None)
    assert "pip install" in health["encoder_trouble"]
    script = "#!/bin/bash\n#SBATCH --gres=gpu:1 -t 60\nsleep 60\n"
    assert "can't be encoded" in daemon.ask("POST", "/v1/predict", {"script": script})["remark"]
    assert daemon.look(record(7))[0]["estimates"][0]["source"] == "prior"
    assert "pip install" in daemon.log


def test_health_names_version_and_encoder(daemon: Daemon) -> None:
    daemon.start()
    health = daemon.ask_as(BOB, "GET", "/v1/health")
    assert health["status"] == "ok" and health["encoder"].startswith("minilm") and health["model"] is None
