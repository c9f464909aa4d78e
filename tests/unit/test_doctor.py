"""What the doctor says of settings that can be told without a Slurm; the other checks are tried in the lab."""

from __future__ import annotations

import errno
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from slurmcast import doctor
from slurmcast.client import Client, ClientError
from slurmcast.config import AgentConfig, Config, MeterConfig, PartitionConfig, Paths, load
from slurmcast.doctor import check as asking
from slurmcast.doctor import daemon as daemon_checks
from slurmcast.doctor import host, slurm
from tests.unit.daemon_harness import daemon_in, record


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    """No answer from another test."""
    asking.forget()
    yield
    asking.forget()


@pytest.mark.parametrize(
    ("settings", "ok", "said"),
    [
        ('policy = "lookahead"\nlongest_wait_h = 1e9', True, "most pending jobs have waited for less"),
        ('policy = "lookahead"\nlongest_wait_h = 1', False, "1 of 1 pending jobs have waited for longer"),
        ('policy = "value"\nlongest_wait_h = 1', True, "agent.policy is value: only lookahead has a longest wait"),
    ],
)
def test_a_longest_wait_below_the_usual_waits(tmp_path: Path, settings: str, ok: bool, said: str) -> None:
    with daemon_in(tmp_path) as daemon:
        daemon.settings = f"[agent]\n{settings}"
        daemon.start()
        daemon.look(record(7, submit_time=1000))
        check = daemon_checks.check_late(load(daemon.config_path))
    assert check.ok == ok and said in check.detail


def test_without_an_encoder_the_reason_is_told(tmp_path: Path) -> None:
    with daemon_in(tmp_path) as daemon:
        daemon.settings = '[encoder]\nkind = "starcoder"\n[encoder.starcoder]\npath = "/nowhere"'
        daemon.start()
        config = load(daemon.config_path)
        encoder, model = daemon_checks.check_encoder(config), daemon_checks.check_model(config)
    assert not encoder.ok and encoder.detail.startswith("no encoder: /nowhere: no config.json")
    assert not model.ok and "without an encoder" in model.detail


def asked_anew(config: Config) -> asking.Check:
    asking.forget()
    return daemon_checks.check_model(config)


def test_a_model_that_can_not_be_used(tmp_path: Path) -> None:
    with daemon_in(tmp_path) as daemon:
        config = load(daemon.config_path)
        (config.paths.models / "of-another-release").mkdir(parents=True)
        (config.paths.models / "of-another-release" / "model.json").write_text('{"format": 0}')
        (config.paths.models / "of-another-release" / "model.safetensors").touch()
        daemon.start()
        check = daemon_checks.check_model(config)
        assert check.ok and "none trained yet" in check.detail
        (config.paths.models / "current").symlink_to("of-another-release")
        daemon.eventually(lambda: not asked_anew(config).ok)
        assert "format is 0, this version reads" in daemon_checks.check_model(config).detail
        (config.paths.models / "current").unlink()
        daemon.eventually(lambda: asked_anew(config).ok)


@pytest.mark.parametrize(
    ("left", "told"),
    [
        ([], ""),
        (["models/promotions.jsonl"], "models/promotions.jsonl belongs to daemon, not to root"),
        (["models", "models/promotions.jsonl", "embeddings.db"], ", and 2 more aren't root's"),
    ],
)
def test_files_that_another_user_left(tmp_path: Path, left: list[str], told: str) -> None:
    (tmp_path / "models").mkdir()
    for name in ("models/promotions.jsonl", "embeddings.db"):
        (tmp_path / name).touch()
    for name in left:
        shutil.chown(tmp_path / name, "daemon")
    check = host.check_state(Config(paths=Paths(tmp_path, tmp_path, tmp_path / "none")))
    assert check.ok == (not left) and told in check.detail
    assert not left or f"chown -Rh root: {tmp_path}" in check.remedy


def test_a_spool_of_users_that_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config(paths=Paths(run_dir=tmp_path))
    config.paths.spool.mkdir(mode=0o770)
    shutil.chown(config.paths.spool, 54321, 54321)
    answering(monkeypatch, lambda *command: "SlurmUser = slurm(1001)\n")
    check = host.check_spool(config)
    assert not check.ok and "belongs to 54321, slurmctld runs as slurm" in check.detail


def test_what_may_not_be_looked_at_stops_no_other_check(monkeypatch: pytest.MonkeyPatch) -> None:
    def check_state(_: Config) -> asking.Check:
        raise PermissionError(errno.EACCES, "Permission denied", "/x")

    monkeypatch.setattr(doctor, "CHECKS", (check_state, daemon_checks.check_late))
    state, late = doctor.examine(Config())
    assert (state.name, state.ok, state.detail) == (
        "state",
        False,
        "/x: Permission denied",
    ) and "as root" in state.remedy
    assert late.ok


