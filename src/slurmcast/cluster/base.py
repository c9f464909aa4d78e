"""What the agent needs of a cluster; the loop is written against this, the adapters know Slurm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slurmcast.model import Change, Job, Outcome, Partition


class ClusterError(Exception):
    """Slurm refused or didn't answer; the message is Slurm's own."""


class Refused(ClusterError):
    """Slurm answered, and said no to this job: it started or went away meanwhile, or the request can't be."""


class Cluster(Protocol):
    """Slurm, as the agent sees it. Every method raises :class:`ClusterError`."""

    def jobs(self) -> list[Job]:
        """All pending and running jobs: one load."""

    def partitions(self) -> tuple[Partition, ...]:
        """The partitions that slurmcast manages, with their nodes."""

    def script(self, job_id: int) -> bytes:
        """The batch script as it was submitted, to the byte."""

    def apply(self, change: Change) -> None:
        """Make one change, in one update. Raises :class:`Refused` where another try would fare no better."""

    def finished(self, since: int) -> Sequence[Outcome]:
        """Runs that ended at ``since`` (Unix seconds) or later, from accounting."""

    def write_energy(self, job_id: int, submit_time: int, start_time: int, joules: int) -> None:
        """Put a finished run's energy into accounting, in the place of what is there. Raises :class:`Refused` where
        accounting doesn't have that run, or only beside a later one of the same job."""
