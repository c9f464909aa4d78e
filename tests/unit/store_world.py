"""Jobs in a store; and a site's state folder with a store and vectors in the cache, where jobs of a made-up world ended
one after the other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from slurmcast.config import Config, EncoderConfig, PartitionConfig, Paths
from slurmcast.encoder.cache import VectorCache
from slurmcast.model import Estimate, GpuRequest, Job, Outcome, Reading, Submission
from slurmcast.probe import Example, Registry
from slurmcast.store.store import NewSubmission, Store
from tests.unit.probe_world import PARTITIONS, World, known_scripts

BEGAN = 1_700_000_000
LIMIT_S = 3600


def site(folder: Path) -> Config:
    """The configuration of a site whose state is in ``folder``."""
    partitions = tuple(PartitionConfig(name, gpu_type) for name, gpu_type in PARTITIONS.items())
    return Config("test", Paths(folder, folder, folder), encoder=EncoderConfig(), partition=partitions)


def settings(config: Config) -> Path:
    """The configuration file of a :func:`site`."""
    folder = config.paths.state_dir
    lines = [f'cluster = "{config.cluster}"', "[paths]", *(f'{n} = "{folder}"' for n in ("run_dir", "state_dir"))]
    for part in config.partition:
        lines += ["[[partition]]", f'name = "{part.name}"', f'gpu_type = "{part.gpu_type}"']
    path = folder / "slurmcast.toml"
    path.write_text("\n".join(lines))
    return path


def jobs(count: int, seed: int = 0, both: float = 0.2) -> list[Example]:
    """Finished jobs of a world's scripts, at most ``count``, in the order in which they ended."""
    world = World(seed)
    return world.history(count, known_scripts(world), both)[:count]


def submitted(
    store: Store,
    job: Job,
    reading: Reading,
    estimates: Sequence[Estimate] = (),
    script: bytes = b"#!/bin/bash\n",
    text_key: str = "text",
    named: tuple[str, ...] = (),
    keep_script: bool = False,
) -> int:
    """Let ``job`` be seen, and its submission be known; the submission."""
    submission = Submission(job.uid, job.user, job.name, job.submit_time, script, len(script))
    store.see([job])
    made = store.add(NewSubmission(submission, reading, text_key, named, keep_script=keep_script), estimates)
    store.claim(job, made)
    return made


def fill(
    config: Config,
    examples: Sequence[Example],
    first: int = 0,
    keep_scripts: bool = False,
    first_uid: int = 1000,
    promised: Sequence[Estimate] = (),
) -> None:
    """Let ``examples`` run and end, a minute apart; ``first``: how many ran before. Each script is one user's, with a
    uid from ``first_uid`` up. ``promised``: what the model in use expected of each, if anything."""
    store = Store(config.paths.store, config.cluster)
    cache = VectorCache(config.paths.state_dir / "embeddings.db")
    for number, example in enumerate(examples, first + 1):
        script = hashlib.sha256(example.vector.tobytes()).hexdigest()
        uid, at = first_uid + int(script[:4], 16), BEGAN + 60 * number
        cache.put({script: example.vector})
        key = hashlib.sha256(f"{example.key} {script}".encode()).hexdigest()
        limit = {"time_limit_s": float(LIMIT_S)}
        reading = Reading(key, "", {**example.numbers, **limit}, GpuRequest(per_job=1), example.gpus, (), LIMIT_S)
        job = Job(number, f"u{uid}", uid, f"job-{script[:6]}", "PENDING", "", (example.partition,), at)
        made = submitted(store, job, reading, (), script.encode(), script, keep_script=keep_scripts)
        if promised:
            store.set_estimates(made, [promised[number - first - 1]], Registry(config.paths.models).current())
            store.promise_started([replace(job, start_time=at)])
        outcome = Outcome(number, at, example.partition, example.gpu_type, example.gpus, "COMPLETED", at, at + 1, 0.0)
        store.add_outcomes([replace(outcome, elapsed_s=example.time_s, energy_kwh=example.energy_kwh)])
    store.close()
    cache.close()
