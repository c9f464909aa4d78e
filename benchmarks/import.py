"""A past of 100,000 accounting rows from slurmdbd into the store, on a real Slurm; in the lab: ``make bench-import``.

Measured are jobs per second, CPU time and peak memory of the command and of the daemon, and how long a submission waits
for its estimate meanwhile. Then the same import into an empty store is killed (kill -9, the command several times and
the daemon once) and run again until it ends: the store must be the same. The last line is JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from options import parser, whole

from slurmcast.client import Client, ClientError
from slurmcast.config import load

SQL = ("mariadb", "--no-defaults", "-uroot", "-S", "/run/mysqld/mysqld.sock", "-N", "slurm_acct_db")
ROWS = Path(__file__).with_name("importing") / "rows.sql"
LAB = Path(os.environ.get("LAB_DIR", ""))
STATE, SPOOL = Path("/var/lib/slurmcast"), Path("/run/slurmcast/spool")
MARK = Path("/var/lib/slurmcast-agent/import.json")
KEPT = "`partition` IN ('a100', 'a6000')"
DIGESTED = (  # what an import leaves, but for the numbers that SQLite gave
    "SELECT * FROM outcome ORDER BY job_id, submit_time",
    "SELECT job.job_id, job.submit_time, job.uid, user, key, text_key FROM job "
    "LEFT JOIN submission ON submission.id = job.submission WHERE job.job_id >= 1000000 ORDER BY 1, 2",
)
SUBMISSION = (
    "slurmcast-spool 1\nsubmit_time 10\n{now:010d}\nuid 4\n1001\nname 5\nprobe\nrequest.tres_per_node 10\ngres/gpu:1\n"
    "script_size {size}\nscript {size}\n{script}\nend\n"
)


def sql(text: str) -> str:
    return subprocess.run(SQL, input=text, capture_output=True, text=True, check=True).stdout.strip()


def fill(rows: int) -> dict[str, int]:
    """Put the past into slurmdbd's tables; what the import must find there."""
    begin = int(time.time()) - 80 * rows - 86400
    sql(ROWS.read_text().replace(":rows", str(rows)).replace(":from", str(begin)))
    counted = {
        "records": "1",
        "runs": KEPT,
        "completed": f"{KEPT} AND state = 3",
        "with_script": f"{KEPT} AND script_hash_inx",
    }
    return {name: int(sql(f"SELECT count(*) FROM lab_job_table WHERE {what}")) for name, what in counted.items()}


class Daemon:
    """slurmcastd of the lab, with an empty store."""

    def __init__(self) -> None:
        self.client = Client(load())
        for path in (*STATE.iterdir(), MARK):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        self.start()

    def start(self) -> None:
        subprocess.run(["bash", LAB / "slurmcast.sh", "start", "daemon"], check=True)
        until(self.answers)
        self.pid = int(
            subprocess.run(["pgrep", "-f", "slurmcast serve"], capture_output=True, check=True).stdout.split()[-1]
        )

    def answers(self) -> bool:
        try:
            return bool(self.health())
        except ClientError:
            return False

    def health(self) -> dict[str, Any]:
        return dict(self.client.request("GET", "/v1/health"))

    def end(self, how: str = "stop") -> None:
        subprocess.run(["bash", LAB / "slurmcast.sh", how, "daemon"], check=True)


def until(check: Callable[[], Any], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "it took too long; see /var/log/slurmcast"
        time.sleep(0.005)


def start_import(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "slurmcast.cli", "import", "--json", *words]
    agent = pwd.getpwnam("slurmcast-agent")
    who: dict[str, Any] = {"user": agent.pw_uid, "group": agent.pw_gid, "extra_groups": []}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **who)


