"""The sections of the configuration file as frozen dataclasses: every key, its default and what it may be."""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Literal, get_args

from slurmcast.config.tables import ranged

MOST_KAPPA = 1e9
"""In 1/(GPU s kWh): far beyond the break-even of any job, and values stay finite."""
MOST_S = 2 * 10**9
"""What may be as good as for ever: 63 years."""


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
    spool_expiry_s: int = ranged(86400, 1, MOST_S)
    """Submissions that never became a job (``--test-only``, rejected) are forgotten after this time."""
    readback_after_s: int = ranged(10, 0, MOST_S)
    """How long a job may be unknown before its script is read back from Slurm."""


@dataclass(frozen=True)
class ClientConfig:
    """``[client]``: how the commands reach the daemon where its socket isn't on this host."""

    server: str = ""
    """``host:port`` of the daemon's munge-authenticated door."""
    munge_socket: str = ""
    timeout_s: float = ranged(10.0, 0.1, 3600)


@dataclass(frozen=True)
class RemoteConfig:
    """``[encoder.remote]``: a server with the OpenAI-style ``/v1/embeddings``, for ``encoder.kind = "remote"``."""

    url: str = ""
    """Up to and with ``/v1``."""
    model: str = ""
    """As the server calls it; part of the vectors' identity, which the address isn't."""
    key_file: Path | None = None
    """Holds the bearer token; not open to everybody."""
    dimensions: int = ranged(0, 0, 1 << 16)
    """What the vectors' length must be; 0: as the first answer has it."""
    max_chars: int = ranged(4000, 100, 1 << 20)
    """Longer texts are read in windows; a server whose context has as many tokens takes each."""
    overlap_chars: int = 200
    batch_size: int = ranged(32, 1, 1024)
    """Windows in one request."""
    timeout_s: float = ranged(30.0, 0.1, 3600)
    retries: int = ranged(2, 0, 10)


STARCODER_NEEDS_PATH = (
    'encoder.kind = "starcoder" needs encoder.starcoder.path, the folder of a model (docs/encoders.md)'
)


@dataclass(frozen=True)
class StarCoderConfig:
    """``[encoder.starcoder]``: a causal language model in a local folder, for ``encoder.kind = "starcoder"``."""

    path: Path | None = None
    """Holds the model and its tokenizer."""
    sha256: str = ""
    """What the folder's digest must be; empty: any. slurmcastd's log and ``docs/encoders.md`` say how to get it."""
    device: str = "auto"
    """``cpu``, ``cuda``, ``cuda:N``, or ``auto``: CUDA where there is one."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """``auto``: as the checkpoint was saved."""
    layer: Literal["pre_norm", "post_norm"] = "pre_norm"
    """The last block's output (the paper), or that after the final norm (transformers' ``last_hidden_state``)."""
    pooling: Literal["last", "mean"] = "last"
    window: int = ranged(4096, 16, 10**9)
    """Tokens read at a time, fewer where the model's context is shorter."""
    batch_tokens: int = ranged(8192, 1, 10**9)
    """Tokens in one forward pass, with padding."""


@dataclass(frozen=True)
class EncoderConfig:
    """``[encoder]``: which model turns code into vectors."""

    kind: Literal["minilm", "starcoder", "remote"] = "minilm"
    remote: RemoteConfig = field(default_factory=RemoteConfig)
    starcoder: StarCoderConfig = field(default_factory=StarCoderConfig)


ProbeKind = Literal["paper", "log", "log+numbers", "size+ratio"]
PROBE_KINDS: tuple[ProbeKind, ...] = get_args(ProbeKind)


@dataclass(frozen=True)
class ProbeConfig:
    """``[probe]``: which probe estimates from the vectors, and what a job costs before any is trained."""

    kind: ProbeKind = "size+ratio"
    seed: int = ranged(0, 0, 1 << 62)
    keep: int = ranged(10, 1, 10**6)
    """How many trained models are kept, the newest; the one in use and the one before it always are."""
    targets: tuple[Literal["time", "energy", "memory"], ...] = ("time", "energy", "memory")
    """What is predicted of a job, where enough of it was measured; without ``time`` nothing could be."""


