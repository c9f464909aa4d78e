"""Carbon and water beside each estimate that is shown, by the site's figures and its file of grid intensities."""

from __future__ import annotations

from collections.abc import Iterable

from slurmcast.codec import to_json
from slurmcast.config import FootprintConfig
from slurmcast.daemon.requests import Answer
from slurmcast.footprint import Site
from slurmcast.model import Estimate
from slurmcast.series_file import SeriesFile

OTHERWISE = "footprint.g_per_kwh, where given, stands in"


class Footprints:
    """Safe for several threads. The file is read again when it has changed."""

    def __init__(self, config: FootprintConfig) -> None:
        self._config = config
        path = config.intensity_file
        self._file = SeriesFile(path, "footprint.intensity_file", OTHERWISE) if path is not None else None
        self.site()  # so that the log tells at the start what is wrong with the file

    def shown(self, estimates: Iterable[Estimate], start: float) -> list[Answer]:
        """Estimates as the contract of ``--json`` has them, of a job that starts at ``start``. Blocks on the file."""
        site = self.site()
        return [
            to_json(estimate)
            | {
                "carbon_kg": to_json(site.carbon_kg(estimate.energy_kwh, estimate.time_s, start)),
                "water_l": to_json(site.water_l(estimate.energy_kwh)),
            }
            for estimate in estimates
        ]

    def site(self) -> Site:
        """What holds now. Blocks on the file."""
        config = self._config
        series = self._file.series() if self._file is not None else None
        return Site(config.g_per_kwh, series, config.pue, config.wue_l_per_kwh)
