"""The configuration file: TOML to frozen dataclasses. Every error names file, key, value and what is allowed."""

from __future__ import annotations

import dataclasses
import math
import os
import re
import tomllib
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

T = TypeVar("T")

DEFAULT_PATH = Path("/etc/slurmcast/slurmcast.toml")

MOST_KAPPA = 1e9
"""In 1/(GPU s kWh): far beyond the break-even of any job, and values stay finite."""

_NAME = re.compile(r"[^\s,]+")
_HUGE = 1 << 1000
"""Whole numbers from here on are no floats."""


class ConfigError(Exception):
    """The configuration can't be used; the message says which file and key, and what would be allowed."""


@dataclass(frozen=True)
class Paths:
    """Where things lie. One folder per owner: see docs/security.md."""

    run_dir: Path = Path("/run/slurmcast")
    state_dir: Path = Path("/var/lib/slurmcast")
    agent_state_dir: Path = Path("/var/lib/slurmcast-agent")

    @property
    def spool(self) -> Path:
        return self.run_dir / "spool"

    @property
    def lease(self) -> Path:
        return self.run_dir / "lease"

    @property
    def socket(self) -> Path:
        return self.run_dir / "slurmcastd.sock"

    @property
    def store(self) -> Path:
        return self.state_dir / "store.db"

    @property
    def models(self) -> Path:
        return self.state_dir / "models"

    @property
    def rejected(self) -> Path:
        return self.state_dir / "rejected"

    @property
    def journal(self) -> Path:
        return self.agent_state_dir / "journal.jsonl"


@dataclass(frozen=True)
class DaemonConfig:
    """``[daemon]``: what slurmcastd serves and to whom."""

    operators: tuple[str, ...] = ("root", "slurmcast-agent")
    """User names that see every job and may set kappa."""
    agent_user: str = "slurmcast-agent"
    listen: str = ""
    """``host:port`` of the munge-authenticated door for login nodes; empty: closed."""
    read_sources: bool = False
    """Read the submitter's Python files from disk; off: only the script itself."""
    capture: bool = False
    """Take the sources that sbatch's cli_filter hands over with the submitter's rights."""
    keep_scripts: bool = False
    munge_socket: str = ""
    spool_expiry_s: int = 86400
    """Submissions that never became a job (``--test-only``, rejected) are forgotten after this time."""
    readback_after_s: int = 10
    """How long a job may be unknown before its script is read back from Slurm."""


@dataclass(frozen=True)
class ClientConfig:
    """``[client]``: how the commands reach the daemon where its socket isn't on this host."""

    server: str = ""
    """``host:port`` of the daemon's munge-authenticated door."""
    munge_socket: str = ""
    timeout_s: float = 10.0


@dataclass(frozen=True)
class RemoteConfig:
    """``[encoder.remote]``: a server with the OpenAI-style ``/v1/embeddings``, for ``encoder.kind = "remote"``."""

    url: str = ""
    """Up to and with ``/v1``."""
    model: str = ""
    """As the server calls it; part of the vectors' identity, which the address isn't."""
    key_file: Path | None = None
    """Holds the bearer token; not open to everybody."""
    dimensions: int = 0
    """What the vectors' length must be; 0: as the first answer has it."""
    max_chars: int = 4000
    """Longer texts are read in windows; a server whose context has as many tokens takes each."""
    overlap_chars: int = 200
    batch_size: int = 32
    """Windows in one request."""
    timeout_s: float = 30.0
    retries: int = 2


@dataclass(frozen=True)
class StarCoderConfig:
    """``[encoder.starcoder]``: a causal language model in a local folder, for ``encoder.kind = "starcoder"``."""

    path: Path | None = None
    """Holds the model and its tokenizer."""
    sha256: str = ""
    """What the folder's digest must be; empty: any. slurmcastd's log and ``docs/prediction.md`` say how to get it."""
    device: str = "auto"
    """``cpu``, ``cuda``, ``cuda:N``, or ``auto``: CUDA where there is one."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """``auto``: as the checkpoint was saved."""
    layer: Literal["pre_norm", "post_norm"] = "pre_norm"
    """The last block's output (the paper), or that after the final norm (transformers' ``last_hidden_state``)."""
    pooling: Literal["last", "mean"] = "last"
    window: int = 4096
    """Tokens read at a time, fewer where the model's context is shorter."""
    batch_tokens: int = 8192
    """Tokens in one forward pass, with padding."""


