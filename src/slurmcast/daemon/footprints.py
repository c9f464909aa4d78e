"""Carbon and water beside each estimate that is shown, by the site's figures and its file of grid intensities."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from pathlib import Path

from slurmcast.codec import to_json
from slurmcast.config import FootprintConfig
from slurmcast.daemon.requests import Answer
from slurmcast.footprint import Series, SeriesError, Site, read_series
from slurmcast.model import Estimate

log = logging.getLogger("slurmcast.footprints")

MAX_FILE = 32 << 20
"""Bytes; a year by the minute has about 15 million."""


class Footprints:
    """Safe for several threads. The file is read again when it has changed."""

    def __init__(self, config: FootprintConfig) -> None:
        self._config = config
        self._file = _File(config.intensity_file) if config.intensity_file is not None else None
        self._site()  # so that the log tells at the start what is wrong with the file

    def shown(self, estimates: Iterable[Estimate], start: float) -> list[Answer]:
        """Estimates as the contract of ``--json`` has them, of a job that starts at ``start``. Blocks on the file."""
        site = self._site()
        return [
            to_json(estimate)
            | {
                "carbon_kg": to_json(site.carbon_kg(estimate.energy_kwh, estimate.time_s, start)),
                "water_l": to_json(site.water_l(estimate.energy_kwh)),
            }
            for estimate in estimates
        ]

    def _site(self) -> Site:
        config = self._config
        series = self._file.series() if self._file is not None else None
        return Site(config.g_per_kwh, series, config.pue, config.wue_l_per_kwh)


class _File:
    """A series that lies in a file."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._series: Series | None = None
        self._trouble = ""

    def series(self) -> Series | None:
        """What the file holds now; where it can't be read, what it held last, None for nothing yet."""
        with self._lock:
            try:
                status = self._path.stat()
                seen = status.st_ino, status.st_mtime_ns, status.st_size
                if seen != self._seen:
                    self._seen = seen
                    if status.st_size > MAX_FILE:
                        raise SeriesError(f"has more than {MAX_FILE} bytes")
                    self._series = read_series(self._path.read_text("utf-8-sig"))
                    self._trouble = ""
            except (OSError, SeriesError, UnicodeDecodeError) as error:
                self._complain(error)
            return self._series

    def _complain(self, error: Exception) -> None:
        trouble = str(error.strerror if isinstance(error, OSError) else error)
        if trouble != self._trouble:
            rest = "what it held before goes on" if self._series else "footprint.g_per_kwh, where given, stands in"
            log.error("footprint.intensity_file %s: %s; %s", self._path, trouble, rest)
        self._trouble = trouble
