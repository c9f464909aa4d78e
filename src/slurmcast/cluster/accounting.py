"""Slurm's accounting, read by sacct in windows of time: runs as they ended, scripts and environments that it kept. For
the agent's outcomes and for the import.

sacct and not pyslurm.db: pyslurm can't ask for the runs before a requeue (it keeps one record of a job id), takes ten
times as long since it loads every step, and holds a whole window; ``sacct --json`` needs 100 KB a record. Here sacct's
lines are read as they come. Tried on Slurm 26.05.
"""

from __future__ import annotations

import io
import os
import re
import secrets
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from slurmcast.cluster.base import ClusterError
from slurmcast.model import Outcome

FIELDS = (
    "JobIDRaw", "JobID", "JobName", "UID", "User", "Account", "QOS", "Partition", "State", "Submit", "Start", "End",
    "ElapsedRaw", "AllocTRES", "NNodes", "Constraints", "Comment", "SubmitLine", "WorkDir",
)  # fmt: skip
STATES = (
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REQUEUED",
    "RESIZING", "REVOKED", "TIMEOUT",
)  # fmt: skip
"""In which a record has ended (man sacct, JOB STATE CODES)."""
MAX_TEXTS = 32 * 1024 * 1024
"""Bytes of scripts or environments read at a time; Slurm's longest script has 4 MiB by default."""
_BLOCK = 1 << 16
_SAID = 1000
"""Bytes of its last words that are shown."""
SCRIPT = re.compile(rb"Batch Script for (\d+(?:[_+]\d+)?)\n-{80}\n")
ENVIRONMENT = re.compile(rb"Environment used for (\d+(?:[_+]\d+)?) \(must be batch to display\)\n-{80}\n")
_NONE = b"NONE\n"
"""What sacct prints where nothing was kept; a script begins with ``#!``, a line of an environment has a ``=``."""


class TooMuch(Exception):
    """The texts that were asked for don't fit into memory together; ask for fewer."""


@dataclass(frozen=True, slots=True)
class Record:
    """One run of a job as accounting has it. Times are Unix seconds, 0 where there is none."""

    job_id: int
    label: str
    """The id as sacct shows it: ``7``, of an array's task ``5_1``, of a heterogeneous job's component ``8+1``."""
    name: str
    uid: int
    user: str
    account: str
    qos: str
    partition: str
    state: str
    submit_time: int
    start_time: int
    end_time: int
    elapsed_s: int
    """Without the time in which it was suspended."""
    tres: str
    """What it was allocated, not what it asked for."""
    nodes: int
    features: str
    comment: str
    submit_line: str
    work_dir: str

    @property
    def array_job_id(self) -> int:
        """The array's base id, 0 where the job is in none."""
        base, underscore, _ = self.label.partition("_")
        return int(base) if underscore else 0

    @property
    def heterogeneous(self) -> bool:
        """Whether it is one component of a job that has several."""
        return "+" in self.label

    @property
    def gpus(self) -> dict[str, int]:
        """GPUs by name: ``gpu`` and, where the site accounts for types, ``gpu:TYPE``."""
        return gpus(self.tres)


def gpus(tres: str) -> dict[str, int]:
    """The GPUs in a list such as ``cpu=4,gres/gpu:a100=2,gres/gpu=2``, by name."""
    found = {}
    for item in tres.split(","):
        name, _, count = item.partition("=")
        if name.startswith("gres/gpu") and name.removeprefix("gres/gpu")[:1] in ("", ":") and count.isdecimal():
            found[name.removeprefix("gres/")] = int(count)
    return found


def allocated(counts: Mapping[str, int]) -> tuple[str, int]:
    """GPU type, empty where the site doesn't account for types, and number of GPUs in what :func:`gpus` found."""
    return next((name.split(":")[1] for name in counts if ":" in name), ""), counts.get("gpu", sum(counts.values()))