def test_a_lease_that_can_not_be_renewed(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", tmp_path], check=True)
    try:
        config = Config(paths=Paths(run_dir=tmp_path))
        config.paths.lease.write_text(f"on {int(time.time()) + 80} 8\n")
        assert host.check_lease(config).ok
        with suppress(OSError), (tmp_path / "log").open("wb", buffering=0) as log:
            while True:
                log.write(bytes(4096))
        check = host.check_lease(config)
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert not check.ok and "the agent can't renew it" in check.detail and f"df {tmp_path}" in check.remedy


def test_energy_that_nobody_measures_can_not_be_written() -> None:
    check = slurm.check_meter(Config(agent=AgentConfig(write_energy=True)))
    assert not check.ok and "meter.nodes is empty" in check.detail


@pytest.mark.parametrize("away", [False, True])
def test_the_daemon_is_asked_once(monkeypatch: pytest.MonkeyPatch, away: bool) -> None:
    asked = []

    def request(_: Client, method: str, path: str) -> dict[str, Any]:
        asked.append((method, path))
        if away:
            raise ClientError("timed out")
        return {"version": "1", "submissions": 3, "past_waiting": 0, "encoder": "e"}

    monkeypatch.setattr(Client, "request", request)
    checks = {check.name: check for check in doctor.examine(Config())}
    assert {checks[name].ok for name in ("daemon", "encoder", "model")} == {not away}
    assert asked == [("GET", "/v1/health")]
    doctor.examine(Config())
    assert len(asked) == 2


@pytest.mark.parametrize(("past", "said"), [(0, "3 submissions in the store"), (7, "7 imported scripts are still")])
def test_what_is_still_to_be_encoded(monkeypatch: pytest.MonkeyPatch, past: int, said: str) -> None:
    health = {"version": "1", "submissions": 3, "past_waiting": past}
    monkeypatch.setattr(Client, "request", lambda *_: health)
    check = daemon_checks.check_daemon(Config())
    assert check.ok and said in check.detail and ("encoded" in check.detail) == bool(past)


def answering(monkeypatch: pytest.MonkeyPatch, output: Callable[..., str]) -> None:
    """Let ``output`` stand for Slurm's commands."""
    for module in (asking, slurm):
        monkeypatch.setattr(module, "output", output)


SETTINGS = """\
ClusterName             = mycluster
Epilog[0]               = /etc/slurm/epilog.d/*
Prolog[0]               = /etc/slurm/prolog.d/*
PrologFlags             = Alloc
"""


@pytest.mark.parametrize(
    ("cluster", "ok", "said"),
    [
        ("mycluster", True, "PrologFlags=Alloc, nodes: gpu-*; not seen from here: both folders must be on every node"),
        ("cluster", False, "Slurm's ClusterName is mycluster, cluster is cluster"),
    ],
)
def test_energy_records_need_the_cluster_s_name(
    monkeypatch: pytest.MonkeyPatch, cluster: str, ok: bool, said: str
) -> None:
    answering(monkeypatch, lambda *command: SETTINGS)
    check = slurm.check_meter(Config(cluster=cluster, meter=MeterConfig(nodes=("gpu-*",))))
    assert check.ok == ok and check.detail.startswith(said)
    assert ok or 'set cluster = "mycluster"' in check.remedy


@pytest.mark.parametrize(
    ("plugin", "every", "shared", "reads", "ok", "said"),
    [
        ("(null)", "0 sec", "NO", (), True, "isn't read"),
        ("(null)", "0 sec", "NO", ("slurm",), False, "AcctGatherEnergyType isn't set, AcctGatherNodeFreq is 0 sec"),
        (
            "acct_gather_energy/none",
            "30 sec",
            "NO",
            ("slurm",),
            False,
            "AcctGatherEnergyType is acct_gather_energy/none",
        ),
        ("acct_gather_energy/ipmi", "0 sec", "NO", ("slurm",), False, "AcctGatherNodeFreq is 0 sec"),
        ("acct_gather_energy/ipmi", "30 sec", "FORCE:4", ("slurm",), False, "YES or FORCE on a100"),
        ("acct_gather_energy/ipmi", "30 sec", "EXCLUSIVE", ("slurm",), True, "acct_gather_energy/ipmi every 30 sec"),
    ],
)
def test_consumed_energy_needs_a_plugin_and_nodes_of_one_s_own(
    monkeypatch: pytest.MonkeyPatch, plugin: str, every: str, shared: str, reads: tuple[str, ...], ok: bool, said: str
) -> None:
    config = f"AcctGatherEnergyType    = {plugin}\nAcctGatherNodeFreq      = {every}\n"
    partitions = f"PartitionName=a100 AllowGroups=ALL OverSubscribe={shared}\nPartitionName=cpu OverSubscribe=FORCE:2\n"
    answering(monkeypatch, lambda *command: partitions if "partition" in command else config)
    agent = AgentConfig(usage_from=reads)  # type: ignore[arg-type]
    check = slurm.check_usage(Config(agent=agent, partition=(PartitionConfig("a100"),)))
    assert check.ok == ok and said in check.detail