@dataclass(frozen=True)
class EncoderConfig:
    """``[encoder]``: which model turns code into vectors."""

    kind: Literal["minilm", "starcoder", "remote"] = "minilm"
    remote: RemoteConfig = field(default_factory=RemoteConfig)
    starcoder: StarCoderConfig = field(default_factory=StarCoderConfig)


@dataclass(frozen=True)
class ProbeConfig:
    """``[probe]``: which probe estimates from the vectors, and what a job costs before any is trained."""

    kind: Literal["paper", "log", "log+numbers", "size+ratio"] = "size+ratio"
    seed: int = 0
    keep: int = 10
    """How many trained models are kept, the newest; the one in use and the one before it always are."""
    targets: tuple[Literal["time", "energy", "memory"], ...] = ("time", "energy", "memory")
    """What is predicted of a job, where enough of it was measured; without ``time`` nothing could be."""


@dataclass(frozen=True)
class AlignConfig:
    """``[align]``: a chat server that rewrites scripts unlike any that the probe knows (docs/prediction.md)."""

    url: str = ""
    """OpenAI-style, up to and with ``/v1``; empty: off, and no script leaves the machine."""
    model: str = ""
    """As the server calls it."""
    key_file: Path | None = None
    """Holds the bearer token; not open to everybody."""
    timeout_s: float = 120.0
    exemplars: Path = Path("/etc/slurmcast/exemplars")
    """Folder of batch scripts whose style is known."""
    max_chars: int = 12000
    """Longer scripts aren't rewritten, longer exemplars aren't used: half a program is another program."""
    max_tokens: int = 4096
    """Of an answer; one that is cut short is of no use."""
    in_flight: int = 2
    """Requests at a time."""
    max_waiting: int = 100
    """Scripts that wait for their turn; what comes beyond keeps the estimate that it has."""


@dataclass(frozen=True)
class MeterConfig:
    """``[meter]``: the measuring of energy on the nodes, and whose records the daemon takes (docs/meter.md)."""

    period_s: float = 1.0
    """How often each GPU in use is read."""
    max_gap_s: float = 10.0
    """Up to this time between two readings of power, the straight line between them is taken for what was."""
    markers: Path = Path("/run/slurmcast-meter")
    """Where prolog and epilog drop their markers."""
    state_dir: Path = Path("/var/lib/slurmcast-meter")
    users: tuple[str, ...] = ("root",)
    """Who may report energy, as munge says."""
    nodes: tuple[str, ...] = ()
    """Nodes whose records the daemon takes, as names or shell patterns; none: it takes no record."""


@dataclass(frozen=True)
class FootprintConfig:
    """``[footprint]``: what turns energy into carbon and water; what isn't given isn't shown."""

    g_per_kwh: float | None = None
    """Grams of CO2 equivalent per kWh from the grid."""
    intensity_file: Path | None = None
    """A CSV table with the same over time (docs/prediction.md); ``g_per_kwh`` then holds where the table ends."""
    pue: float = 1.0
    """Power usage effectiveness."""
    wue_l_per_kwh: float | None = None
    """Water usage effectiveness, litres per kWh of the computers."""


@dataclass(frozen=True)
class PartitionConfig:
    """One ``[[partition]]`` that slurmcast manages; what is not said here is read from Slurm."""

    name: str
    gpu_type: str = ""
    gpu_memory_gb: float | None = None
    prior_power_w: float | None = None
    """Mean power of one busy GPU, for estimates before a probe is trained."""
    idle_power_w: float | None = None
    kappa: float | None = None
    """Weight of energy for jobs there, until ``slurmcast kappa --partition`` sets another; None: ``agent.kappa``."""


@dataclass(frozen=True)
class QosConfig:
    """One ``[[qos]]`` whose jobs have a weight of energy of their own."""

    name: str
    kappa: float


