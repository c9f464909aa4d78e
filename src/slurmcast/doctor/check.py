"""What a check of the doctor is, and how it asks Slurm: by Slurm's own commands."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Check:
    """One line of the doctor's report; ``remedy`` says what to do where ``ok`` is False."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


class Unanswered(Exception):
    """A program or the daemon gave no answer; the message says which and why, ``remedy`` what to do."""

    def __init__(self, problem: str, remedy: str = "run the doctor where Slurm's commands reach slurmctld") -> None:
        super().__init__(problem)
        self.remedy = remedy


def output(*command: str) -> str:
    """What a program says. One that gave no answer isn't asked, nor waited for, again."""
    answer = _answer(*command)
    if isinstance(answer, Unanswered):
        raise answer
    return answer


@cache
def _answer(*command: str) -> str | Unanswered:
    if shutil.which(command[0]) is None:
        return Unanswered(f"{command[0]} is not on the PATH")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=15, check=False)
    except subprocess.TimeoutExpired:
        return Unanswered(f"{' '.join(command)} gave no answer within 15 s")
    if done.returncode != 0:
        return Unanswered(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def setting(name: str) -> str:
    """Empty where it isn't set."""
    match = re.search(rf"^{name}\s*= (.*)$", output("scontrol", "show", "config"), re.MULTILINE)
    return match[1].strip().replace("(null)", "") if match else ""


def forget() -> None:
    """Ask all programs anew."""
    _answer.cache_clear()
