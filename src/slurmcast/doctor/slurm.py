"""The doctor's checks of slurmctld and of what ``slurm.conf`` sets."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from slurmcast.config import Config
from slurmcast.doctor.check import Check, Unanswered, output, setting

SLURM_CONF_DIR = Path("/etc/slurm")


def check_slurmctld(_: Config) -> Check:
    version = setting("SLURM_VERSION")
    return Check("slurmctld", bool(version), f"answers, Slurm {version}")


def check_pyslurm(_: Config) -> Check:
    release = setting("SLURM_VERSION")  # first: without slurmctld pyslurm waits for minutes
    # In a process of its own: importing pyslurm without a usable slurm.conf ends the process that does it.
    code = "import pyslurm; pyslurm.Partitions.load(); print(pyslurm.__version__)"
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        raise Unanswered("pyslurm gave no answer within 60 s") from None
    remedy = "install the pyslurm built for this Slurm release; see docs/installation.md"
    if done.returncode != 0:
        lines = (done.stderr.strip() or f"the process ended with {done.returncode}").splitlines()
        return Check("pyslurm", False, lines[-1], remedy)
    return Check("pyslurm", True, f"{done.stdout.strip()} loads partitions from Slurm {release}")


def check_hook(_: Config) -> Check:
    remedy = "set JobSubmitPlugins=lua in slurm.conf and install job_submit.lua; see docs/hook.md"
    if "lua" not in setting("JobSubmitPlugins").split(","):
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
    if "lua" not in setting("CliFilterPlugins").split(","):
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
    if (name := setting("ClusterName")) != config.cluster:
        remedy = f'set cluster = "{name}" in slurmcast.toml and restart slurmcastd; see docs/meter.md'
        return Check("meter", False, f"Slurm's ClusterName is {name}, cluster is {config.cluster}", remedy)
    # Without Alloc the prolog waits for a job's first step; the other flags that Slurm takes imply it.
    if not setting("PrologFlags"):
        return Check(
            "meter", False, "PrologFlags has no Alloc", "set PrologFlags=Alloc in slurm.conf; see docs/meter.md"
        )
    settings = output("scontrol", "show", "config")
    for name in ("Prolog", "Epilog"):
        if not re.search(rf"^{name}(\[\d+\])?\s*= (?!\(null\)|$)", settings, re.MULTILINE):
            remedy = f"set {name} to a folder with slurmcast's script in slurm.conf; see docs/meter.md"
            return Check("meter", False, f"{name} isn't set: the nodes' meters learn of no job", remedy)
    detail = f"PrologFlags={setting('PrologFlags')}, nodes: {', '.join(config.meter.nodes)}"
    unseen = "not seen from here: both folders must be on every node that runs slurmd, or Slurm drains it"
    return Check("meter", True, f"{detail}; {unseen}")


def check_usage(config: Config) -> Check:
    if "slurm" not in config.agent.usage_from:
        return Check("usage", True, "ConsumedEnergy isn't read (agent.usage_from)")
    plugin, every = setting("AcctGatherEnergyType"), setting("AcctGatherNodeFreq")
    if plugin in ("", "acct_gather_energy/none") or every.split(" ")[0] in ("", "0"):
        remedy = 'set AcctGatherEnergyType and AcctGatherNodeFreq in slurm.conf, or drop "slurm" from agent.usage_from'
        return Check("usage", False, f"AcctGatherEnergyType {_is(plugin)}, AcctGatherNodeFreq {_is(every)}", remedy)
    shown = [line.split() for line in output("scontrol", "show", "partition", "--oneliner").splitlines()]
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
    plugin, foreign = setting("PriorityType"), setting("PrioritySiteFactorPlugin")
    if plugin != "priority/multifactor":
        return Check("priority", False, f"PriorityType is {plugin}", "set PriorityType=priority/multifactor")
    if foreign not in ("", "site_factor/none"):
        return Check("priority", False, f"{foreign} sets site factors too", "unset PrioritySiteFactorPlugin")
    return Check("priority", True, plugin)


def check_tres(_: Config) -> Check:
    tracked = setting("AccountingStorageTRES").split(",")
    remedy = "add gres/gpu to AccountingStorageTRES: without it Slurm shows neither free GPUs nor what jobs asked for"
    return Check("tres", "gres/gpu" in tracked, "AccountingStorageTRES: " + ",".join(tracked), remedy)


def check_partitions(config: Config) -> Check:
    remedy = "list the GPU partitions as [[partition]] in the configuration, spelled as in slurm.conf"
    setting("SLURM_VERSION")  # where slurmctld is away, sinfo would wait as long again
    known = set(output("sinfo", "-h", "-o", "%R").split())
    ours = [part.name for part in config.partition]
    missing = [name for name in ours if name not in known]
    if not ours or missing:
        detail = f"Slurm has no partition {', '.join(missing)}" if missing else "no [[partition]] is configured"
        return Check("partitions", False, detail, remedy)
    return Check("partitions", True, ", ".join(ours))


def check_operator(config: Config) -> Check:
    user = config.daemon.agent_user
    listed = output("sacctmgr", "-n", "-P", "show", "user", user, "format=user,adminlevel").strip()
    level = listed.partition("|")[2] or "no user of that name"
    remedy = (
        f"sacctmgr add user {user} account=ACCOUNT adminlevel=operator (or: modify user {user} set adminlevel=operator)"
    )
    return Check("operator", level in ("Operator", "Administrator"), f"{user}: {level}", remedy)


def _is(value: str) -> str:
    return f"is {value}" if value else "isn't set"
