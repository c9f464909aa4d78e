"""The demo's stand-in for the meter: what the stand-in programs left goes to the daemon by the meter's own way home."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from slurmcast import config
from slurmcast.meter.files import Outbox
from slurmcast.meter.record import Ending, EnergyRecord, GpuUse, Method
from slurmcast.meter.report import Reporter

FOLDER = Path("/var/spool/standin")
"""Where the stand-ins leave one file a job and node."""
OUTBOX = Path("/var/lib/standin-meter")


class StandInMeter:
    """As root, as a node's meter is."""

    def __init__(self) -> None:
        cfg = config.load()
        self._cluster, outbox = cfg.cluster, Outbox(OUTBOX)
        self._outbox, self._reporter = outbox, Reporter(cfg, outbox)
        self._handed_in: set[Path] = set()

    def hand_in(self) -> None:
        """Report what is there of jobs whose end Slurm knows, each once."""
        new = {path: json.loads(path.read_text()) for path in FOLDER.glob("*.json") if path not in self._handed_in}
        ends = _ends({str(left["job_id"]) for left in new.values()})
        for path, left in new.items():
            if left["job_id"] in ends:
                self._outbox.put(record(left, self._cluster, *ends[left["job_id"]]))
                self._handed_in.add(path)
        self._reporter.send()


def record(left: dict[str, Any], cluster: str, start: int, end: int) -> EnergyRecord:
    """One that says that its energy is emulated.

    Start and end are Slurm's: at the demo's speed, what a busy machine takes for an epilog is minutes.
    """
    gpus, energy_j, power_w = left["gpus"], left["energy_j"], left["power_w"]
    used = tuple(
        GpuUse(f"emulated-{n}", energy_j / gpus, Method.EMULATED, 0, 0, 0, power_w, power_w, None, None)
        for n in range(gpus)
    )
    of = (cluster, left["job_id"], start, left["node"], left["nodes"])
    return EnergyRecord(*of, began=start, ended=end, ending=Ending.EPILOG, gpus=gpus, shared="", used=used)


def _ends(job_ids: set[str]) -> dict[int, tuple[int, int]]:
    """Start and end of those jobs that have ended, by id."""
    if not job_ids:
        return {}
    command = ["sacct", "-X", "-n", "-P", "-j", ",".join(job_ids), "-S", "now-30days", "-o", "jobidraw,start,end"]
    environment = {**os.environ, "SLURM_TIME_FORMAT": "%s"}
    text = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    rows = (line.split("|") for line in text.splitlines())
    return {int(job_id): (int(start), int(end)) for job_id, start, end in rows if end.isdigit()}
