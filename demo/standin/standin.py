"""A stand-in for a program that runs on GPUs: takes the time, and reports the energy, that the work table gives.

Jobs of the demo start it under the names ``python``, ``torchrun``, ``accelerate`` and ``deepspeed``. Which work it is,
it knows by the folder that the job runs in; how much of it, by the arguments and environment that the table names for
that work; on which GPUs, by Slurm's own variables. It knows nothing of slurmcast, and slurmcast nothing of the table.

What each node used is left in a folder, as JSON, at the end or when Slurm ends the job at its limit: demo/meter.py
makes energy records of it.
"""

import json
import math
import os
import random
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LEFT = "/var/spool/standin"


class Ended(BaseException):
    """Slurm ends the job."""


def amount_of(work, argv, environ):
    """How many units of work were asked for."""
    return _given(work.get("seen", work["argument"]), argv, environ, work["default"])


def _given(name, argv, environ, default):
    if name.startswith("env:"):
        return float(environ.get(name[4:], default))
    if name.startswith("hydra:"):
        key = name[6:] + "="
        values = [word[len(key) :] for word in argv if word.startswith(key)]
        return float(values[-1]) if values else float(default)
    for at, word in enumerate(argv):
        if word == name and at + 1 < len(argv):
            default = argv[at + 1]
        elif word.startswith(name + "="):
            default = word[len(name) + 1 :]
    return float(default)


def seconds_of(work, gpu_type, argv, environ):
    """Seconds that the whole job takes on its GPUs of that type, without noise."""
    per_unit = work["seconds_per_unit_" + gpu_type]
    return work["startup_s"] + amount_of(work, argv, environ) * per_unit


def noise(job_id, sigma=0.03):
    """Two runs of the same job differ: log-normal, the same for every process of one job."""
    return math.exp(random.Random(job_id).gauss(0, sigma))


def leave(job_id, start, gpus, power_w):
    node = os.environ["SLURMD_NODENAME"]
    fields = {
        "job_id": job_id,
        "node": node,
        "nodes": int(os.environ.get("SLURM_JOB_NUM_NODES", "1")),
        "gpus": gpus,
        "energy_j": (time.time() - start) * gpus * power_w,
        "power_w": power_w,
    }
    name = f"{LEFT}/{job_id}-{node}-{os.getpid()}"
    with open(name + ".tmp", "w") as file:
        json.dump(fields, file)
    os.rename(name + ".tmp", f"{LEFT}/{job_id}-{node}.json")


def end(*_):
    raise Ended


def main():
    with open(HERE + "/work.json") as file:
        table = json.load(file)
    work = table[os.path.basename(os.getcwd())]
    job_id = int(os.environ["SLURM_JOB_ID"])
    gpu_type = os.environ["SLURMD_NODENAME"].rpartition("-")[0]
    signal.signal(signal.SIGTERM, end)
    start = time.time()
    try:
        time.sleep(seconds_of(work, gpu_type, sys.argv[1:], os.environ) * noise(job_id))
    except Ended:
        sys.exit(143)
    finally:
        gpus = int(os.environ["SLURM_GPUS_ON_NODE"])
        leave(job_id, start, gpus, work["power_w_" + gpu_type])


if __name__ == "__main__":
    main()