@dataclass(frozen=True)
class TrainConfig:
    """``[train]``: when ``slurmcast train --when-due`` trains, and by what it knows that estimates have drifted."""

    new_labels: int = ranged(200, 1, 10**9)
    """Train when as many jobs have finished since the model in use was trained."""
    least_new: int = ranged(20, 1, 10**9)
    """Train earlier where estimates have drifted, but not before as many jobs have finished since the last training."""
    window: int = ranged(200, 10, 10**6)
    """Jobs, the latest, whose figures are shown."""
    false_alarm_jobs: float = ranged(1000.0, 10, 1e9)
    """About how many jobs finish on average until drift is seen where there is none."""


@dataclass(frozen=True)
class AlignConfig:
    """``[align]``: a chat server that rewrites scripts unlike any that the probe knows (docs/prediction.md)."""

    url: str = ""
    """OpenAI-style, up to and with ``/v1``; empty: off, and no script leaves the machine."""
    model: str = ""
    """As the server calls it."""
    key_file: Path | None = None
    """Holds the bearer token; not open to everybody."""
    timeout_s: float = ranged(120.0, 0.1, 3600)
    exemplars: Path = Path("/etc/slurmcast/exemplars")
    """Folder of batch scripts whose style is known."""
    max_chars: int = ranged(12000, 100, 1 << 16)
    """Longer scripts aren't rewritten, longer exemplars aren't used: half a program is another program."""
    max_tokens: int = ranged(4096, 1, 1 << 20)
    """Of an answer; one that is cut short is of no use."""
    in_flight: int = ranged(2, 1, 64)
    """Requests at a time."""
    max_waiting: int = ranged(100, 1, 10000)
    """Scripts that wait for their turn; what comes beyond keeps the estimate that it has."""


@dataclass(frozen=True)
class MeterConfig:
    """``[meter]``: the measuring of energy on the nodes, and whose records the daemon takes (docs/meter.md)."""

    period_s: float = ranged(1.0, 0.1, 60)
    """How often each GPU in use is read."""
    max_gap_s: float = ranged(10.0, 1, 600)
    """Up to this time between two readings of power, the straight line between them is taken for what was."""
    markers: Path = Path("/run/slurmcast-meter")
    """Where prolog and epilog drop their markers."""
    state_dir: Path = Path("/var/lib/slurmcast-meter")
    host_energy: bool = False
    """Also measure the node's processors and memory by RAPL, for jobs that have the node to themselves."""
    keep_mb: float = ranged(16.0, 0.1, 10**5)
    """What records may have on a node, those that wait and those that were refused, in 10^6 bytes."""
    keep_days: float = ranged(30.0, 0, 10**4)
    """How long refused records are kept on a node."""
    users: tuple[str, ...] = ("root",)
    """Who may report energy, as munge says."""
    nodes: tuple[str, ...] = ()
    """Nodes whose records the daemon takes, as names or shell patterns; none: it takes no record."""


@dataclass(frozen=True)
class FootprintConfig:
    """``[footprint]``: what turns energy into carbon and water; what isn't given isn't shown."""

    g_per_kwh: float | None = ranged(None, 0, 5000)
    """Grams of CO2 equivalent per kWh from the grid."""
    intensity_file: Path | None = None
    """A CSV table with the same over time (docs/prediction.md); ``g_per_kwh`` then holds where the table ends."""
    pue: float = ranged(1.0, 1, 10)
    """Power usage effectiveness."""
    wue_l_per_kwh: float | None = ranged(None, 0, 1000)
    """Water usage effectiveness, litres per kWh of the computers."""


