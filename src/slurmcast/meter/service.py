"""The process on each node: one thread measures, another does what may take long (sending, asking Slurm)."""

from __future__ import annotations

import logging
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection

from slurmcast.config import Config
from slurmcast.meter.files import Outbox, State
from slurmcast.meter.inotify import Watch
from slurmcast.meter.meter import Clock, Meter, Suspect, next_look
from slurmcast.meter.nvml import Nvml
from slurmcast.meter.rapl import Rapl
from slurmcast.meter.report import Reporter
from slurmcast.model import DAY_S

log = logging.getLogger("slurmcast.meter")

IDLE_WAIT_S = 60.0
"""How long to wait for a marker while no job is followed."""
ASK_S = 300.0
"""How often Slurm is asked again about the same suspects: a request to slurmctld each."""
SQUEUE_S = 30.0
STALL_S = 5.0
"""After a fault of the meter's own folders."""
BYTES_PER_MB = 1e6

Answers = queue.SimpleQueue[tuple[frozenset[Suspect], set[int]]]


def serve(config: Config) -> int:
    """Measure until SIGTERM. Exit status: 0, or 1 where it can't start; the log says why."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    settings = config.meter
    try:
        settings.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings.markers.mkdir(mode=0o700, parents=True, exist_ok=True)
        watch = Watch(settings.markers)
        outbox = Outbox(settings.state_dir, settings.keep_mb * BYTES_PER_MB, settings.keep_days * DAY_S)
        state, rapl = State(settings.state_dir), Rapl() if settings.host_energy else None
        meter = Meter(settings.markers, state, outbox, Nvml(), Clock(), settings.max_gap_s, rapl)
    except PermissionError as error:
        log.error("can't run: %s: %s; run it as root", error.filename, error.strerror)
        return 1
    except OSError as error:
        log.error("can't run: %s", error)
        return 1
    stop = threading.Event()

    def end(*_: object) -> None:
        stop.set()
        watch.wake()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    errands = Errands(Reporter(config, outbox), stop)
    thread = threading.Thread(target=errands.run, name="errands", daemon=True)  # it may hang in a network file system
    thread.start()
    log.info("watching %s", settings.markers)
    due, chance = 0.0, random.Random()
    while not stop.is_set():
        try:
            errands.answer(meter)
            meter.step()
            errands.suspects = meter.suspects()
        except OSError as error:  # a folder that was removed: the jobs go on, and so do we
            log.error("%s", error)
            stop.wait(STALL_S)
        now = time.monotonic()
        due = next_look(now, settings.period_s, chance) if now >= due else due
        watch.wait((due if meter.runs else now + IDLE_WAIT_S) - now)
    return 0


class Errands:
    """What may take long, in a thread of its own."""

    def __init__(self, reporter: Reporter, stop: threading.Event) -> None:
        self._reporter, self._stop = reporter, stop
        self._answers: Answers = queue.SimpleQueue()
        self.suspects: frozenset[Suspect] = frozenset()
        """Set by the thread that measures."""

    def run(self) -> None:
        """Until the stop."""
        asked: frozenset[Suspect] = frozenset()
        send_at = ask_at = 0.0
        while not self._stop.wait(1.0):
            now, suspects = time.monotonic(), self.suspects
            if suspects - asked or (suspects and now >= ask_at):
                asked, ask_at = suspects, now + ASK_S
                if (running := running_here(suspects)) is not None:
                    self._answers.put((suspects, running))
            if now >= send_at:
                try:
                    send_at = now + self._reporter.send()
                except OSError as error:
                    log.error("the outbox can't be read: %s", error)
                    send_at = now + ASK_S

    def answer(self, meter: Meter) -> None:
        """Tell the meter what Slurm said."""
        while not self._answers.empty():
            meter.heard(*self._answers.get())


def running_here(suspects: Collection[Suspect]) -> set[int] | None:
    """Which jobs Slurm has on the suspects' node; None where it doesn't say."""
    node = next(iter(suspects)).node
    command = ["squeue", "--all", "--noheader", f"--nodelist={node}", "--format=%A"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SQUEUE_S, check=True)
        return {int(word) for word in done.stdout.split()}
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        log.warning("Slurm can't be asked which jobs run on %s: %s", node, error)
        return None
