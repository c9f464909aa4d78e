"""Munge credentials by the ``munge`` and ``unmunge`` programs: who sent this, unchanged, and not twice (man munge)."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

TIMEOUT_S = 10


class MungeError(Exception):
    """A credential can't be made or isn't valid; the message says why."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A decoded credential."""

    uid: int
    payload: bytes


def encode(payload: bytes, socket: str = "", only_uid: int | None = None) -> bytes:
    """A credential of this process's user; ``only_uid``: the only user who can decode it."""
    options = [f"--socket={socket}"] if socket else []
    if only_uid is not None:
        options.append(f"--restrict-uid={only_uid}")
    return _run(["munge", *options], payload).stdout.strip()


def decode(credential: bytes, socket: str = "") -> Credential:
    """Check and open a credential. Replayed, expired and changed ones raise :class:`MungeError`."""
    options = [f"--socket={socket}"] if socket else []
    done = _run(["unmunge", *options, "--numeric", "--keys=STATUS,UID"], credential)
    # The metadata is separated from the payload by an empty line; the payload itself is arbitrary.
    metadata, _, payload = done.stdout.partition(b"\n\n")
    uid = re.search(rb"^UID:\s+(\d+)\s*$", metadata, re.MULTILINE)
    if uid is None:
        raise MungeError("unmunge gave no uid")
    return Credential(int(uid[1]), payload)


def _run(command: list[str], given: bytes) -> subprocess.CompletedProcess[bytes]:
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError:
        raise MungeError(f"{command[0]} is not installed; install munge") from None
    except subprocess.TimeoutExpired:
        raise MungeError(f"{command[0]} gave no answer within {TIMEOUT_S} s; is munged running?") from None
    if done.returncode != 0:
        raise MungeError(done.stderr.decode(errors="replace").strip() or f"{command[0]} failed")
    return done
