"""The configuration: every error names the key, the value and what is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from slurmcast import config


def test_defaults_without_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURMCAST_CONFIG", raising=False)
    monkeypatch.setattr(config, "DEFAULT_PATH", Path("/nonexistent/slurmcast.toml"))
    assert config.load() == config.Config()


def test_reads_a_file(tmp_path: Path) -> None:
    path = tmp_path / "slurmcast.toml"
    path.write_text('cluster = "lab"\n[agent]\nkappa = 1\n[[partition]]\nname = "a100"\ngpu_memory_gb = 40\n')
    loaded = config.load(path)
    assert loaded.cluster == "lab"
    assert loaded.agent.kappa == 1.0
    assert loaded.partition == (config.PartitionConfig("a100", gpu_memory_gb=40.0),)


def test_the_shipped_files_load() -> None:
    root = Path(__file__).parents[2]
    for path in (root / "slurm/conf/slurmcast.toml", root / "slurm/lab/slurmcast.toml"):
        assert [part.name for part in config.load(path).partition] == ["a100", "a6000"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", ["unknown key x", "agent"]),
        ('[agent]\nmode = "maybe"', ["agent.mode", "'maybe'", "'shadow'"]),
        ('[agent]\nkappa = "a"', ["agent.kappa", "'a'", "must be a number"]),
        ("[agent]\nkappa = -1", ["agent.kappa", "-1", "0 to 1e+09"]),
        ("[agent]\nkappa = nan", ["agent.kappa", "nan"]),
        ("[agent]\nkappa = 1e300", ["agent.kappa", "1e+300", "0 to 1e+09"]),
        ("[[partition]]\nname='a'\nkappa = -1", ["[[partition]] a: kappa", "-1", "0 to"]),
        ("[[qos]]\nname='a'\nkappa = inf", ["[[qos]] a: kappa", "inf"]),
        ("[[qos]]\nname='a'", ["[[qos]] a: kappa", "missing"]),
        ("[[qos]]\nname='a'\nkappa=0\n[[qos]]\nname='a'\nkappa=1", ["QOS twice", "a"]),
        ("[agent]\npower_cap_w = 0", ["agent.power_cap_w", "positive"]),
        ("[agent]\npower_cap_w = 9e3\n[[partition]]\nname='a'", ["agent.power_cap_w needs prior_power_w", "a"]),
        ("[agent]\nprice_file = 'x.csv'", ["agent.price_file", "absolute"]),
        ("[agent]\nmax_updates = true", ["agent.max_updates", "must be a whole number"]),
        ("[agent]\nperiod_s = 0", ["agent.period_s", "0.1"]),
        ("[agent]\npatience = nan", ["agent.patience", "nan", "0 to inf"]),
        ("[agent]\nlongest_wait_h = -1", ["agent.longest_wait_h", "0 to inf"]),
        ("[[partition]]\ngpu_type = 'a'", ["partition[0].name", "missing"]),
        ("[[partition]]\nname='a'\n[[partition]]\nname='a'", ["twice", "a"]),
        ("[paths]\nrun_dir = 'here'", ["paths.run_dir", "absolute"]),
        ("[probe]\ntargets = ['energy']", ["probe.targets", "must name 'time'"]),
        ("[probe]\ntargets = ['time', 'fame']", ["probe.targets[1]", "memory"]),
        ("[align]\nurl = 'http://x/v1'", ["align.url", "align.model"]),
        ("[align]\nin_flight = 0", ["align.in_flight", "1 to 64"]),
        ("[agent]\nperiod_s = inf", ["agent.period_s", "inf", "0.1 to 86400"]),
        ("[agent]\nband = 10000000000", ["agent.band", "1 to 1e+09"]),
        ("[agent]\nmax_readback = -1", ["agent.max_readback", "-1"]),
        ("[agent]\npower_cap_w = 1" + 400 * "0", ["agent.power_cap_w", "must be a number"]),
        ("[agent]\nband = 1" + 5000 * "0", ["digits"]),
        ("a = " + 5000 * "[", ["recursion"]),
        ("[client]\ntimeout_s = nan", ["client.timeout_s", "nan", "0.1 to 3600"]),
        ("[client]\ntimeout_s = -5", ["client.timeout_s", "-5"]),
        ("[daemon]\nspool_expiry_s = -1", ["daemon.spool_expiry_s", "-1", "1 to"]),
        ("[daemon]\nspool_expiry_s = 1" + 30 * "0", ["daemon.spool_expiry_s", "1 to"]),
        ("[daemon]\nreadback_after_s = -1", ["daemon.readback_after_s", "-1", "0 to"]),
        ("[daemon]\nreadback_after_s = 1" + 30 * "0", ["daemon.readback_after_s", "0 to"]),
        ("[client]\nserver = 'foo'", ["client.server = 'foo': must be host:port"]),
        ("[client]\nserver = 'host:port'", ["client.server", "must be host:port"]),
        ("[client]\nserver = ':6990'", ["client.server", "must be host:port"]),
        ("[client]\nserver = 'host:69900'", ["client.server", "must be host:port"]),
        ("[client]\nserver = 'host:\u0663'", ["client.server", "must be host:port"]),
        ("[daemon]\nlisten = 'nonsense'", ["daemon.listen = 'nonsense': must be host:port"]),
        ("[encoder]\nkind = 'starcoder'", ['encoder.kind = "starcoder" needs encoder.starcoder.path']),
        ("[encoder]\nkind = 'remote'", ['encoder.kind = "remote" needs encoder.remote.url']),
        ("[encoder.starcoder]\nwindow = -1", ["encoder.starcoder.window", "-1"]),
        ("[encoder.starcoder]\nbatch_tokens = 0", ["encoder.starcoder.batch_tokens", "0"]),
        ("[probe]\nseed = -1", ["probe.seed", "-1"]),
        ("[[partition]]\nname = 'a'\nprior_power_w = nan", ["[[partition]] a: prior_power_w", "nan"]),
        ("[[partition]]\nname = 'a'\nprior_power_w = -3", ["[[partition]] a: prior_power_w", "-3"]),
        ("[[partition]]\nname = 'a'\nidle_power_w = -3", ["[[partition]] a: idle_power_w", "-3"]),
        ("[[partition]]\nname = 'a'\ngpu_memory_gb = inf", ["[[partition]] a: gpu_memory_gb", "inf"]),
        ("[[partition]]\nname = ''", ["[[partition]]", "''", "must have a name"]),
        ("[[partition]]\nname = 'a,b'", ["'a,b'", "without spaces and commas"]),
        ("[[qos]]\nname = ''\nkappa = 1", ["[[qos]]", "''", "must have a name"]),
        ("cluster = 1", ["cluster", "1", "text in quotes"]),
        ("[daemon]\ncapture = 'yes'", ["daemon.capture", "'yes'", "true or false"]),
        ("[paths]\nrun_dir = 1", ["paths.run_dir", "1", "absolute path"]),
        ("[partition]\nname = 'a'", ["partition", "list", "[[partition]]"]),
        ("daemon = 3", ["daemon", "table"]),
        ("[daemon]\noperators = 'root'", ["daemon.operators", "list"]),
        ("[agent", ["slurmcast.toml"]),
    ],
)
def test_errors_say_what_is_allowed(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "slurmcast.toml"
    path.write_text(text)
    with pytest.raises(config.ConfigError) as error:
        config.load(path)
    assert all(word in str(error.value) for word in [str(path), *words]), error.value


DEPENDENT = {"overlap_chars", "power_cap_w"}
"""Numbers whose range other keys have a say in."""


def sections(cls: Any) -> Iterator[Any]:
    """All dataclasses of the configuration."""
    yield cls
    for hint in get_type_hints(cls).values():
        for inner in (hint, *get_args(hint)):
            if is_dataclass(inner):
                yield from sections(inner)


def test_every_number_has_a_range() -> None:
    for section in sections(config.Config):
        hints = get_type_hints(section)
        for key in fields(section):
            if {int, float} & {hints[key.name], *get_args(hints[key.name])} and key.name not in DEPENDENT:
                assert "range" in key.metadata, f"{section.__name__}.{key.name}"


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(config.ConfigError, match="no such file"):
        config.load(tmp_path / "none.toml")


def test_who_says_nothing_gets_no_changes() -> None:
    assert config.Config().agent.mode == "shadow"
