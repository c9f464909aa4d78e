"""``slurmcast doctor``: is everything in place? Each check says what to do where it fails.

Every check is a small function ``(config) -> Check``; the ones that ask Slurm use its own commands, so that the doctor
also works where pyslurm doesn't.
"""

from __future__ import annotations

from collections.abc import Callable

from slurmcast.config import Config
from slurmcast.doctor import daemon, host, slurm
from slurmcast.doctor.check import Check, Unanswered, forget

CHECKS: tuple[Callable[[Config], Check], ...] = (
    host.check_munge,
    slurm.check_slurmctld,
    slurm.check_pyslurm,
    slurm.check_hook,
    slurm.check_capture,
    slurm.check_meter,
    slurm.check_usage,
    slurm.check_priority,
    slurm.check_tres,
    slurm.check_partitions,
    slurm.check_operator,
    host.check_spool,
    host.check_state,
    host.check_lease,
    daemon.check_daemon,
    daemon.check_encoder,
    daemon.check_model,
    daemon.check_late,
)


def examine(config: Config) -> list[Check]:
    """All checks, in the order in which a fault in one explains the next."""
    forget()
    found = []
    for check in CHECKS:
        try:
            found.append(check(config))
        except Unanswered as error:
            found.append(Check(_name(check), False, str(error), error.remedy))
        except OSError as error:
            told = f"{error.filename}: {error.strerror}"
            found.append(Check(_name(check), False, told, "run the doctor as root, who may look everywhere"))
    return found


def _name(check: Callable[[Config], Check]) -> str:
    return check.__name__.removeprefix("check_")
