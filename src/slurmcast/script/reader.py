"""From a submission to what is known of its work: the script reader's front door."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import dropwhile

from slurmcast.model import Reading, Submission
from slurmcast.script import directives, resources
from slurmcast.script.gather import Gathered, gather
from slurmcast.script.sources import SourceReader, no_sources

__all__ = ["no_sources", "read"]

OPT_OUT = "slurmcast:off"
OPT_IN = "slurmcast:move"
MAX_SCRIPT = 4 * 1024 * 1024
"""Slurm's own default limit (max_script_size); what lies beyond is not read."""
ARGUMENTS, ENVIRONMENT = "# arguments: ", "# environment: "
"""What the lines that the encoder gets before the script begin with."""
FILE = "# file: "
"""What the line before each source begins with. No other comment is left in."""
TASK = "SLURM_ARRAY_"
"""What the names of the variables begin with that tell the tasks of an array apart. Tasks that look at none of them all
do the work of the script alone."""
MAX_LINE = 1000
MAX_TEXT = 64 * 1024
"""Characters that the encoder gets; the numbers are taken from all of the text."""
_NOISE = re.compile(
    r"#SBATCH\s+(?:--(?:job-name|output|error|mail-\w+|account|comment|chdir)\b|-[JoeAD]).*|#(?!!|SBATCH\b).*"
)
_BESIDE = re.compile(
    rb"^#SBATCH[ \t]+(?:--(?:time|job-name|account|qos|comment|output|error|mail-user|mail-type)(?:=|[ \t]+)\S+"
    rb"|-[tJAqoe][ \t]*\S+)[ \t]*(?:\n|\Z)",
    re.MULTILINE,
)
"""Directives that leave the work as it is, each alone in its line."""


def read(submission: Submission, sources: SourceReader = no_sources) -> Reading:
    """Read one submission. Pure but for ``sources``; never raises, whatever the script; linear in its size.

    Slurm's own fields (``submission.request``, ``partition``) win over the script's directives; a program's arguments
    win over variables, those over settings files, those over defaults in the sources.
    """
    script = submission.script[:MAX_SCRIPT]
    said = directives.parse(script)
    asked = resources.read(submission.request, said.options, submission.array)
    text = script.removeprefix(directives.BOM).decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    found = gather(submission, text, _slurm_variables(submission, asked.numbers), sources)
    if not any(TASK in part for part in (text, *found.texts.values())):
        submission = replace(submission, array="")
        asked = replace(asked, numbers={name: n for name, n in asked.numbers.items() if name != "array_size"})
    partition = submission.partition or said.options.get("partition", "")
    comment = submission.request.get("comment", "") or said.options.get("comment", "")
    wishes = re.split(r"[\s,;]+", comment)
    return Reading(
        key=_key(submission, asked, found.texts.values()),
        text=_text(submission, text, found),
        numbers=found.numbers() | asked.numbers,
        gpus=asked.gpus,
        gpus_total=asked.gpus_total,
        partitions=tuple(name.strip() for name in partition.split(",") if name.strip()),
        time_limit_s=asked.time_limit_s,
        sources=tuple(_printable(path) for path in found.texts),
        missing_sources=tuple(_printable(f"{path}: {reason}") for path, reason in found.missing.items()),
        opted_out=OPT_OUT in wishes,
        opted_in=OPT_IN in wishes and OPT_OUT not in wishes,
    )


