"""Munge credentials by the ``munge`` and ``unmunge`` programs: who sent this, unchanged, and not twice (man munge).

A sealed value is zlib-compressed JSON inside a credential.
"""

from __future__ import annotations

import json
import re
import subprocess
import zlib
from dataclasses import dataclass
from typing import Any

TIMEOUT_S = 5
"""Less than clients wait for the daemon, which may wait for its own munged."""
MAX_VALUE = 32 * 1024 * 1024
"""Bytes of JSON that are unpacked; a small credential must not fill the memory."""
MAX_PACKED = 768 * 1024 - 1024
"""Bytes in a credential: munged opens none that has 1 MiB with its head and in base64 (tried with munge 0.5.16), though
it makes them."""

NOT_OURS = "the credential holds nothing of slurmcast's; are both of the same version?"
FAULTS = {
    15: "it has expired; do the clocks of both hosts agree?",
    16: "it was made in the future; do the clocks of both hosts agree?",
    17: "it was used before",
    18: "it is for somebody else",
}
"""Exit statuses of unmunge (libmunge, munge_err_t) for what was a good credential once, which it prints as numbers."""
NO_ANSWER = (6, 7)
"""Exit statuses for a munged that can't be reached, or is silent."""


class MungeError(Exception):
    """A credential can't be made or isn't valid; the message says why."""


class NoAnswer(MungeError):
    """munge isn't at work on this host; the message says in what way."""


class TooLong(MungeError):
    """The value is too long for a credential."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """An opened credential: who made it and what was in it."""

    uid: int
    value: Any


def seal(value: Any, socket: str = "", only_uid: int | None = None) -> bytes:
    """A credential of this process's user; ``only_uid``: the only user who can open it. Raises :class:`MungeError`;
    :class:`TooLong` where less would do."""
    command = ["munge", *_socket(socket)]
    if only_uid is not None:
        command.append(f"--restrict-uid={only_uid}")
    packed = zlib.compress(json.dumps(value).encode())
    if len(packed) > MAX_PACKED:
        raise TooLong(f"{len(packed)} bytes, packed, are more than the {MAX_PACKED} that munge can carry")
    return _run(command, packed).strip()


def unseal(credential: bytes, socket: str = "") -> Sealed:
    """Check and open a credential. Replayed, expired, changed ones and other people's raise :class:`MungeError`."""
    uid, content = unpacked(credential, socket)
    return Sealed(uid, parsed(content))


def unpacked(credential: bytes, socket: str = "", most: int = MAX_VALUE) -> tuple[int, bytes]:
    """Like :func:`unseal`, but the value is still JSON, of at most ``most`` bytes."""
    # The metadata is separated from the payload by an empty line; the payload itself is arbitrary.
    output = _run(["unmunge", *_socket(socket), "--numeric", "--keys=STATUS,UID"], credential)
    metadata, _, payload = output.partition(b"\n\n")
    uid = re.search(rb"^UID:\s+(\d+)\s*$", metadata, re.MULTILINE)
    if uid is None:
        raise MungeError("unmunge gave no uid")
    unpacker = zlib.decompressobj()
    try:
        content = unpacker.decompress(payload, most)
    except zlib.error:
        raise MungeError(NOT_OURS) from None
    if unpacker.unconsumed_tail:
        raise TooLong(f"the credential holds more than {most} bytes")
    return int(uid[1]), content


def parsed(content: bytes) -> Any:
    """The value in an opened credential. Raises :class:`MungeError`."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise MungeError(NOT_OURS) from None


def _socket(path: str) -> list[str]:
    return [f"--socket={path}"] if path else []


def _run(command: list[str], given: bytes) -> bytes:
    try:
        done = subprocess.run(command, input=given, capture_output=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError:
        raise NoAnswer(f"{command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"{command[0]} hears nothing from munged for {TIMEOUT_S} s") from None
    if done.returncode != 0:
        said = FAULTS.get(done.returncode, "") if done.stdout else done.stderr.decode(errors="replace").strip()
        problem = said.removeprefix(f"{command[0]}: Error: ") or f"{command[0]} failed with status {done.returncode}"
        raise (NoAnswer if done.returncode in NO_ANSWER else MungeError)(problem)
    return done.stdout
