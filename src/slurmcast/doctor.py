"""``slurmcast doctor``: is everything in place? Each check says what to do where it fails.

Every check is a small function ``(config) -> Check``; the ones that ask Slurm use its own commands, so that the doctor
also works where pyslurm doesn't.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from slurmcast import munge
from slurmcast.client import Client, ClientError
from slurmcast.config import Config
from slurmcast.extras import install
from slurmcast.model import HOUR_S
from slurmcast.owners import name_of, strangers

SLURM_CONF_DIR = Path("/etc/slurm")


@dataclass(frozen=True)
class Check:
    """One line of the doctor's report; ``remedy`` says what to do where ``ok`` is False."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


class _Unanswered(Exception):
    """A program gave no answer; the message says which and why."""


def _output(*command: str) -> str:
    """What a program says. One that gave no answer isn't asked, nor waited for, again."""
    answer = _answer(*command)
    if isinstance(answer, _Unanswered):
        raise answer
    return answer


@cache
def _answer(*command: str) -> str | _Unanswered:
    if shutil.which(command[0]) is None:
        return _Unanswered(f"{command[0]} is not on the PATH")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=15, check=False)
    except subprocess.TimeoutExpired:
        return _Unanswered(f"{' '.join(command)} gave no answer within 15 s")
    if done.returncode != 0:
        return _Unanswered(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _slurm_setting(name: str) -> str:
    """Empty where it isn't set."""
    match = re.search(rf"^{name}\s*= (.*)$", _output("scontrol", "show", "config"), re.MULTILINE)
    return match[1].strip().replace("(null)", "") if match else ""


def _is(setting: str) -> str:
    return f"is {setting}" if setting else "isn't set"


def check_munge(config: Config) -> Check:
    socket = config.daemon.munge_socket
    try:
        munge.unseal(munge.seal({}, socket), socket)
    except munge.MungeError as error:
        return Check("munge", False, str(error), "systemctl status munge: Slurm and other hosts need it")
    return Check("munge", True, "makes credentials and opens them")


def check_slurmctld(_: Config) -> Check:
    version = _slurm_setting("SLURM_VERSION")
    return Check("slurmctld", bool(version), f"answers, Slurm {version}")


def check_pyslurm(_: Config) -> Check:
    release = _slurm_setting("SLURM_VERSION")  # first: without slurmctld pyslurm waits for minutes
    # In a process of its own: importing pyslurm without a usable slurm.conf ends the process that does it.
    code = "import pyslurm; pyslurm.Partitions.load(); print(pyslurm.__version__)"
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        raise _Unanswered("pyslurm gave no answer within 60 s") from None
    remedy = "install the pyslurm built for this Slurm release; see docs/installation.md"
    if done.returncode != 0:
        lines = (done.stderr.strip() or f"the process ended with {done.returncode}").splitlines()
        return Check("pyslurm", False, lines[-1], remedy)
    return Check("pyslurm", True, f"{done.stdout.strip()} loads partitions from Slurm {release}")


def check_hook(_: Config) -> Check:
    remedy = "set JobSubmitPlugins=lua in slurm.conf and install job_submit.lua; see docs/hook.md"
    if "lua" not in _slurm_setting("JobSubmitPlugins").split(","):
        return Check("hook", False, "JobSubmitPlugins has no lua", remedy)
    script = SLURM_CONF_DIR / "job_submit.lua"
    try:
        text = script.read_text(errors="replace")
    except OSError as error:
        return Check("hook", False, f"{script}: {error.strerror}", remedy)
    if "slurmcast" not in text:
        return Check("hook", False, f"{script} doesn't load slurmcast.lua", remedy)
    named = re.search(r"""["']([^"'\n]*slurmcast\.lua)["']""", text)
    fragment = Path(named[1]) if named else SLURM_CONF_DIR / "slurmcast.lua"
    if not fragment.is_file():
        return Check("hook", False, f"{fragment}, which {script} loads, is missing", remedy)
    luac = next((path for name in ("luac", "luac5.4", "luac5.3", "luac5.1") if (path := shutil.which(name))), None)
    for file in (script, fragment) if luac else ():
        done = subprocess.run([str(luac), "-p", str(file)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return Check("hook", False, done.stderr.strip(), "install the file again; see docs/hook.md")
    return Check("hook", True, f"{script} loads {fragment}")


def check_capture(config: Config) -> Check:
    if not config.daemon.capture:
        return Check("capture", True, "off (daemon.capture): sbatch hands over no sources")
    remedy = "install cli_filter.lua and slurmcast_capture.lua and set CliFilterPlugins=lua; see docs/capture.md"
    if "lua" not in _slurm_setting("CliFilterPlugins").split(","):
        return Check("capture", False, "daemon.capture is true, but CliFilterPlugins has no lua", remedy)
    script, fragment = SLURM_CONF_DIR / "cli_filter.lua", SLURM_CONF_DIR / "slurmcast_capture.lua"
    for file in (script, fragment):
        if not file.is_file():
            return Check("capture", False, f"{file} is missing", remedy)
    if fragment.name not in script.read_text(errors="replace"):
        return Check("capture", False, f"{script} doesn't load {fragment.name}", remedy)
    return Check("capture", True, f"{script} loads {fragment.name}")


def check_meter(config: Config) -> Check:
    if not config.meter.nodes and config.agent.write_energy:
        detail = "agent.write_energy is true, but meter.nodes is empty: there will be no energy to write"
        return Check("meter", False, detail, "set meter.nodes, or drop agent.write_energy; see docs/meter.md")
    if not config.meter.nodes:
        return Check("meter", True, "off (meter.nodes): no energy is taken from nodes")
    # Records bear the ClusterName, and the daemon refuses those of another cluster.
    if (name := _slurm_setting("ClusterName")) != config.cluster:
        remedy = f'set cluster = "{name}" in slurmcast.toml and restart slurmcastd; see docs/meter.md'
        return Check("meter", False, f"Slurm's ClusterName is {name}, cluster is {config.cluster}", remedy)
    # Without Alloc the prolog waits for a job's first step; the other flags that Slurm takes imply it.
    if not _slurm_setting("PrologFlags"):
        return Check(
            "meter", False, "PrologFlags has no Alloc", "set PrologFlags=Alloc in slurm.conf; see docs/meter.md"
        )
    settings = _output("scontrol", "show", "config")
    for name in ("Prolog", "Epilog"):
        if not re.search(rf"^{name}(\[\d+\])?\s*= (?!\(null\)|$)", settings, re.MULTILINE):
            remedy = f"set {name} to a folder with slurmcast's script in slurm.conf; see docs/meter.md"
            return Check("meter", False, f"{name} isn't set: the nodes' meters learn of no job", remedy)
    detail = f"PrologFlags={_slurm_setting('PrologFlags')}, nodes: {', '.join(config.meter.nodes)}"
    unseen = "not seen from here: both folders must be on every node that runs slurmd, or Slurm drains it"
    return Check("meter", True, f"{detail}; {unseen}")


def check_usage(config: Config) -> Check:
    if "slurm" not in config.agent.usage_from:
        return Check("usage", True, "ConsumedEnergy isn't read (agent.usage_from)")
    plugin, every = _slurm_setting("AcctGatherEnergyType"), _slurm_setting("AcctGatherNodeFreq")
    if plugin in ("", "acct_gather_energy/none") or every.split(" ")[0] in ("", "0"):
        remedy = 'set AcctGatherEnergyType and AcctGatherNodeFreq in slurm.conf, or drop "slurm" from agent.usage_from'
        return Check("usage", False, f"AcctGatherEnergyType {_is(plugin)}, AcctGatherNodeFreq {_is(every)}", remedy)
    shown = [line.split() for line in _output("scontrol", "show", "partition", "--oneliner").splitlines()]
    facts = [dict(word.split("=", 1) for word in words if "=" in word) for words in shown]
    ours = {part.name for part in config.partition}
    shared = [
        part["PartitionName"]
        for part in facts
        if part["PartitionName"] in ours and part.get("OverSubscribe", "").startswith(("YES", "FORCE"))
    ]
    if shared:
        remedy = (
            'drop "slurm" from agent.usage_from: jobs that share CPUs can\'t be told from jobs alone on their nodes'
        )
        return Check("usage", False, f"OverSubscribe is YES or FORCE on {', '.join(shared)}", remedy)
    return Check("usage", True, f"{plugin} every {every}")


def check_priority(_: Config) -> Check:
    plugin, foreign = _slurm_setting("PriorityType"), _slurm_setting("PrioritySiteFactorPlugin")
    if plugin != "priority/multifactor":
        return Check("priority", False, f"PriorityType is {plugin}", "set PriorityType=priority/multifactor")
    if foreign not in ("", "site_factor/none"):
        return Check("priority", False, f"{foreign} sets site factors too", "unset PrioritySiteFactorPlugin")
    return Check("priority", True, plugin)


def check_tres(_: Config) -> Check:
    tracked = _slurm_setting("AccountingStorageTRES").split(",")
    remedy = "add gres/gpu to AccountingStorageTRES: without it Slurm shows neither free GPUs nor what jobs asked for"
    return Check("tres", "gres/gpu" in tracked, "AccountingStorageTRES: " + ",".join(tracked), remedy)


def check_partitions(config: Config) -> Check:
    remedy = "list the GPU partitions as [[partition]] in the configuration, spelled as in slurm.conf"
    _slurm_setting("SLURM_VERSION")  # where slurmctld is away, sinfo would wait as long again
    known = set(_output("sinfo", "-h", "-o", "%R").split())
    ours = [part.name for part in config.partition]
    missing = [name for name in ours if name not in known]
    if not ours or missing:
        detail = f"Slurm has no partition {', '.join(missing)}" if missing else "no [[partition]] is configured"
        return Check("partitions", False, detail, remedy)
    return Check("partitions", True, ", ".join(ours))


def check_operator(config: Config) -> Check:
    user = config.daemon.agent_user
    listed = _output("sacctmgr", "-n", "-P", "show", "user", user, "format=user,adminlevel").strip()
    level = listed.partition("|")[2] or "no user of that name"
    remedy = (
        f"sacctmgr add user {user} account=ACCOUNT adminlevel=operator (or: modify user {user} set adminlevel=operator)"
    )
    return Check("operator", level in ("Operator", "Administrator"), f"{user}: {level}", remedy)


def check_spool(config: Config) -> Check:
    spool = config.paths.spool
    remedy = "enable run-slurmcast-spool.mount and run systemd-tmpfiles --create slurmcast.conf"
    try:
        info = spool.stat()
    except OSError as error:
        return Check("spool", False, f"{spool}: {error.strerror}", remedy)
    owner, group = pwd.getpwuid(info.st_uid).pw_name, grp.getgrgid(info.st_gid).gr_name
    writer = re.sub(r"\(.*", "", _slurm_setting("SlurmUser"))
    if owner != writer:
        return Check("spool", False, f"{spool} belongs to {owner}, slurmctld runs as {writer}", remedy)
    if stat.S_IMODE(info.st_mode) & 0o007:
        return Check("spool", False, f"{spool} is open to everybody (mode {stat.S_IMODE(info.st_mode):o})", remedy)
    if not os.path.ismount(spool):
        return Check("spool", False, f"{spool} is no file system of its own and could fill /run", remedy)
    space = os.statvfs(spool)
    free = space.f_bavail / max(space.f_blocks, 1)
    if free < 0.1 or (space.f_files and space.f_favail < 100):
        return Check("spool", False, f"{spool} has {free:.0%} left", "is slurmcastd running and reading it?")
    return Check("spool", True, f"{spool}: {owner}:{group}, {free:.0%} free")


def check_state(config: Config) -> Check:
    """What a command left as another user, root for example, stops the folder's owner."""
    folders = [folder for folder in (config.paths.state_dir, config.paths.agent_state_dir) if folder.is_dir()]
    for folder in folders:
        owner, found = name_of(folder.stat().st_uid), list(strangers(folder))
        if found:
            path, user = found[0]
            more = f", and {len(found) - 1} more aren't {owner}'s" if len(found) > 1 else ""
            detail = f"{path} belongs to {user}, not to {owner}{more}"
            return Check("state", False, detail, f"chown -Rh {owner}: {folder}; run commands as {owner}, not as {user}")
    where = ", ".join(f"{folder}: {name_of(folder.stat().st_uid)}" for folder in folders)
    return Check("state", True, where or "no state folder on this host")


def check_lease(config: Config) -> Check:
    remedy = "start slurmcast-agent; without a fresh lease jobs get no grace and nothing is changed"
    try:
        mode, until, grace = config.paths.lease.read_text().split()
        left = int(until) - time.time()
    except OSError as error:
        return Check("lease", False, f"{config.paths.lease}: {error.strerror}", remedy)
    except ValueError:
        return Check("lease", False, f"{config.paths.lease} is no lease", remedy)
    if left < 0:
        return Check("lease", False, f"ran out {-left:.0f} s ago", remedy)
    folder = config.paths.lease.parent
    if not os.statvfs(folder).f_bavail:
        full = f"good for {left:.0f} s, but {folder} is full: the agent can't renew it"
        return Check("lease", False, full, f"make room there: df {folder}")
    return Check("lease", True, f"mode {mode}, grace {grace} s, good for {left:.0f} s")


def check_daemon(config: Config) -> Check:
    try:
        health = Client(config).request("GET", "/v1/health")
    except ClientError as error:
        return Check("daemon", False, str(error), "start slurmcastd")
    detail = f"version {health['version']}, {health['submissions']} submissions in the store"
    if past := health["past_waiting"]:
        detail += f"; {past} imported scripts are still to be encoded: train when that is done"
    return Check("daemon", True, detail)


def check_encoder(config: Config) -> Check:
    try:
        health = Client(config).request("GET", "/v1/health")
    except ClientError as error:
        return Check("encoder", False, str(error), "start slurmcastd")
    encoder = health.get("encoder")
    if trouble := health.get("encoder_trouble"):
        return Check("encoder", False, trouble, "estimates do without the code until then; nothing is lost")
    remedy = f"{install('encoder')}; slurmcastd's log says what is wrong with the weights"
    return Check("encoder", bool(encoder), str(encoder or "none: estimates come from the prior alone"), remedy)


def check_model(config: Config) -> Check:
    try:
        model = Client(config).request("GET", "/v1/health").get("model")
    except ClientError as error:
        return Check("model", False, str(error), "start slurmcastd")
    untrained = "none trained yet (slurmcast train, once jobs have finished): estimates come from history and the prior"
    return Check("model", True, str(model or untrained))


def check_late(config: Config) -> Check:
    """Whether ``lookahead`` has become EASY."""
    from slurmcast.policy.lookahead import warning  # numpy

    if config.agent.policy != "lookahead":
        return Check("late", True, f"agent.policy is {config.agent.policy}: only lookahead has a longest wait")
    try:
        jobs = Client(config).request("GET", "/v1/queue")["jobs"]
    except ClientError as error:
        return Check("late", False, str(error), "start slurmcastd")
    told = warning([job["submit_time"] for job in jobs], time.time(), config.agent.longest_wait_h * HOUR_S)
    remedy = "set agent.longest_wait_h well above the site's usual waits (docs/policies.md)"
    return Check(
        "late", told is None, told or "most pending jobs have waited for less than agent.longest_wait_h", remedy
    )


CHECKS: tuple[Callable[[Config], Check], ...] = (
    check_munge,
    check_slurmctld,
    check_pyslurm,
    check_hook,
    check_capture,
    check_meter,
    check_usage,
    check_priority,
    check_tres,
    check_partitions,
    check_operator,
    check_spool,
    check_state,
    check_lease,
    check_daemon,
    check_encoder,
    check_model,
    check_late,
)


def examine(config: Config) -> list[Check]:
    """All checks, in the order in which a fault in one explains the next."""
    _answer.cache_clear()
    found = []
    for check in CHECKS:
        try:
            found.append(check(config))
        except _Unanswered as error:
            name = check.__name__.removeprefix("check_")
            found.append(Check(name, False, str(error), "run the doctor where Slurm's commands reach slurmctld"))
    return found
