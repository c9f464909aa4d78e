"""``slurmcast agent``: cycle after cycle, woken early by new estimates, until SIGTERM.

While the daemon or slurmctld is away nothing is changed and the lease runs out, so jobs get no grace.
"""

from __future__ import annotations

import gc
import json
import logging
import math
import signal
import subprocess
import sys
import threading
import time
from types import FrameType

from slurmcast.agent.cycle import Agent, log
from slurmcast.agent.journal import Journal
from slurmcast.client import Client, ClientError
from slurmcast.cluster.base import ClusterError
from slurmcast.codec import to_json
from slurmcast.config import Config

OUTCOMES_EVERY_S = 10.0
LONGEST_OUTCOMES_PAUSE_S = 240.0
"""A slurmdbd that hangs holds each try up for 45 s."""
GATHER_S = 0.2
"""How long to wait for more after the daemon said that there is something new: a burst is one cycle, not hundreds."""
GC_THRESHOLD = 10_000
"""A cycle makes several objects for each job, and nearly all live until its end: Python need not look for garbage after
every 700 of them."""
FIRST_PAUSE_S = 1.0
"""Before the second try of what has failed."""


class Trouble:
    """Something that fails again and again: the log says why once, and tries follow after ever longer pauses."""

    def __init__(self, what: str, longest_s: float) -> None:
        """``what`` is being done, for the log; no pause is longer than ``longest_s``."""
        self._what, self._longest_s = what, longest_s
        self._said, self._tries = "", 0

    def met(self, problem: Exception | str) -> float:
        """It has failed once more; the pause before the next try, in seconds."""
        if str(problem) != self._said:
            self._said = str(problem)
            log.warning("%s fails, trying again: %s", self._what, problem)
        self._tries += 1
        return min(FIRST_PAUSE_S * 2.0 ** min(self._tries - 1, 60), self._longest_s)

    def over(self) -> None:
        """It has gone well."""
        if self._tries:
            log.info("%s goes on after %d tries", self._what, self._tries)
        self._said, self._tries = "", 0


class Waker(threading.Thread):
    """Sets ``event`` whenever the daemon has new estimates, by a long poll of its own connection."""

    def __init__(self, client: Client, event: threading.Event, stop: threading.Event) -> None:
        super().__init__(daemon=True, name="waker")
        self._client, self._event, self._halt = client, event, stop

    def run(self) -> None:
        revision = -1
        while not self._halt.is_set():
            try:
                answer = self._client.request("GET", f"/v1/agent/wait?revision={revision}&timeout=5")
            except ClientError:
                self._halt.wait(1.0)
                continue
            if answer["revision"] != revision:
                revision = answer["revision"]
                self._event.set()


def run(config: Config, once: bool = False, dry_run: bool = False) -> int:
    """Run the agent until SIGTERM, or one cycle with ``once`` or ``dry_run``. The exit status: 1 where that failed."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    gc.set_threshold(GC_THRESHOLD)
    wake, stop = threading.Event(), threading.Event()
    single = once or dry_run

    def end(_signal: int, _frame: FrameType | None) -> None:
        stop.set()
        wake.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    missing = Trouble("importing pyslurm", config.agent.period_s)
    while (problem := _pyslurm_problem()) is not None:
        pause_s = missing.met(problem)
        if single:
            return 1
        if stop.wait(pause_s):
            return 0
    from slurmcast.cluster.pyslurm_cluster import PyslurmCluster

    cluster = PyslurmCluster(config.partition, config.agent.usage_from)
    agent = Agent(config, cluster, Client(config), Journal(config.paths.journal))
    if single:
        return _single(agent, dry_run)
    Waker(Client(config), wake, stop).start()
    _loop(agent, wake, stop)
    try:
        agent.write_lease("off")
    except OSError as error:
        log.warning("can't end the lease, it runs out by itself: %s", error)
    return 0


def _pyslurm_problem() -> str | None:
    """Why pyslurm can't be imported, or None. Without a usable slurm.conf the import ends the process: let it be a
    child's."""
    done = subprocess.run([sys.executable, "-c", "import pyslurm"], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    return (done.stderr.strip() or f"the process ended with {done.returncode}").splitlines()[-1]


def _single(agent: Agent, dry_run: bool) -> int:
    try:
        wanted = agent.cycle(dry_run)
    except (ClusterError, ClientError, OSError) as error:
        print(f"slurmcast agent: {error}", file=sys.stderr)
        return 1
    if dry_run:
        print(json.dumps([to_json(change) for change in wanted.changes], indent=2))
    return 0


def _loop(agent: Agent, wake: threading.Event, stop: threading.Event) -> None:
    period = agent.config.agent.period_s
    cycles = Trouble("ordering the queue", period)
    outcomes = Trouble("handing over finished runs", LONGEST_OUTCOMES_PAUSE_S)
    next_outcomes = -math.inf
    while not stop.is_set():
        wake.clear()
        try:
            agent.cycle()
            agent.write_lease()
        except (ClusterError, ClientError, OSError) as error:
            stop.wait(cycles.met(error))
            continue
        cycles.over()
        if time.monotonic() >= next_outcomes:
            pause_s = _report_outcomes(agent, outcomes) or max(period, OUTCOMES_EVERY_S)
            next_outcomes = time.monotonic() + pause_s
        if wake.wait(period):
            stop.wait(GATHER_S)


def _report_outcomes(agent: Agent, trouble: Trouble) -> float:
    """The pause before the next try in seconds, 0 where it went well: accounting that is away stops no cycle."""
    try:
        agent.report_outcomes()
    except (ClusterError, ClientError, OSError) as error:
        return trouble.met(error)
    trouble.over()
    return 0.0