def outcome(record: Record) -> Outcome:
    """How the run ended."""
    gpu_type, total = allocated(record.gpus)
    return Outcome(
        job_id=record.job_id,
        submit_time=record.submit_time,
        partition=record.partition,
        gpu_type=gpu_type,
        gpus=total,
        state=record.state,
        start_time=record.start_time,
        end_time=record.end_time,
        elapsed_s=float(record.elapsed_s),
        array_job_id=record.array_job_id,
        user=record.user,
        account=record.account,
        qos=record.qos,
        nodes=record.nodes,
    )


def record(fields: Sequence[str]) -> Record:
    """One record from its :data:`FIELDS`. Raises ValueError where they are none."""
    (raw, label, name, uid, user, account, qos, partition, state, *rest) = fields
    submit, start, end, elapsed, tres, nodes, features, comment, submit_line, work_dir = rest
    return Record(
        job_id=int(raw),
        label=label,
        name=name,
        uid=int(uid),
        user=user or uid,  # a user that is gone has a number only
        account=account,
        qos=qos,
        partition=partition,
        state=state.partition(" ")[0],  # "CANCELLED by 1000"
        submit_time=_number(submit),
        start_time=_number(start),
        end_time=_number(end),
        elapsed_s=_number(elapsed),
        tres=tres,
        nodes=_number(nodes),
        features=features,
        comment=comment,
        submit_line=submit_line,
        work_dir=work_dir,
    )


def _number(text: str) -> int:
    """A number; 0 for words such as ``None`` and ``Unknown``."""
    return int(text) if text.isascii() and text.isdecimal() else 0


def fields(blocks: Iterable[bytes], delimiter: bytes, width: int) -> Iterator[list[str]]:
    """Records of ``width`` fields out of sacct's output (-p), each field closed by ``delimiter``, each record by a
    newline; what users wrote may hold newlines too. What is no UTF-8 comes as surrogates. Raises ValueError where the
    output is something else."""
    close, rest, part = delimiter + b"\n", b"", b""
    for block in blocks:
        *whole, rest = (rest + block).split(close)
        for text in whole:
            part += text
            if part.count(delimiter) < width - 1:
                part += close  # a field that begins with a newline
                continue
            yield part.decode("utf-8", "surrogateescape").split(delimiter.decode())
            part = b""
    if part or rest:
        raise ValueError("the output ends in the middle of a record")


def texts(output: bytes, header: re.Pattern[bytes], jobs: Iterable[str]) -> dict[str, bytes] | None:
    """What sacct printed for each of ``jobs`` (labels) behind a ``header``; empty where it had nothing.

    None where that isn't certain: a script can hold a line like the header, and one job's user must not speak for
    another's job. Since sacct prints one header for each job, such a line shows as one too many.
    """
    found = dict.fromkeys(jobs, b"")
    marks = list(header.finditer(output))
    labels = [mark[1].decode() for mark in marks]
    if len(set(labels)) < len(labels) or not found.keys() >= set(labels):
        return None
    ends = [mark.start() for mark in marks[1:]] + [len(output)]
    return found | {
        label: _kept(output[mark.end() : end]) for label, mark, end in zip(labels, marks, ends, strict=True)
    }


def _kept(text: bytes) -> bytes:
    return b"" if text == _NONE else text


def variables(environment: bytes, names: Iterable[str]) -> dict[str, str]:
    """Those ``names`` that are set in an environment as Slurm keeps it: a line each. A value's further lines are
    lost, since they can't be told from variables."""
    wanted = {name.encode() for name in names}
    pairs = (line.partition(b"=") for line in environment.split(b"\n"))
    found = {name: value for name, equals, value in pairs if equals and name in wanted}
    return {name.decode(): value.decode("utf-8", "surrogateescape") for name, value in found.items()}