@dataclass(frozen=True)
class AgentConfig:
    """``[agent]``: how often, how much, and by which means the agent changes the queue."""

    mode: Literal["on", "shadow", "off"] = "on"
    period_s: float = 30.0
    grace_s: int = 8
    lease_s: int = 90
    policy: Literal["value", "patient", "lookahead"] = "value"
    """``value``: Algorithm 2 of the paper; ``patient``: the same, but no job is put where its value is negative;
    ``lookahead``: the same, but a job waits for a better type that is expected to come free soon (docs/policies.md)."""
    patience: float = 0.5
    """Under ``lookahead``: seconds that a job may wait for each second of running that the better type saves."""
    longest_wait_h: float = 168.0
    """Under ``lookahead``: from when on a job may no longer be passed over."""
    kappa: float = 1e-5
    """In 1/(GPU s kWh); the default is the break-even of one GPU for ten hours at 280 W (docs/tuning-kappa.md)."""
    power_cap_w: float | None = None
    """Sum of predicted mean power of running and started jobs in W; nothing is placed that would bring it above."""
    price_file: Path | None = None
    """CSV table of what a kWh costs, or emits, over time: energy counts by it."""
    priority_mode: Literal["site_factor", "pin"] = "site_factor"
    band: int = 10000
    max_updates: int = 200
    max_readback: int = 20
    allow_higher_billing: bool = False
    energy_dir: str = "/var/spool/slurmcast/energy"
    """Where the nodes' energy records lie (docs/agent.md)."""


