"""What the doctor says of settings that can be told without a Slurm; the other checks are tried in the lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmcast import doctor
from slurmcast.config import Config, MeterConfig, load
from tests.unit.daemon_harness import daemon_in, record


@pytest.mark.parametrize(
    ("settings", "ok", "said"),
    [
        ('policy = "lookahead"\nlongest_wait_h = 1e9', True, "most pending jobs have waited for less"),
        ('policy = "lookahead"\nlongest_wait_h = 1', False, "1 of 1 pending jobs have waited for longer"),
        ('policy = "value"\nlongest_wait_h = 1', True, "agent.policy = value has no longest wait"),
    ],
)
def test_a_longest_wait_below_the_usual_waits(tmp_path: Path, settings: str, ok: bool, said: str) -> None:
    with daemon_in(tmp_path) as daemon:
        daemon.settings = f"[agent]\n{settings}"
        daemon.start()
        daemon.look(record(7, submit_time=1000))
        check = doctor.check_late(load(daemon.config_path))
    assert check.ok == ok and said in check.detail


SETTINGS = """\
ClusterName             = mycluster
Epilog[0]               = /etc/slurm/epilog.d/*
Prolog[0]               = /etc/slurm/prolog.d/*
PrologFlags             = Alloc
"""


@pytest.mark.parametrize(
    ("cluster", "ok", "said"),
    [
        ("mycluster", True, "PrologFlags=Alloc, nodes: gpu-*"),
        ("cluster", False, "Slurm's ClusterName is mycluster, cluster is cluster"),
    ],
)
def test_energy_records_need_the_cluster_s_name(
    monkeypatch: pytest.MonkeyPatch, cluster: str, ok: bool, said: str
) -> None:
    monkeypatch.setattr(doctor, "_output", lambda *command: SETTINGS)
    check = doctor.check_meter(Config(cluster=cluster, meter=MeterConfig(nodes=("gpu-*",))))
    assert (check.ok, check.detail) == (ok, said)
    assert ok or 'set cluster = "mycluster"' in check.remedy