class Accounting:
    """Slurm's accounting of this cluster, with the rights of this process's user. Raises :class:`ClusterError`."""

    def ended(self, since: int, until: int) -> Iterator[Record]:
        """The runs that ended from ``since`` up to ``until`` (Unix seconds, exclusive), each once, as sacct prints
        them."""
        delimiter = secrets.token_hex(16)  # made after the jobs were: nobody can have put it into a name
        how = ("-D", "-n", "-p", f"--delimiter={delimiter}", "-s", ",".join(STATES), "-o", ",".join(FIELDS))
        with _sacct(*how, *_window(since, until)) as sacct:
            try:
                for row in fields(sacct.blocks(), delimiter.encode(), len(FIELDS)):
                    found = record(row)
                    if since <= found.end_time < until:
                        yield found
            except ValueError as error:
                raise ClusterError(f"sacct: {error}; {sacct.problem() or 'is it of an older Slurm?'}") from None
            if problem := sacct.problem():
                raise ClusterError(problem)

    def scripts(self, jobs: Sequence[str], since: int, until: int) -> dict[str, bytes]:
        """The batch scripts of ``jobs`` (labels) of that time; empty where none was kept, or it is longer than
        :data:`MAX_TEXTS`. Raises :class:`TooMuch`."""
        return self._texts("-B", SCRIPT, jobs, since, until)

    def environments(self, jobs: Sequence[str], since: int, until: int) -> dict[str, bytes]:
        """The environments with which ``jobs`` were submitted, see :func:`variables`; else as :meth:`scripts`."""
        return self._texts("--env-vars", ENVIRONMENT, jobs, since, until)

    def _texts(
        self, option: str, header: re.Pattern[bytes], jobs: Sequence[str], since: int, until: int
    ) -> dict[str, bytes]:
        if not jobs:
            return {}
        output = _at_most(MAX_TEXTS, option, "-j", ",".join(jobs), *_window(since, until))
        if len(jobs) == 1:  # whatever lines it holds, it is all this job's
            mark = header.match(output or b"")
            return {jobs[0]: _kept((output or b"")[mark.end() :]) if mark else b""}
        if output is None:
            raise TooMuch
        found = texts(output, header, jobs)
        if found is not None:
            return found
        middle = len(jobs) // 2
        first, second = (self._texts(option, header, part, since, until) for part in (jobs[:middle], jobs[middle:]))
        return first | second


@dataclass(frozen=True, slots=True)
class _Sacct:
    """One sacct at work. ``complaints``: its stderr, a file, for a full pipe would stop it."""

    process: subprocess.Popen[bytes]
    complaints: IO[bytes]

    def blocks(self) -> Iterator[bytes]:
        assert self.process.stdout is not None
        while block := os.read(self.process.stdout.fileno(), _BLOCK):
            yield block

    def problem(self) -> str:
        """Why it failed, its output having been read; empty where it didn't."""
        if self.process.wait() == 0:
            return ""
        self.complaints.seek(max(self.complaints.seek(0, os.SEEK_END) - _SAID, 0))
        said = self.complaints.read().decode(errors="replace").split("\n")
        return "; ".join(line.strip() for line in said if line.strip()) or f"sacct ended with {self.process.returncode}"


@contextmanager
def _sacct(*options: str) -> Iterator[_Sacct]:
    """sacct for all users of this cluster and whole jobs, at work; it is ended with the context."""
    environment = {**os.environ, "TZ": "UTC", "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
    command = ("sacct", "--local", "-a", "-X", *options)
    with tempfile.TemporaryFile() as complaints:
        try:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, env=environment)
        except OSError as error:
            raise ClusterError(f"can't run sacct: {error.strerror}") from None
        with process:
            try:
                yield _Sacct(process, complaints)
            finally:
                process.kill()


def _at_most(size: int, *options: str) -> bytes | None:
    """sacct's output, None where it is longer."""
    with _sacct(*options) as sacct:
        output = io.BytesIO()
        for block in sacct.blocks():
            output.write(block)
            if output.tell() > size:
                return None
        if problem := sacct.problem():
            raise ClusterError(problem)
        return output.getvalue()


def _window(since: int, until: int) -> tuple[str, ...]:
    form = "%Y-%m-%dT%H:%M:%S"
    return "-S", time.strftime(form, time.gmtime(since)), "-E", time.strftime(form, time.gmtime(until))
