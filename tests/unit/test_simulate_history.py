"""A site's own history as work to replay: from the store, and from what sacct printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from slurmcast.cli import main
from slurmcast.config import Config, PartitionConfig, Paths
from slurmcast.model import (
    Decision,
    Estimate,
    GpuRequest,
    Interval,
    Job,
    May,
    Outcome,
    Reading,
    Source,
    Verdict,
)
from slurmcast.policy.value import ValueRule
from slurmcast.probe import gpus
from slurmcast.simulate.engine import run, verify
from slurmcast.simulate.executors import skip
from slurmcast.simulate.replay import history, sacct
from slurmcast.simulate.replay.history import Past
from slurmcast.simulate.replay.trace import Pools, TraceError, UnknownPool, pools
from slurmcast.store.store import Store
from tests.unit.store_world import submitted

BEGAN = 1_700_000_000
PARTITIONS = {"fast": "a100", "slow": "v100"}


def estimate(partition: str, time_s: float, energy_kwh: float | None = None, count: int = 2) -> Estimate:
    energy = None if energy_kwh is None else Interval(energy_kwh / 2, energy_kwh, energy_kwh * 2)
    return Estimate(partition, count, Interval(time_s / 2, time_s, time_s * 2), energy, Source.PROBE)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """A site with a store of four jobs, one of which has no GPUs."""
    parts = tuple(PartitionConfig(name, gpu_type, idle_power_w=40.0) for name, gpu_type in PARTITIONS.items())
    found = Config("test", Paths(tmp_path, tmp_path, tmp_path), partition=parts)
    store = Store(found.paths.store, found.cluster)
    both = [estimate("fast", 100, 0.02), estimate("slow", 300, 0.03)]
    move = tuple(Verdict(name, May.MOVE, "") for name in PARTITIONS)
    stay = (Verdict("slow", May.ORDER_ONLY, ""),)
    for estimates, verdicts, named, outcome in (
        (both, move, (), Outcome(1, BEGAN, "slow", "v100", 2, "COMPLETED", BEGAN + 5, BEGAN + 605, 600.0, 0.06)),
        ([], (), ("fast",), Outcome(2, BEGAN + 10, "fast", "a100", 1, "FAILED", BEGAN + 10, BEGAN + 60, 50.0)),
        (both, stay, (), Outcome(3, BEGAN + 20, "slow", "v100", 4, "TIMEOUT", BEGAN + 30, BEGAN + 130, 100.0, 0.1)),
        ([], (), (), Outcome(4, BEGAN + 30, "fast", "", 0, "COMPLETED", BEGAN + 30, BEGAN + 40, 10.0)),
    ):
        _job(store, estimates, verdicts, named, outcome)
    store.add_outcomes([Outcome(5, BEGAN + 40, "fast", "a100", 1, "COMPLETED", BEGAN + 40, BEGAN + 90, 50.0)])
    store.close()
    return found


def _job(
    store: Store, estimates: Sequence[Estimate], verdicts: tuple[Verdict, ...], named: tuple[str, ...], outcome: Outcome
) -> None:
    at, number = outcome.submit_time, outcome.job_id
    reading = Reading(str(number), "", {}, GpuRequest(per_job=outcome.gpus), outcome.gpus, (), 3600)
    job = Job(number, "ann", 1000, "job", "PENDING", "", (outcome.partition,), at)
    submitted(store, job, reading, estimates, named=named)
    if verdicts:
        store.decide([Decision(number, at, at + 1.0, outcome.partition, "", verdicts=verdicts)])
    store.add_outcomes([outcome])


def test_the_store_becomes_work(config: Config) -> None:
    past = history.from_store(config)
    found = history.trace(past, history.site(past, config))
    jobs = found.workload
    assert found.cluster.types == ("fast", "slow")
    assert found.cluster.gpus.tolist() == [2, 6]  # as many as were in use at once
    assert found.cluster.idle_power_w.tolist() == [40, 40]
    assert jobs.submit_s.tolist() == [0, 10, 20, 40]
    assert jobs.user == ("ann", "ann", "ann", "")
    assert jobs.limit_s.tolist() == [3600, 3600, 3600, np.inf]
    # The first may move; the second's user named its partition; the third stays by the agent's verdict; of the last
    # nothing is known.
    assert jobs.may.tolist() == [[True, True], [True, False], [False, True], [True, True]]
    assert jobs.time_s[0].tolist() == pytest.approx([200, 600])  # the estimates' ratio is 3
    ratio = gpus.ratio("a100", "v100")
    assert ratio is not None and jobs.time_s[3].tolist() == pytest.approx([50, 50 * np.exp(ratio.log)])
    assert jobs.energy_kwh[0].tolist() == pytest.approx([0.04, 0.06])
    assert np.isnan(jobs.energy_kwh[[1, 3]]).all() and jobs.energy_kwh[2, 1] == pytest.approx(0.1)
    assert found.predicted
    assert jobs.predicted_s[0].tolist() == [100, 300] and jobs.high_s[0].tolist() == [200, 600]
    assert np.isnan(jobs.predicted_s[[1, 3]]).all()
    assert found.notes[:3] == (
        "4 runs, 2 of which could have been elsewhere; 2 have estimates",
        "times elsewhere: 1 by the jobs' estimates, 1 by published speed ratios",
        "energy: 2 runs measured, 2 unknown (--fill-energy takes the mean power of the GPU type)",
    )


def test_what_really_happened_is_a_schedule(config: Config) -> None:
    past = history.from_store(config)
    found = history.trace(past, history.site(past, config))
    assert found.schedule is not None
    assert found.schedule.start_s.tolist() == [5, 10, 30, 40]
    assert found.schedule.type.tolist() == [1, 0, 1, 0]
    verify(found.workload, found.cluster, found.schedule)
    verify(found.workload, found.cluster, run(found.workload, found.cluster, ValueRule(0.0), skip))


def test_energy_may_be_filled_by_mean_power(config: Config) -> None:
    past = history.from_store(config)
    jobs = history.trace(past, history.site(past, config), fill_energy=True).workload
    card = gpus.find("a100")
    assert card is not None and jobs.energy_kwh[1, 0] == pytest.approx(50 * card.power_w / 3.6e6)
    assert jobs.energy_kwh[0].tolist() == pytest.approx([0.04, 0.06])  # measured ones stay


def test_jobs_of_other_times_and_partitions_are_left_out(config: Config) -> None:
    assert [run.submit_s - BEGAN for run in history.from_store(config, BEGAN + 10, BEGAN + 40)] == [10, 20]
    past = history.from_store(config)
    found = history.trace(past, history.site(past, config, {"slow": 3}))
    assert len(found.workload) == 1
    assert "3 jobs left out: their partition isn't among --gpus, or is too small for them" in found.notes
    with pytest.raises(TraceError, match="no finished run on GPUs"):
        history.trace(past, history.site(past, config, {"h100": 3}))
    with pytest.raises(UnknownPool, match=r"other is neither a partition \(.*fast, .*slow\) nor a known GPU type"):
        history.site(past, config, {"slow": 3, "other": 3})


def test_no_store_is_made_where_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"store.db: no such file; run this where slurmcastd runs"):
        history.from_store(Config("test", Paths(tmp_path, tmp_path, tmp_path)))
    assert not list(tmp_path.iterdir())


def test_energies_are_of_the_same_jobs_wherever_they_run() -> None:
    known = Past(0, 0, 60, "fast", "a100", 1, energy_kwh=0.1)
    found = history.trace([known], Pools({"fast": 1, "odd": 1}, {"fast": "a100", "odd": "xpu"}))
    assert np.isnan(found.workload.energy_kwh).all()  # nobody knows what the job would use on the other type
    stays = replace(known, allowed=frozenset())
    found = history.trace([stays], Pools({"fast": 1, "odd": 1}, {"fast": "a100", "odd": "xpu"}))
    assert found.workload.energy_kwh[0, 0] == pytest.approx(0.1)


def test_more_gpus_in_use_than_there_are_is_told() -> None:
    beside = [Past(0, 0, 60, "fast", "a100", 1), Past(0, 30, 60, "fast", "a100", 1)]
    for count, told in ((2, False), (1, True)):
        notes = history.trace(beside, Pools({"fast": count, "idle": 1}, {"fast": "a100", "idle": "a100"})).notes
        said = "fast: 2 GPUs were in use at once, more than the 1 that it is said to have"
        assert (said in notes) is told and not any(note.startswith("idle") for note in notes)


HEAD = "JobID|User|Partition|Submit|Eligible|Start|Elapsed|Timelimit|State|AllocTRES"
DAY = "2026-11-01T10:"
ROWS = (
    f"7|ann|fast|{DAY}00:00|{DAY}00:30|{DAY}01:00|00:10:00|1-00:00:00|FAILED|gres/gpu:a100=2,gres/gpu=2",
    "7.batch||||||00:10:00||FAILED|gres/gpu=2",
    f"8|bob|slow|{DAY}00:10|{DAY}00:10|{DAY}00:20|1-00:00:05|UNLIMITED|COMPLETED|cpu=4,gres/gpu=4",
    f"9|bob|cpu|{DAY}00:10|{DAY}00:10|{DAY}00:20|00:00:05|01:00:00|COMPLETED|cpu=4",
    f"10|bob|fast|{DAY}00:10|{DAY}00:10|Unknown|00:00:00|01:00:00|CANCELLED by 0|",
    f"11|bob|fast|{DAY}00:10|{DAY}00:10|{DAY}00:20|00:00:05|01:00:00|RUNNING|gres/gpu=1",
)


def printed(tmp_path: Path, *rows: str, head: str = HEAD) -> Path:
    path = tmp_path / "sacct.txt"
    path.write_text("\n".join([head, *rows]) + "\n")
    return path


def test_sacct_lines_become_runs(tmp_path: Path) -> None:
    first, second = sacct.read(printed(tmp_path, *ROWS))
    assert (first.start_s - first.submit_s, first.run_s, first.limit_s) == (30, 600, 86400)
    assert (first.partition, first.gpu_type, first.gpus, first.user) == ("fast", "a100", 2, "ann")
    assert (second.start_s - second.submit_s, second.run_s, second.limit_s) == (10, 86405, np.inf)
    assert (second.gpu_type, second.gpus, second.allowed, np.isnan(second.energy_kwh)) == ("slow", 4, None, True)


@pytest.mark.parametrize(
    ("head", "row", "message"),
    [
        (HEAD.replace("AllocTRES", "TRES"), ROWS[0], "sacct.txt:1: no column AllocTRES; made by: sacct -aXP"),
        (HEAD, ROWS[0].replace("00:10:00", "ten"), r"sacct.txt:2: Elapsed = 'ten'"),
        (HEAD, ROWS[0].replace("|2026-11-01T10:01:00", "|soon"), r"sacct.txt:2: Start = 'soon'"),
        (HEAD, ROWS[0] + "|", r"sacct.txt:2: not as many fields"),
        (HEAD, "7|ann", r"sacct.txt:2: not as many fields"),
        (HEAD, ROWS[0].replace("00:10:00", f"{400 * '9'}-00:10:00"), r"sacct.txt:2: Elapsed = '999"),
        (HEAD, ROWS[0].replace("gpu=2", f"gpu={30 * '9'}"), r"sacct.txt:2: AllocTRES = .*: must have at most 1000000"),
        (HEAD, ROWS[0].replace("|2026-11-01T10:01:00", f"|{400 * '9'}"), r"sacct.txt:2: Start = '999"),
        (HEAD, ROWS[0].replace("ann", 200_000 * "a"), r"sacct.txt: after line 1: field larger than field limit"),
    ],
)
def test_broken_sacct_output_is_refused(tmp_path: Path, head: str, row: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        sacct.read(printed(tmp_path, row, head=head))


def test_a_byte_order_mark_is_no_part_of_a_column(tmp_path: Path) -> None:
    path = printed(tmp_path, *ROWS)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(sacct.read(path)) == 2


def test_runs_that_began_before_their_submission_are_left_out() -> None:
    right, wrong = Past(100, 110, 60, "fast", "a100", 1), Past(100, 90, 60, "fast", "a100", 1)
    found = history.trace([right, wrong], Pools({"fast": 1}, {"fast": "a100"}))
    assert len(found.workload) == 1 and "1 jobs left out: they began before they were submitted" in found.notes


def test_times_as_unix_seconds_are_read_too(tmp_path: Path) -> None:
    (found,) = sacct.read(printed(tmp_path, "1|a|p|100|100|150|00:01|10:00|COMPLETED|gres/gpu=1"))
    assert (found.submit_s, found.start_s, found.run_s, found.limit_s) == (100, 150, 1, 600)


def test_the_command_replays_the_store(config: Config, tmp_path: Path) -> None:
    path = tmp_path / "slurmcast.toml"
    path.write_text(
        f'cluster = "test"\n[paths]\nstate_dir = "{tmp_path}"\n'
        + "".join(f'[[partition]]\nname = "{name}"\ngpu_type = "{gpu}"\n' for name, gpu in PARTITIONS.items())
    )
    arguments = ["--config", str(path), "simulate", "replay", "history", "--policies", "simple,value", "--json"]
    done = CliRunner().invoke(main, [*arguments, "--since", "2023-11-01", "--until", "2023-12-01"])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert [row["policy"] for row in answer["results"]] == ["recorded", "simple", "value"]
    assert answer["results"][0]["wait_s"] == 15 and answer["predictions"] == "as they were made"
    assert [row["energy_unknown"] for row in answer["results"]] == [2, 2, 2]
    assert answer["notes"][-1].startswith("GPUs: the most that were in use at once")
    noisy = CliRunner().invoke(main, [*arguments, "--since", "2023-11-01", "--noise", "0.1"])
    assert "10% error" in json.loads(noisy.stdout)["predictions"]
    named = CliRunner().invoke(main, [*arguments, "--since", "2023-11-01", "--gpus", "fast=2,nope=3"])
    assert named.exit_code == 2 and "nope is neither a partition" in named.output
    turned = CliRunner().invoke(main, [*arguments, "--since", "1d", "--until", "2023-11-01"])
    assert turned.exit_code == 2 and "--since must be before --until" in turned.output
    late = CliRunner().invoke(main, arguments)
    assert late.exit_code == 1 and "no finished run on GPUs" in late.output


def test_the_command_replays_what_sacct_printed(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main, ["simulate", "replay", "history", "--sacct", str(printed(tmp_path, *ROWS)), "--gpus", "fast=2,slow=4"]
    )
    assert done.exit_code == 0, done.output
    assert "2 runs, 1 of which could have been elsewhere; 0 have estimates" in done.stdout.replace("\n", " ")
    assert "unknown" in done.stdout.splitlines()[1]  # no energy, which isn't 0 kWh
    assert pools("fast=2,slow=4").counts == {"fast": 2, "slow": 4}