@dataclass(frozen=True)
class ReportConfig:
    """``[report]``: what energy costs; where it isn't given, ``slurmcast report`` shows no cost."""

    price_per_kwh: float | None = ranged(None, 0, 10**6)
    price_file: Path | None = None
    """A CSV table with the same over time (docs/report.md); ``price_per_kwh`` holds where it says nothing."""
    currency: str = ""
    """What prices are in, as it is to be shown."""


@dataclass(frozen=True)
class PartitionConfig:
    """One ``[[partition]]`` that slurmcast manages; what is not said here is read from Slurm."""

    name: str
    gpu_type: str = ""
    gpu_memory_gb: float | None = ranged(None, 0.1, 10**5)
    prior_power_w: float | None = ranged(None, 1, 10**5)
    """Mean power of one busy GPU, for estimates before a probe is trained."""
    idle_power_w: float | None = ranged(None, 0, 10**5)
    kappa: float | None = ranged(None, 0, MOST_KAPPA)
    """Weight of energy for jobs there, until ``slurmcast kappa --partition`` sets another; None: ``agent.kappa``."""


@dataclass(frozen=True)
class QosConfig:
    """One ``[[qos]]`` whose jobs have a weight of energy of their own."""

    name: str
    kappa: float = ranged(MISSING, 0, MOST_KAPPA)


@dataclass(frozen=True)
class AgentConfig:
    """``[agent]``: how often, how much, and by which means the agent changes the queue."""

    mode: Literal["on", "shadow", "off"] = "shadow"
    period_s: float = ranged(30.0, 0.1, 86400)
    grace_s: int = ranged(8, 0, 3600)
    lease_s: int = ranged(90, 1, 86400)
    policy: Literal["value", "patient", "lookahead"] = "value"
    """``value``: Algorithm 2 of the paper; ``patient``: the same, but no job is put where its value is negative;
    ``lookahead``: the same, but a job waits for a better type that is expected to come free soon (docs/policies.md)."""
    patience: float = ranged(0.5, 0, math.inf)
    """Under ``lookahead``: seconds that a job may wait for each second of running that the better type saves."""
    longest_wait_h: float = ranged(168.0, 0, math.inf)
    """Under ``lookahead``: from when on a job may no longer be passed over."""
    kappa: float = ranged(1e-5, 0, MOST_KAPPA)
    """In 1/(GPU s kWh); the default is the break-even of one GPU for ten hours at 280 W (docs/tuning-kappa.md)."""
    power_cap_w: float | None = None
    """Sum of predicted mean power of running and started jobs in W; nothing is placed that would bring it above."""
    price_file: Path | None = None
    """CSV table of what a kWh costs, or emits, over time: energy counts by it."""
    priority_mode: Literal["site_factor", "pin"] = "site_factor"
    band: int = ranged(10000, 1, 10**9)
    max_updates: int = ranged(200, 1, 10**6)
    max_readback: int = ranged(20, 0, 10**6)
    allow_higher_billing: bool = False
    usage_from: tuple[Literal["slurm", "jobstats"], ...] = ()
    """Whose figures of finished runs are read from Slurm's accounting: ConsumedEnergy, jobstats (docs/meter.md)."""
    write_energy: bool = False
    """Put what the meter measured into Slurm's accounting, as TRES energy (docs/meter.md)."""


@dataclass(frozen=True)
class Config:
    """All of the configuration file."""

    cluster: str = "cluster"
    paths: Paths = field(default_factory=Paths)
    daemon: DaemonConfig = field(default_factory=DaemonConfig)
    client: ClientConfig = field(default_factory=ClientConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    probe: ProbeConfig = field(default_factory=ProbeConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    align: AlignConfig = field(default_factory=AlignConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    footprint: FootprintConfig = field(default_factory=FootprintConfig)
    meter: MeterConfig = field(default_factory=MeterConfig)
    report: ReportConfig = field(default_factory=ReportConfig)
    partition: tuple[PartitionConfig, ...] = ()
    qos: tuple[QosConfig, ...] = ()
