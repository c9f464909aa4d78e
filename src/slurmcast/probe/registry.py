"""A folder of trained models: one version a folder, a link to the one in use, and a log of what was in use before."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from pathlib import Path

from slurmcast.files import append
from slurmcast.probe.model import SETTINGS_FILE, TENSORS_FILE, Model, ModelError, read

CURRENT = "current"
DRAFT = ".draft-"
"""Begins the name of a version that isn't complete."""
LOG = "promotions.jsonl"
"""One line for each change of the version in use: ``{"at": Unix seconds, "version", "reason"}``."""


class Registry:
    """The versions under one folder, each named ``YYYYmmdd-HHMMSS-HASH`` (UTC, of its contents)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, model: Model) -> str:
        """Keep ``model`` as a new version and return its name; the one in use stays in use."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for left in self.folder.glob(f"{DRAFT}*"):  # of a training that was killed
            shutil.rmtree(left, ignore_errors=True)
        draft = self.folder / f"{DRAFT}{os.getpid()}"
        draft.mkdir()
        model.write(draft)
        contents = b"".join((draft / name).read_bytes() for name in (SETTINGS_FILE, TENSORS_FILE))
        version = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{hashlib.sha256(contents).hexdigest()[:8]}"
        for path in [draft / SETTINGS_FILE, draft / TENSORS_FILE, draft]:
            _sync(path)
        if (self.folder / version).exists():
            shutil.rmtree(draft)
        else:
            draft.rename(self.folder / version)
        return version

    def promote(self, version: str, reason: str = "") -> None:
        """Make ``version`` the one in use, by one atomic step. Raises :class:`ModelError`."""
        if version not in self.versions():
            known = ", ".join(self.versions()) or "none"
            raise ModelError(f"{self.folder}: there is no version {version!r}; there are: {known}")
        link = self.folder / f".{CURRENT}-{os.getpid()}"
        link.unlink(missing_ok=True)
        link.symlink_to(version)
        line = json.dumps({"at": round(time.time()), "version": version, "reason": reason})
        append(self.folder / LOG, line)  # first: a version that was in use is never missing in the log
        link.replace(self.folder / CURRENT)
        _sync(self.folder)

    def before(self) -> list[str]:
        """The versions that were in use before the present one and are still there, the latest last.

        Going back to one takes those after it off, so that going back twice goes back two versions.
        """
        try:
            lines = (self.folder / LOG).read_text("utf-8", "replace").splitlines()
        except FileNotFoundError:
            lines = []
        used: list[str] = []
        for line in lines:
            try:
                version = str(json.loads(line)["version"])
            except (ValueError, KeyError, TypeError, RecursionError):
                continue  # cut by a crash or a full disk
            used = [*used[: used.index(version)], version] if version in used else [*used, version]
        current, there = self.current(), set(self.versions())
        if current in used:
            used = used[: used.index(current)]
        return [version for version in used if version in there and version != current]

    def prune(self, keep: int) -> list[str]:
        """Delete all but the ``keep`` newest versions, never the one in use nor the one before it; the deleted ones.

        One that can't be deleted stays: the new model is in use by then, and its training hasn't failed.
        """
        kept = {*self.versions()[-keep:], *self.before()[-1:], self.current()}
        gone = [version for version in self.versions() if version not in kept]
        for version in gone:
            shutil.rmtree(self.folder / version, ignore_errors=True)
        return [version for version in gone if not (self.folder / version).exists()]

    def versions(self) -> list[str]:
        """All versions, the oldest first."""
        if not self.folder.is_dir():
            return []
        found = (p for p in self.folder.iterdir() if not p.is_symlink() and (p / SETTINGS_FILE).is_file())
        return sorted(p.name for p in found if not p.name.startswith(DRAFT))

    def current(self) -> str | None:
        """The version in use, None where there is none yet."""
        link = self.folder / CURRENT
        return link.readlink().name if link.is_symlink() else None

    def read(self, version: str, try_out: bool = True) -> Model:
        """The model of ``version``, whatever its encoder; see :func:`slurmcast.probe.model.read`."""
        return read(self.folder / version, try_out)

    def load(self, encoder: str, version: str | None = None) -> Model:
        """The model of ``version``, by default the one in use. Raises :class:`ModelError`, also where it was trained
        on vectors of another encoder than ``encoder``."""
        version = version or self.current()
        if version is None:
            raise ModelError(f"{self.folder}: no model yet: run slurmcast train once jobs have finished")
        model = self.read(version)
        if model.encoder != encoder:
            raise ModelError(
                f"{self.folder / version}: trained on vectors of {model.encoder}, the encoder is {encoder}: "
                "run slurmcast train, or set [encoder] back"
            )
        return model


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
