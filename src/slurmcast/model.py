"""The words of the domain: plain frozen data, no behaviour that reaches outside.

Symbols follow the paper (arXiv 2608.18503): ``a_ij`` GPUs that job *i* occupies on type *j*, ``t_ij`` its running
time, ``e_ij`` its energy, ``v_ij`` its value. Units stand in the names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

J_PER_KWH = 3.6e6
"""Joules in a kWh."""
HOUR_S, DAY_S = 3600.0, 86400.0
"""Seconds in an hour and in a day."""
MOST = 2**53
"""No amount that is measured is larger, whatever its unit: such ones can be stored, and added up."""
LEAST_KWH, MOST_KWH = 1e-9, 1e9
"""Energies of a run lie between 3.6 mJ, which hardly any meter sees, and a TWh; or are 0."""


class Source(StrEnum):
    """What an estimate was made from."""

    PROBE = "probe"
    ALIGN = "align"
    """The probe, asked for the script as rewritten in a style that it knows."""
    HISTORY = "history"
    PRIOR = "prior"
    UNKNOWN = "unknown"


class May(StrEnum):
    """What may be done with a job on a partition."""

    MOVE = "move"
    ORDER_ONLY = "order only"
    LEAVE_ALONE = "leave alone"


@dataclass(frozen=True, slots=True)
class Interval:
    """Quantiles of a predictive distribution, all in the unit that the field holding it names."""

    p10: float
    p50: float
    p90: float


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """What a job asks of GPUs, whichever of Slurm's options said so.

    Exactly one of ``per_job`` (--gpus), ``per_node`` (--gres, --gpus-per-node), ``per_task`` and ``per_socket`` is
    usually set; ``shared`` marks MIG, shard and MPS requests, whose energy can't be attributed to the job.
    """

    per_job: int | None = None
    per_node: int | None = None
    per_task: int | None = None
    per_socket: int | None = None
    type: str | None = None
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """A job as slurmctld's record has it, at one moment. Times are Unix seconds, 0 where Slurm has none."""

    job_id: int
    user: str
    uid: int
    name: str
    state: str
    reason: str
    partitions: tuple[str, ...]
    submit_time: int
    account: str = ""
    qos: str = ""
    begin_time: int = 0
    start_time: int = 0
    deadline: int = 0
    time_limit_s: int | None = None
    priority: int = 0
    nice: int = 0
    nodes: int = 1
    tasks: int = 1
    cpus: int = 1
    cpus_per_task: int = 1
    memory_mb_per_node: int = 0
    gpus: GpuRequest | None = None
    gpus_total: int = 0
    """a_i as Slurm's requested TRES says (gres/gpu), 0 where it says nothing."""
    features: str = ""
    required_nodes: str = ""
    excluded_nodes: str = ""
    reservation: str = ""
    dependency: str = ""
    comment: str = ""
    submit_line: str = ""
    is_array: bool = False
    array_job_id: int = 0
    """The array's base id, 0 where the job is in none; it is the ``job_id`` of the record of the waiting tasks too."""
    batch: bool = True
    """False for srun and salloc, which have no script."""
    federated: bool = False
    restarts: int = 0
    """How often it was requeued; Slurm then gives it a new submit time."""
    het_job_id: int = 0
    exclusive: bool = False
    groups: frozenset[str] = frozenset()
    """Names of the submitter's groups, for a partition's AllowGroups."""
    site_factor: int = 0
    pinned: bool = False
    """Whether the priority was set by hand: Slurm then shows no factors for it (man sprio)."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node: totals and what is free now. ``usable`` is false for drained, down and reserved nodes."""

    name: str
    gpus: int
    gpus_free: int
    cpus: int = 0
    cpus_free: int = 0
    memory_mb: int = 0
    memory_mb_free: int = 0
    features: frozenset[str] = frozenset()
    usable: bool = True


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition that slurmcast manages, with its nodes and the limits that Slurm checks (man slurm.conf)."""

    name: str
    gpu_type: str
    nodes: tuple[Node, ...] = ()
    gpu_memory_gb: float | None = None
    up: bool = True
    default: bool = False
    max_time_s: int | None = None
    max_nodes: int | None = None
    allow_accounts: frozenset[str] | None = None
    deny_accounts: frozenset[str] = frozenset()
    allow_qos: frozenset[str] | None = None
    deny_qos: frozenset[str] = frozenset()
    allow_groups: frozenset[str] | None = None
    root_only: bool = False
    reservation_required: bool = False
    billing_weights: tuple[tuple[str, float], ...] = ()
    """TRESBillingWeights: weight of each ``cpu``, GB of ``mem``, ``node`` and ``gres/gpu``; empty: Slurm bills CPUs."""

    @property
    def gpus_free(self) -> int:
        """c_j: free GPUs on usable nodes."""
        return sum(node.gpus_free for node in self.nodes if node.usable)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is expected of one job on one partition. A quantity that is not known is None, never 0."""

    partition: str
    gpus: int
    time_s: Interval | None
    energy_kwh: Interval | None
    source: Source
    gpu_memory_gb: Interval | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of :func:`slurmcast.eligibility.verdicts` for one (job, partition)."""

    partition: str
    may: May
    reason: str


@dataclass(frozen=True, slots=True)
class Value:
    """One v_ij with everything that went into it (paper, Algorithm 2). ``v`` in 1/(GPU s)."""

    partition: str
    a: int
    t_s: float
    e_kwh: float | None
    kappa: float
    v: float
    energy_weight: float = 1.0
    """What the energy was multiplied by, for its price at that time."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What the hook saw of one submission: a spool file, read. Strings are decoded with surrogateescape."""

    uid: int
    user: str
    name: str
    submit_time: int
    script: bytes
    script_size: int
    """Size of the whole script in bytes; larger than ``len(script)`` where the hook cut it."""
    begin_time: int = 0
    """The begin time that the hook itself set (its grace), 0 where it gave none."""
    partition: str | None = None
    """The partition that the user named, None where there was none."""
    work_dir: str = ""
    argv: tuple[str, ...] = ()
    array: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    request: dict[str, str] = field(default_factory=dict)
    """Fields of the job description as Slurm names them (tres_per_node, num_tasks, time_limit, ...)."""

    @property
    def complete(self) -> bool:
        """Whether the script is there to its last byte."""
        return len(self.script) == self.script_size