def _slurm_variables(submission: Submission, asked: Mapping[str, float]) -> dict[str, str]:
    """The variables that Slurm will set in the job, as far as they are known now (man sbatch, OUTPUT ENVIRONMENT)."""
    first = re.match(r"\[?(\d{1,9})", submission.array)
    named = {
        "SLURM_SUBMIT_DIR": submission.work_dir,
        "SLURM_ARRAY_TASK_ID": first[1] if first else "",
        "SLURM_JOB_NAME": submission.name,
    }
    counted = {
        "SLURM_NNODES": "nodes",
        "SLURM_JOB_NUM_NODES": "nodes",
        "SLURM_NTASKS": "tasks",
        "SLURM_NPROCS": "tasks",
        "SLURM_NTASKS_PER_NODE": "ntasks_per_node",
        "SLURM_CPUS_PER_TASK": "cpus_per_task",
        "SLURM_GPUS": "gpus",
    }
    counts = {variable: f"{asked[name]:.0f}" for variable, name in counted.items() if name in asked}
    if "gpus" in asked and asked["gpus"] % asked["nodes"] == 0:
        counts["SLURM_GPUS_ON_NODE"] = f"{asked['gpus'] / asked['nodes']:.0f}"
    return {name: value for name, value in named.items() if value} | counts


def _key(submission: Submission, asked: resources.Resources, sources: Iterable[str]) -> str:
    """sha256 over everything that decides the work, each part with its length, so that no two lists look alike.

    The request enters as it is understood, so that every release's spelling of it gives the same key. Not in it: who
    submits, the job's name, the script's path, account, QOS, comment, where the output goes, and the time limit, which
    cuts work off but doesn't make it another.
    """
    script = _BESIDE.sub(b"", submission.script)
    size = submission.script_size - len(submission.script) + len(script)
    request = {name: f"{value:g}" for name, value in asked.numbers.items() if name != "time_limit_s"}
    request |= {"type": asked.gpus.type or "", "shared": str(asked.gpus.shared)} if asked.gpus else {}
    request["features"] = submission.request.get("features", "")
    parts = [
        [script, str(size).encode()],
        [_bytes(source) for source in sources],
        [_bytes(argument) for argument in submission.argv[1:]],
        [_bytes(f"{name}={value}") for name, value in sorted(submission.environment.items())],
        [_bytes(f"{name}={value}") for name, value in sorted(request.items())],
        [_bytes(submission.array)],
    ]
    digest = hashlib.sha256(b"slurmcast-reading 2")
    for group in parts:
        digest.update(len(group).to_bytes(8, "big"))
        for part in group:
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return digest.hexdigest()


def _text(submission: Submission, script: str, found: Gathered) -> str:
    """What the encoder reads: arguments, chosen environment, script and sources, without comments and blank lines.

    At most MAX_TEXT characters; a last line says how many characters were left out.
    """
    environment = [f"{name}={value}" for name, value in sorted(submission.environment.items())]
    head = [_one_line(ARGUMENTS, submission.argv[1:])] if submission.argv[1:] else []
    head += [_one_line(ENVIRONMENT, environment)] if environment else []
    lines = [*head, *condensed(script)]
    for path, text in found.texts.items():
        lines += ["", FILE + path.rpartition("/")[2], *condensed(text)]
    whole = "\n".join(lines)
    left_out = len(whole) - MAX_TEXT
    return _printable(whole if left_out <= 0 else f"{whole[:MAX_TEXT]}\n[{left_out} characters left out]")


def program(text: str) -> str:
    """Script and sources of a :attr:`Reading.text`: all but the lines of the arguments and the environment."""
    return "\n".join(dropwhile(lambda line: line.startswith((ARGUMENTS, ENVIRONMENT)), text.split("\n")))


def _one_line(mark: str, words: Sequence[str]) -> str:
    return mark + " ".join(" ".join(words).splitlines())


def condensed(text: str) -> list[str]:
    """The lines that say something; of a line that is a payload only the beginning."""
    lines = (line.rstrip() for line in text.split("\n") if line and not line.isspace())
    kept = [line for line in lines if not _NOISE.fullmatch(line.lstrip()[:MAX_LINE])]
    return [line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]} [{len(line)} characters]" for line in kept]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _printable(text: str) -> str:
    """``text`` without what can't be encoded (bytes of file names that are no UTF-8)."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", " ")
