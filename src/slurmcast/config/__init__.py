"""The configuration file: where it lies, and what must hold between its keys."""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slurmcast.config.sections import (
    MOST_KAPPA,
    PROBE_KINDS,
    STARCODER_NEEDS_PATH,
    AgentConfig,
    AlignConfig,
    ClientConfig,
    Config,
    DaemonConfig,
    EncoderConfig,
    FootprintConfig,
    MeterConfig,
    PartitionConfig,
    Paths,
    ProbeConfig,
    QosConfig,
    RemoteConfig,
    ReportConfig,
    StarCoderConfig,
    TrainConfig,
)
from slurmcast.config.tables import ConfigError, build

__all__ = [
    "DEFAULT_PATH",
    "MOST_KAPPA",
    "PROBE_KINDS",
    "AgentConfig",
    "AlignConfig",
    "ClientConfig",
    "Config",
    "ConfigError",
    "DaemonConfig",
    "EncoderConfig",
    "FootprintConfig",
    "MeterConfig",
    "PartitionConfig",
    "Paths",
    "ProbeConfig",
    "QosConfig",
    "RemoteConfig",
    "ReportConfig",
    "StarCoderConfig",
    "TrainConfig",
    "load",
    "parse",
]

DEFAULT_PATH = Path("/etc/slurmcast/slurmcast.toml")

_NAME = re.compile(r"[^\s,]+")
_MOST_PORT = 65535
_ADDRESS = re.compile(r".+:([0-9]{1,5})")


def load(path: Path | None = None) -> Config:
    """Read the configuration.

    ``path`` None: ``$SLURMCAST_CONFIG``, else /etc/slurmcast/slurmcast.toml, else (no such file) the defaults.
    Raises :class:`ConfigError`.
    """
    named = path is not None or "SLURMCAST_CONFIG" in os.environ
    path = path or Path(os.environ.get("SLURMCAST_CONFIG", DEFAULT_PATH))
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except FileNotFoundError:
        if named:
            raise ConfigError(
                f"{path}: no such file; create it, or name another by --config or SLURMCAST_CONFIG"
            ) from None
        return Config()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, numbers and lists beyond all measure
        raise ConfigError(f"{path}: {error}") from None
    return parse(table, str(path))


def parse(table: dict[str, Any], origin: str = "configuration") -> Config:
    """Turn a TOML table into a :class:`Config`; raises :class:`ConfigError`."""
    config = build(Config, table, origin)
    for wrong in _contradictions(config):
        raise ConfigError(f"{origin}: {wrong}")
    return config


def _contradictions(config: Config) -> Iterator[str]:
    """What can't be beside each other."""
    remote, align, meter, cap_w = config.encoder.remote, config.align, config.meter, config.agent.power_cap_w
    for key, address in (("client.server", config.client.server), ("daemon.listen", config.daemon.listen)):
        found = _ADDRESS.fullmatch(address)
        if address and (found is None or int(found[1]) > _MOST_PORT):
            yield f"{key} = {address!r}: must be host:port"
    if not 0 <= remote.overlap_chars <= remote.max_chars // 2:
        yield f"encoder.remote.overlap_chars = {remote.overlap_chars}: must be 0 to {remote.max_chars // 2}"
    if config.encoder.kind == "remote" and not (remote.url and remote.model):
        yield 'encoder.kind = "remote" needs encoder.remote.url and encoder.remote.model'
    if config.encoder.kind == "starcoder" and config.encoder.starcoder.path is None:
        yield STARCODER_NEEDS_PATH
    if align.url and not align.model:
        yield "align.url needs align.model, the model's name at that server"
    if meter.max_gap_s < 2 * meter.period_s:
        yield f"meter.max_gap_s = {meter.max_gap_s}: must be at least twice meter.period_s"
    if cap_w is not None and not 0 < cap_w < math.inf:
        yield f"agent.power_cap_w = {cap_w}: must be positive, and finite"
    if meter.nodes and "slurm" in config.agent.usage_from:
        yield 'agent.usage_from with "slurm" (energy of whole nodes) can\'t be beside meter.nodes (of GPUs): drop one'
    if config.agent.write_energy and "slurm" in config.agent.usage_from:
        yield 'agent.write_energy would overwrite what Slurm measured: drop it, or "slurm" in agent.usage_from'
    powerless = [part.name for part in config.partition if part.prior_power_w is None]
    if cap_w is not None and powerless:
        yield f"agent.power_cap_w needs prior_power_w of [[partition]] {', '.join(powerless)}"
    if "time" not in config.probe.targets:
        yield f"probe.targets = {list(config.probe.targets)}: must name 'time'"
    for what, names in (
        ("[[partition]] names a partition", [part.name for part in config.partition]),
        ("[[qos]] names a QOS", [qos.name for qos in config.qos]),
    ):
        if len(set(names)) != len(names):
            yield f"{what} twice: {', '.join(names)}"
        for name in names:
            if not _NAME.fullmatch(name):
                yield f"{what} {name!r}: must have a name without spaces and commas"
