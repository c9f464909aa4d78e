"""From an accounting record to the submission that the hook would have seen. Pure.

The hook passes on what sbatch made of the submit line and the script's directives together; accounting has the line
(without its quotes), the script and the environment.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from slurmcast.client import ENVIRONMENT
from slurmcast.cluster.accounting import Record, variables
from slurmcast.codec import to_json
from slurmcast.model import Submission
from slurmcast.script import directives, options
from slurmcast.script.gres import option_fields
from slurmcast.script.submit_line import taken_apart

UNLIMITED = str(0xFFFFFFFF)
"""How Slurm spells a time limit that is none."""


def submission(record: Record, script: bytes, environment: bytes) -> Submission:
    """The submission behind a run with a script. ``environment``: as accounting kept it, empty where it didn't."""
    directed = directives.parse(script).options
    said, argv = taken_apart(record.submit_line, record.name, record.comment, script, directed)
    asked = {**directed, **said}
    return Submission(
        uid=record.uid,
        user=record.user,
        name=record.name,
        submit_time=record.submit_time,
        script=script,
        script_size=len(script),
        partition=asked.get("partition"),
        work_dir=record.work_dir,
        argv=argv,
        array=asked.get("array", ""),
        environment=variables(environment, ENVIRONMENT),
        request=_request(record, asked),
    )


def identity(submission: Submission) -> str:
    """sha256 over all of a submission but its time: two of the same identity are one piece of work of one user."""
    facts = {name: value for name, value in to_json(submission).items() if name not in ("script", "submit_time")}
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    digest.update(hashlib.sha256(submission.script).digest())
    return digest.hexdigest()


def _request(record: Record, asked: Mapping[str, str]) -> dict[str, str]:
    """The options as fields of the job description, under the names that the hook uses."""
    time, nodes = asked.get("time", ""), asked.get("nodes", "")
    limit_s, memory, gpus = options.time_limit_s(time), options.memory_mb, options.count(asked.get("gpus", ""))
    tasks, per_gpu = options.count(asked.get("ntasks", "")), options.count(asked.get("ntasks-per-gpu", ""))
    known = {
        "time_limit": limit_s // 60 if limit_s else UNLIMITED if time else None,
        "min_nodes": options.least_nodes(nodes),
        "max_nodes": options.count(nodes),
        "num_tasks": tasks or (gpus or 0) * (per_gpu or 0),
        "ntasks_per_node": options.count(asked.get("ntasks-per-node", "")),
        "ntasks_per_gpu": per_gpu,
        "cpus_per_task": options.count(asked.get("cpus-per-task", "")),
        "min_mem_per_node": memory(asked.get("mem", "")),
        "min_mem_per_cpu": memory(asked.get("mem-per-cpu", "")),
        "features": record.features,
        "account": record.account,
        "qos": record.qos,
        "comment": record.comment,
    }
    return {name: str(value) for name, value in known.items() if value} | option_fields(asked)