@dataclass(frozen=True)
class Config:
    """All of the configuration file."""

    cluster: str = "cluster"
    paths: Paths = field(default_factory=Paths)
    daemon: DaemonConfig = field(default_factory=DaemonConfig)
    client: ClientConfig = field(default_factory=ClientConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    probe: ProbeConfig = field(default_factory=ProbeConfig)
    align: AlignConfig = field(default_factory=AlignConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    footprint: FootprintConfig = field(default_factory=FootprintConfig)
    meter: MeterConfig = field(default_factory=MeterConfig)
    partition: tuple[PartitionConfig, ...] = ()
    qos: tuple[QosConfig, ...] = ()


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
    config = _build(Config, table, origin, "")
    _within(
        origin,
        "agent.",
        config.agent,
        period_s=(0.1, 86400),
        grace_s=(0, 3600),
        lease_s=(1, 86400),
        band=(1, 10**9),
        max_updates=(1, 10**6),
        max_readback=(0, 10**6),
        patience=(0, math.inf),
        longest_wait_h=(0, math.inf),
    )
    remote = config.encoder.remote
    _within(
        origin,
        "encoder.remote.",
        remote,
        dimensions=(0, 1 << 16),
        max_chars=(100, 1 << 20),
        overlap_chars=(0, remote.max_chars // 2),
        batch_size=(1, 1024),
        timeout_s=(0.1, 3600),
        retries=(0, 10),
    )
    if config.encoder.kind == "remote" and not (remote.url and remote.model):
        raise ConfigError(f'{origin}: encoder.kind = "remote" needs encoder.remote.url and encoder.remote.model')
    _within(
        origin,
        "align.",
        config.align,
        timeout_s=(0.1, 3600),
        max_chars=(100, 1 << 16),
        max_tokens=(1, 1 << 20),
        in_flight=(1, 64),
        max_waiting=(1, 10000),
    )
    if config.align.url and not config.align.model:
        raise ConfigError(f"{origin}: align.url needs align.model, the model's name at that server")
    _within(origin, "probe.", config.probe, keep=(1, 10**6), seed=(0, 1 << 62))
    _within(origin, "client.", config.client, timeout_s=(0.1, 3600))
    _within(origin, "footprint.", config.footprint, g_per_kwh=(0, 5000), pue=(1, 10), wue_l_per_kwh=(0, 1000))
    _within(origin, "meter.", config.meter, period_s=(0.1, 60), max_gap_s=(1, 600))
    for part in config.partition:
        ranges = {"gpu_memory_gb": (0.1, 10**5), "prior_power_w": (1, 10**5), "idle_power_w": (0, 10**5)}
        _within(origin, f"[[partition]] {part.name}: ", part, **ranges)
    if config.meter.max_gap_s < 2 * config.meter.period_s:
        raise ConfigError(
            f"{origin}: meter.max_gap_s = {config.meter.max_gap_s}: must be at least twice meter.period_s"
        )
    weights = [("agent.kappa", config.agent.kappa), *((f"[[qos]] {qos.name}: kappa", qos.kappa) for qos in config.qos)]
    weights += [(f"[[partition]] {p.name}: kappa", p.kappa) for p in config.partition if p.kappa is not None]
    for key, kappa in weights:
        if not 0 <= kappa <= MOST_KAPPA:
            raise ConfigError(f"{origin}: {key} = {kappa}: must be 0 to {MOST_KAPPA:g}, not negative")
    cap_w = config.agent.power_cap_w
    if cap_w is not None and not 0 < cap_w < math.inf:
        raise ConfigError(f"{origin}: agent.power_cap_w = {cap_w}: must be positive, and finite")
    powerless = [part.name for part in config.partition if part.prior_power_w is None]
    if cap_w is not None and powerless:
        raise ConfigError(f"{origin}: agent.power_cap_w needs prior_power_w of [[partition]] {', '.join(powerless)}")
    if "time" not in config.probe.targets:
        raise ConfigError(f"{origin}: probe.targets = {list(config.probe.targets)}: must name 'time'")
    for what, names in (
        ("[[partition]] names a partition", [part.name for part in config.partition]),
        ("[[qos]] names a QOS", [qos.name for qos in config.qos]),
    ):
        if len(set(names)) != len(names):
            raise ConfigError(f"{origin}: {what} twice: {', '.join(names)}")
        for name in names:
            if not _NAME.fullmatch(name):
                raise ConfigError(f"{origin}: {what} {name!r}: must have a name without spaces and commas")
    return config


def _within(origin: str, section: str, table: object, **ranges: tuple[float, float]) -> None:
    """Raise :class:`ConfigError` for a key of ``table`` that is given and outside its range."""
    for key, (low, high) in ranges.items():
        value = getattr(table, key)
        if value is not None and not low <= value <= high:  # nor NaN
            raise ConfigError(f"{origin}: {section}{key} = {value}: must be {low} to {high}")


def _build(cls: type[T], table: dict[str, Any], origin: str, prefix: str) -> T:
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in table:
        if key not in fields:
            raise ConfigError(f"{origin}: unknown key {prefix}{key}; allowed: {', '.join(sorted(fields))}")
    for name, f in fields.items():
        required = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        if required and name not in table:
            raise ConfigError(f"{origin}: {prefix}{name} is missing")
    return cls(**{key: _value(hints[key], value, origin, prefix + key) for key, value in table.items()})


def _value(hint: Any, value: Any, origin: str, key: str) -> Any:
    """``value`` as type ``hint``, or a ConfigError that says what is allowed."""
    if get_origin(hint) in (types.UnionType, typing.Union):
        hint = next(arg for arg in get_args(hint) if arg is not type(None))
    if get_origin(hint) is tuple:
        item = get_args(hint)[0]
        if isinstance(value, list):
            return tuple(_value(item, v, origin, f"{key}[{n}]") for n, v in enumerate(value))
        raise ConfigError(f"{origin}: {key} = {value!r}: must be a list")
    if get_origin(hint) is Literal:
        if value in get_args(hint):
            return value
        raise ConfigError(f"{origin}: {key} = {value!r}: must be one of {', '.join(map(repr, get_args(hint)))}")
    if dataclasses.is_dataclass(hint):
        if isinstance(value, dict):
            return _build(hint, value, origin, key + ".")  # type: ignore[arg-type]
        raise ConfigError(f"{origin}: {key} = {value!r}: must be a table")
    if hint is Path and isinstance(value, str):
        if not Path(value).is_absolute():
            raise ConfigError(f"{origin}: {key} = {value!r}: must be an absolute path")
        return Path(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) < _HUGE:
        return float(value)
    if isinstance(value, hint) and not (hint is not bool and isinstance(value, bool)):
        return value
    raise ConfigError(f"{origin}: {key} = {value!r}: must be {hint.__name__}")