@dataclass(frozen=True, slots=True)
class Reading:
    """What the script reader made of a submission."""

    key: str
    """sha256 over script, sources, arguments, chosen environment and request, without what leaves the work as it is."""
    text: str
    """What the encoder reads: the script and the sources that it launches."""
    numbers: dict[str, float]
    """Numbers that decide the work: epochs, batch_size, steps, nodes, gpus, time_limit_s, ..."""
    gpus: GpuRequest | None = None
    gpus_total: int = 0
    partitions: tuple[str, ...] = ()
    """The partitions that script and request name; empty where none is named."""
    time_limit_s: int | None = None
    sources: tuple[str, ...] = ()
    """Paths of the launched source files whose text was read."""
    missing_sources: tuple[str, ...] = ()
    """Launched source files that could not or may not be read, as ``path: reason``."""
    opted_out: bool = False
    opted_in: bool = False

    @property
    def made_from(self) -> str:
        """What estimates from this reading were made from."""
        return "script and sources" if self.sources else "script only"


@dataclass(frozen=True, slots=True)
class Decision:
    """What the agent decided about a job, for ``explain`` and the history."""

    job_id: int
    submit_time: int
    at: float
    partition: str
    reason: str
    rank: int | None = None
    """Its place on its partition at that time; None where it is left alone."""
    site_factor: int | None = None
    priority: int | None = None
    verdicts: tuple[Verdict, ...] = ()
    values: tuple[Value, ...] = ()
    changed: bool = False
    """Whether Slurm was asked for a change; False where the job is only ranked or left alone."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one run of a job ended, from Slurm's accounting; energy from the meter, None where not measured."""

    job_id: int
    submit_time: int
    partition: str
    gpu_type: str
    gpus: int
    state: str
    start_time: int
    end_time: int
    elapsed_s: float
    energy_kwh: float | None = None
    gpu_memory_gb: float | None = None
    """Peak memory of the GPU that used most; None where not measured."""
    array_job_id: int = 0
    """The array's base id, under which the job was submitted; 0 where it is in none."""
    user: str = ""
    account: str = ""
    qos: str = ""
    nodes: int = 0
    """How many nodes it ran on; 0 where that isn't known, as of runs that were stored by earlier versions."""
    energy_method: str = ""
    """What ``energy_kwh`` is of: the meter's methods (of GPUs, docs/meter.md), or ``slurm`` (of whole nodes)."""
    host_energy_kwh: float | None = None
    """Of the nodes' processors and memory, beside the GPUs'; None where not measured or not the job's own."""
    gpu_utilisation: float | None = None
    """Mean over its GPUs of the share of time in which a kernel ran, 0 to 1; None where not measured."""

    @property
    def is_possible(self) -> bool:
        """Whether its time and what was measured are amounts that a run can have."""
        energies = (energy for energy in (self.energy_kwh, self.host_energy_kwh) if energy)
        amounts = (self.elapsed_s, self.gpu_memory_gb or 0.0, self.gpu_utilisation or 0.0)
        return all(LEAST_KWH <= e <= MOST_KWH for e in energies) and all(0 <= a <= MOST for a in amounts)  # nor NaN


@dataclass(frozen=True, slots=True)
class Change:
    """One update of one job that the agent wants Slurm to make. None means: leave that field as it is."""

    job_id: int
    submit_time: int
    reason: str
    partition: str | None = None
    site_factor: int | None = None
    priority: int | None = None
    lift_grace: bool = False


@dataclass(frozen=True, slots=True)
class PendingJob:
    """A pending job with what slurmcast knows about it beside Slurm's record."""

    job: Job
    estimates: tuple[Estimate, ...] = ()
    final: bool = True
    """False while a better estimate is being made."""
    partition_named: bool = True
    """Whether the user named a partition; True where that can't be known, so that nothing moves by mistake."""
    allowed_partitions: tuple[str, ...] = ()
    """The partitions that the user named; empty where none was named."""
    original_partitions: tuple[str, ...] = ()
    """What the job had before the agent changed it; empty: it has it still."""
    grace_until: int = 0
    """The begin time that the hook set, 0 where it gave none."""
    pinned_by_us: bool = False
    opted_in: bool = False
    opted_out: bool = False

    @property
    def own_partitions(self) -> tuple[str, ...]:
        """The partitions that the job would have without us."""
        return self.original_partitions or self.job.partitions


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A running job with what was expected of it on its partition, None where nothing was."""

    job: Job
    estimate: Estimate | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that a plan is made from: a moment of the cluster. ``now`` is Unix seconds."""

    now: float
    partitions: tuple[Partition, ...]
    pending: tuple[PendingJob, ...]
    running: tuple[RunningJob, ...] = ()
