"""From a job's record and the script that Slurm keeps to a submission, for jobs that the hook didn't see. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from slurmcast.model import Job, Submission
from slurmcast.script.directives import parse as parse_directives
from slurmcast.script.options import read_words
from slurmcast.script.submit_line import taken_apart


def submission(job: Job, script: bytes, default: Sequence[str]) -> Submission:
    """A submission as far as record and script tell it: without environment and work directory.

    ``default``: the names of Slurm's default partitions. The user counts as having named the partition where the submit
    line, the script or the record (any but the default) says so.
    """
    directed = parse_directives(script).options
    # Where the options of the line end isn't certain: look for -p all over it.
    said = read_words(job.submit_line.split()[1:])[0]
    chosen = "partition" in said or "partition" in directed or set(job.partitions) != set(default)
    return Submission(
        uid=job.uid,
        user=job.user,
        name=job.name,
        submit_time=job.submit_time,
        script=script,
        script_size=len(script),
        partition=",".join(job.partitions) if chosen else None,
        argv=taken_apart(job.submit_line, job.name, job.comment, script, directed)[1],
        request=_request(job),
    )


def _request(job: Job) -> dict[str, str]:
    """The fields of the record under the names that the hook uses."""
    gpus = job.gpus
    fields = {
        "min_nodes": str(job.nodes),
        "num_tasks": str(job.tasks),
        "cpus_per_task": str(job.cpus_per_task),
        "account": job.account,
        "qos": job.qos,
        "comment": job.comment,
        "features": job.features,
    }
    if job.time_limit_s is not None:
        fields["time_limit"] = str(job.time_limit_s // 60)
    if gpus is not None:
        kind = f":{gpus.type}" if gpus.type else ""
        for name, count in (
            ("tres_per_node", gpus.per_node),
            ("tres_per_job", gpus.per_job),
            ("tres_per_task", gpus.per_task),
            ("tres_per_socket", gpus.per_socket),
        ):
            if count is not None:
                fields[name] = f"gres/gpu{kind}:{count}"
    return {name: value for name, value in fields.items() if value}
