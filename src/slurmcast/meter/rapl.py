"""The energy of a node's processors and memory by RAPL, as the kernel shows it (Documentation/power/powercap)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slurmcast.meter.accounting import COUNTER_LAG_S, Reading

POWERCAP = Path("/sys/class/powercap")
J_PER_UJ = 1e-6
MAX_DOMAIN_W = 1000.0
"""No domain draws more."""


@dataclass
class _Domain:
    """One counter that goes up to ``range_uj`` and then begins anew."""

    file: Path
    range_uj: int
    last_uj: int


class Rapl:
    """The sum over the processor packages and the memory beside them, as one counter that doesn't wrap.

    Cores and graphics are part of their package, ``psys`` is the whole board: they would count twice. Only root may
    read.
    """

    def __init__(self, folder: Path = POWERCAP) -> None:
        self._folder = folder
        self._domains: list[_Domain] = []
        self._at = self._joules = 0.0

    def read(self, at: float) -> tuple[Reading, bool]:
        """A reading at ``at``, and whether its counter goes on from the last one's. Raises OSError, also where there is
        no RAPL."""
        span_s, self._at = at - self._at, at
        if not self._domains:
            self._domains = self._found()
            return Reading(at, counter_j=self._joules), False
        used_j = []
        try:
            for domain in self._domains:
                now_uj = int(domain.file.read_text())
                wrapped = domain.range_uj if now_uj < domain.last_uj else 0
                used_j.append((now_uj - domain.last_uj + wrapped) * J_PER_UJ)
                domain.last_uj = now_uj
        except (OSError, ValueError) as error:
            self._domains = []
            raise OSError(f"{domain.file}: {error}") from None
        self._joules += sum(used_j)
        most_j = MAX_DOMAIN_W * (span_s + COUNTER_LAG_S)  # more is a reset, and beyond the range a wrap may hide
        goes_on = max(used_j) <= most_j <= min(domain.range_uj for domain in self._domains) * J_PER_UJ
        return Reading(at, counter_j=self._joules), goes_on

    def _found(self) -> list[_Domain]:
        found = []
        for folder in sorted(self._folder.glob("intel-rapl:*")):  # of AMD's processors too
            name = (folder / "name").read_text().strip()
            if name.startswith("package") or name == "dram":
                energy, most = folder / "energy_uj", folder / "max_energy_range_uj"
                found.append(_Domain(energy, int(most.read_text()), int(energy.read_text())))
        if not found:
            raise OSError(f"{self._folder} has no processor package: no RAPL here")
        return found