def used(pid: int) -> tuple[float, float]:
    """CPU seconds and peak memory in MB (RSS) of a process so far."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    peak_kb = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"), int(peak_kb[1]) / 1024 if peak_kb else 0.0


class Probes:
    """How long ``health`` and the estimate of a submission take, one after the other, until :meth:`end`."""

    def __init__(self, daemon: Daemon) -> None:
        self.health_s: list[float] = []
        self.estimate_s: list[float] = []
        self._daemon, self._over = daemon, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(0.2):
            began = time.perf_counter()
            self._daemon.health()
            self.health_s.append(time.perf_counter() - began)
            if len(self.health_s) % 5 == 0:
                self.estimate_s.append(self._estimate())

    def _estimate(self) -> float:
        name = f"{time.time_ns()}.job"
        script = f"#!/bin/bash\n#SBATCH --gres=gpu:1 -t 60\npython probe.py --seed {name}\n"
        draft = SPOOL / f".{name}"
        draft.write_text(SUBMISSION.format(now=int(time.time()), size=len(script), script=script))
        draft.chmod(0o644)
        began = time.perf_counter()
        draft.rename(SPOOL / name)
        until(lambda: not (SPOOL / name).exists())  # it goes when the estimate has been stored
        return time.perf_counter() - began

    def end(self) -> dict[str, float]:
        self._over.set()
        self._thread.join()
        return {
            "health_p50_ms": round(1000 * statistics.median(self.health_s), 1),
            "health_max_ms": round(1000 * max(self.health_s), 1),
            "estimate_p50_s": round(statistics.median(self.estimate_s), 3),
            "estimate_max_s": round(max(self.estimate_s), 3),
        }


def digest() -> str:
    with sqlite3.connect(f"file:{STATE}/store.db?mode=ro", uri=True) as store:
        rows: Iterator[Any] = (row for query in DIGESTED for row in store.execute(query))
        return hashlib.sha256("\n".join(map(repr, rows)).encode()).hexdigest()


def straight(expected: dict[str, int]) -> dict[str, Any]:
    """One import without a break."""
    daemon = Daemon()
    probes = Probes(daemon)
    time.sleep(10)
    idle = probes.end()
    daemon_before = used(daemon.pid)
    probes, importing = Probes(daemon), start_import()
    command, sacct_mb = (0.0, 0.0), 0.0
    while importing.poll() is None:
        with suppress(ProcessLookupError, FileNotFoundError):
            now = used(importing.pid)
            command = max(command[0], now[0]), max(command[1], now[1])
            children = Path(f"/proc/{importing.pid}/task/{importing.pid}/children").read_text().split()
            sacct_mb = max([sacct_mb, *(used(int(child))[1] for child in children)])
        time.sleep(0.1)
    daemon_after, meanwhile = used(daemon.pid), probes.end()
    assert importing.returncode == 0, "the import failed"
    answer = json.loads(importing.stdout.read()) if importing.stdout else {}
    found = {name: answer[name] for name in expected}
    assert found == expected, f"expected {expected}, found {found}"
    backlog = daemon.health()["past_waiting"]
    began = time.monotonic()
    until(lambda: daemon.health()["past_waiting"] == 0, 3600)
    encoded_s = time.monotonic() - began
    daemon.end()
    return {
        "seconds": answer["this_time"]["seconds"],
        "jobs_per_s": answer["this_time"]["records_per_s"],
        "command_cpu_s": round(command[0], 1),
        "command_mb": round(command[1], 1),
        "sacct_mb": round(sacct_mb, 1),
        "daemon_cpu_s": round(daemon_after[0] - daemon_before[0], 1),
        "daemon_mb": round(daemon_after[1], 1),
        "daemon_before_mb": round(daemon_before[1], 1),
        "texts_left_to_encode": backlog,
        "and_encoded_in_s": round(encoded_s, 1),
        "submissions_idle": idle,
        "submissions_meanwhile": meanwhile,
        "store_mb": round(sum(file.stat().st_size for file in STATE.glob("store.db*")) / 1e6, 1),
    }


def killed(seconds: float) -> int:
    """The same import, killed again and again; how often."""
    daemon, kills = Daemon(), 0
    for share in (0.1, 0.2, 0.3):
        importing = start_import()
        time.sleep(share * seconds)
        kills += importing.poll() is None
        importing.kill()
        importing.wait()
    before, importing = daemon.health()["outcomes"], start_import()
    until(lambda: daemon.health()["outcomes"] > before)
    daemon.end("kill")
    daemon.start()
    assert importing.wait() == 0, "the import didn't outlive the daemon's restart"
    return kills + 1


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rows", type=whole(1000), default=100_000, help="accounting rows; default: 100000")
    rows = options.parse_args().rows
    expected = fill(rows)
    answer = {**expected, **straight(expected)}
    print(json.dumps(answer, indent=2), flush=True)
    whole_store = digest()
    answer["kills"] = killed(answer["seconds"])
    mark = json.loads(MARK.read_text())["counts"]
    answer["restart_exact"] = digest() == whole_store and all(mark[name] == n for name, n in expected.items())
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
