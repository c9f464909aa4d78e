"""What the doctor says of settings that can be told without a Slurm; the other checks are tried in the lab."""

from __future__ import annotations

import pytest

from slurmcast import doctor
from slurmcast.config import Config, MeterConfig

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
