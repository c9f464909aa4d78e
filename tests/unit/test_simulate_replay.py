"""Recorded work as workloads, and what ``slurmcast simulate replay`` says of it."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from slurmcast.cli import main
from slurmcast.probe import gpus
from slurmcast.simulate.replay import gavel, swf
from slurmcast.simulate.replay.trace import Pools, TraceError, break_even_kappa, load, on, pools, sized

HEADER = "; Version: 2.2\n; MaxProcs: 64\n\n"


def swf_line(
    submit: float = 0,
    run: float = 100,
    allocated: float = 4,
    asked: float = -1,
    limit: float = 600,
    status: int = 1,
    user: int = 7,
) -> str:
    """A line of a log; what isn't given is unknown."""
    return f"1 {submit} -1 {run} {allocated} -1 -1 {asked} {limit} -1 {status} {user} -1 -1 -1 -1 -1 -1"


def log(tmp_path: Path, *lines: str) -> swf.Log:
    path = tmp_path / "log.swf"
    path.write_text(HEADER + "\n".join(lines) + "\n")
    return swf.read(path)


@pytest.mark.parametrize("name", ["log.swf", "log.swf.gz"])
def test_swf_is_read_plain_and_compressed(tmp_path: Path, name: str) -> None:
    text = HEADER + swf_line(5, 100) + "\n" + swf_line(9, 50, limit=-1) + "\n"
    (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    found = swf.read(tmp_path / name)
    assert found.jobs.shape == (2, 18)
    assert found.field("submit time").tolist() == [5, 9]
    assert np.isnan(found.field("requested time")).tolist() == [False, True]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 2 3", r"log.swf:4: 3 fields, the Standard Workload Format has 18"),
        (swf_line() + " 5", r"log.swf:4: 19 fields"),
        (swf_line().replace(" 100 ", " soon "), r"log.swf:4: field 4 \(run time\) = 'soon': must be a number"),
        (swf_line().replace(" 600 ", " nan "), r"log.swf:4: field 9 \(requested time\) = 'nan'"),
        (swf_line().replace(" 100 ", " 1e300 "), r"log.swf:4: field 4 \(run time\) = '1e300'"),
        ("; only a comment", r"log.swf: no jobs in it"),
    ],
)
def test_broken_swf_is_refused_with_line_and_field(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        log(tmp_path, line)


def test_a_log_of_which_nothing_ran_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no job of the log ever ran"):
        swf.trace(log(tmp_path, swf_line().replace(" 100 ", " 0 ")), pools("a100=4"))


def test_a_byte_order_mark_is_no_part_of_a_record(tmp_path: Path) -> None:
    (tmp_path / "log.swf").write_text(swf_line() + "\n", encoding="utf-8-sig")
    assert len(swf.read(tmp_path / "log.swf").jobs) == 1
    trace, table = gavel_files(tmp_path, gavel_line())
    for path in (trace, table):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert gavel.read(trace)[0].job_type == "A" and "v100" in gavel.speeds(table)


def test_a_cut_gz_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.swf.gz"
    path.write_bytes(gzip.compress((swf_line() + "\n").encode() * 1000)[:-20])
    with pytest.raises(TraceError, match=r"log.swf.gz: "):
        swf.read(path)


def test_swf_jobs_on_gpus_of_two_types(tmp_path: Path) -> None:
    lines = [
        swf_line(30, 100, 9, limit=600),
        swf_line(10, 200, -1, asked=4, limit=-1),
        swf_line(20, 300, 65),  # 17 GPUs
        swf_line(40, 0),
        swf_line(41, -1),
        swf_line(42, 10, -1),
        swf_line(43, 10, status=3),
    ]
    found = swf.trace(log(tmp_path, *lines), pools("a100=16,v100=2"), per_gpu=4)
    jobs = found.workload
    assert jobs.submit_s.tolist() == [0, 20]  # sorted, from the first on
    assert jobs.gpus.tolist() == [[1, 1], [3, 3]]
    assert jobs.may.tolist() == [[True, True], [True, False]]
    assert jobs.limit_s.tolist() == [np.inf, 600] and jobs.user == ("7", "7")
    ratio = gpus.ratio("a100", "v100")
    assert ratio is not None and jobs.time_s == pytest.approx(np.outer([200, 100], [1, np.exp(ratio.log)]))
    card = gpus.find("a100")
    assert card is not None and jobs.energy_kwh[1, 0] == pytest.approx(3 * 100 * card.power_w / 3.6e6)
    assert [note for note in found.notes if "left out" in note] == [
        "1 jobs left out: pieces of jobs that have a line for the whole",
        "3 jobs left out: they never ran, or time, processors or submission isn't known",
        "1 jobs left out: larger than every pool of GPUs",
    ]
    assert "1 jobs without a time limit" in found.notes


def test_swf_times_may_hold_for_another_type(tmp_path: Path) -> None:
    found = swf.trace(log(tmp_path, swf_line(run=100)), pools("a100=16,v100=8"), recorded_on="v100")
    assert found.workload.time_s[0, 1] == pytest.approx(100)
    assert found.workload.time_s[0, 0] < 100
    assert not any("no published ratio" in note for note in found.notes)


def test_types_without_a_published_speed_are_named(tmp_path: Path) -> None:
    found = swf.trace(log(tmp_path, swf_line()), pools("a100=8,a10O=8,k80=8"))
    assert found.workload.time_s[0, 1] == found.workload.time_s[0, 2] > 100
    assert np.isnan(found.workload.energy_kwh).all(), "else who uses the a10O more seems to use less"
    assert "no published ratio of a10O to a100: taken to be as slow as the slowest of the others" in found.notes
    assert len(swf.trace(log(tmp_path, swf_line()), pools("a10O=8")).notes) == 1


def test_a_log_of_which_nothing_fits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no job of the log can run"):
        swf.trace(log(tmp_path, swf_line(allocated=64)), pools("a100=16"))


TABLE = {
    "k80": {"('A', 1)": {"null": 1.0, "('B', 1)": [0.5, 0.5]}, "('B', 2)": {"null": 0.0}},
    "v100": {"('A', 1)": {"null": 4.0}, "('B', 2)": {"null": 8.0}},
}
"""Steps per second; B doesn't run on the k80."""


def gavel_line(job_type: str = "A", steps: object = 400, arrival: object = 0.0, count: object = 1) -> str:
    return f"{job_type}\tpython3 train.py\t--steps\t1\t{steps}\t{arrival}\t{count}"


def gavel_files(tmp_path: Path, *lines: str) -> tuple[Path, Path]:
    trace, table = tmp_path / "some.trace", tmp_path / "throughputs.json"
    trace.write_text("\n".join(lines) + "\n")
    table.write_text(json.dumps(TABLE))
    return trace, table


def test_gavel_jobs_have_measured_times(tmp_path: Path) -> None:
    trace, table = gavel_files(
        tmp_path, gavel_line(arrival=10), gavel_line("B", 80, 20, 2), gavel_line("A", 5, 30, 2), gavel_line("C", 5, 40)
    )
    found = gavel.trace(gavel.read(trace), gavel.speeds(table), pools("v100=4,k80=4"), seed=1)
    jobs = found.workload
    assert jobs.submit_s.tolist() == [0, 10] and jobs.user == ()
    assert jobs.time_s[0].tolist() == [100, 400]
    assert jobs.time_s[1, 0] == 10 and jobs.may[1].tolist() == [True, False]
    longest = np.array([400, 10])
    assert (jobs.limit_s >= longest).all() and (jobs.limit_s <= longest / gavel.LEAST_SHARE).all()
    assert "2 jobs left out: their speed on that many GPUs wasn't measured" in found.notes


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("A\tpython3", r"some.trace:2: 2 fields between tabs"),
        (gavel_line(steps="many"), r"some.trace:2: field 5 \(steps\) = 'many': must be a number >= 1"),
        (gavel_line(arrival=-3), r"some.trace:2: field 6 \(arrival\) = '-3'"),
        (gavel_line(count=0), r"some.trace:2: field 7 \(GPUs\) = '0'"),
        (gavel_line(arrival="nan"), r"some.trace:2: field 6 \(arrival\) = 'nan'"),
        (gavel_line(arrival="1e300"), r"some.trace:2: field 6 \(arrival\) = '1e300'"),
    ],
)
def test_broken_traces_are_refused_with_line_and_field(tmp_path: Path, line: str, message: str) -> None:
    trace, _ = gavel_files(tmp_path, gavel_line(), line)
    with pytest.raises(TraceError, match=message):
        gavel.read(trace)


@pytest.mark.parametrize("text", ["{", "[]", 100_000 * "[", '{"k80": {"A": {"null": 1}}}', '{"k80": {"(1, 2)": {}}}'])
def test_another_table_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(TraceError, match=r"other.json: not a table of Gavel's throughputs"):
        gavel.speeds(path)


def test_users_ask_for_up_to_twenty_times_what_they_need() -> None:
    shares = 1000 / gavel.limits(np.full(20_000, 1000.0), seed=0)
    assert shares.min() >= gavel.LEAST_SHARE and shares.max() <= 1
    assert np.quantile(shares, [0.25, 0.5, 0.75]) == pytest.approx([0.2875, 0.525, 0.7625], abs=0.01)


@pytest.mark.parametrize(
    "text",
    ["", "a100", "a100=0", "a100=x", "=4", "a100=1,a100=2", "a100=1,", "a100=1000001", "a100=²", "a100=" + 5000 * "1"],
)
def test_impossible_clusters_are_refused(text: str) -> None:
    with pytest.raises(TraceError, match="must be TYPE=N"):
        pools(text)


def test_a_cluster_is_sized_for_a_load(tmp_path: Path) -> None:
    lines = [gavel_line(steps=4000, arrival=10 * number) for number in range(101)] + [gavel_line("B", 1, 1000, 2)]
    trace, table = gavel_files(tmp_path, *lines)
    jobs = gavel.trace(gavel.read(trace), gavel.speeds(table), pools("v100=9999,k80=9999"), seed=1).workload
    found = sized(Pools({"v100": 4, "k80": 2}, {"v100": "v100", "k80": "k80"}), jobs, 0.5)
    counts = np.array(list(found.counts.values()), float)
    # A job of 1000 s on the v100 and 4000 s on the k80 every 10 s: 180 and 90 GPUs do 0.2025 of them a second.
    assert counts.tolist() == [180, 90]
    assert load(jobs, counts) == pytest.approx(0.5, abs=0.01)
    few = sized(Pools({"v100": 1, "k80": 1}, {"v100": "v100", "k80": "k80"}), jobs.take(np.array([0, 101])), 1e3)
    assert list(few.counts.values()) == [2, 1]  # as many as the widest job needs


def test_a_load_that_the_widest_job_forbids_is_told(tmp_path: Path) -> None:
    jobs = log(tmp_path, *(swf_line(submit=10 * number, run=40, allocated=1) for number in range(101)))
    wide = log(tmp_path, *(swf_line(submit=10 * number, run=40, allocated=1) for number in range(100)), swf_line(1000))
    met = on(pools("a100=1"), 2, lambda chosen: swf.trace(jobs, chosen))
    assert met.cluster.gpus.tolist() == [2] and len(met.notes) == 1
    missed = on(pools("a100=1"), 2, lambda chosen: swf.trace(wide, chosen))
    assert missed.cluster.gpus.tolist() == [4]
    assert missed.notes[-1].startswith("load 1.1 and not 2: a type has as many GPUs as its largest job needs")


def test_the_command_compares_policies(tmp_path: Path) -> None:
    lines = [gavel_line(steps=4000 - 100 * number, arrival=number) for number in range(30)]
    trace, table = gavel_files(tmp_path, *lines)
    arguments = ["simulate", "replay", "gavel", str(trace), "--throughputs", str(table), "--gpus", "v100=2,k80=2"]
    chosen = ["--policies", "simple,value", "--kappa", "0", "--kappa", "1e-3", "--noise", "0"]
    done = CliRunner().invoke(main, [*arguments, *chosen, "--json"])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert [(row["policy"], row["kappa"]) for row in answer["results"]] == [
        ("simple", None),
        ("value", 0.0),
        ("value", 1e-3),
    ]
    assert answer["jobs"] == 30 and answer["gpus"] == {"v100": 2, "k80": 2}
    assert all(row["energy_unknown"] == 0 for row in answer["results"])
    assert answer["results"][1]["wait_s"] < answer["results"][0]["wait_s"]
    plot = tmp_path / "runs.svg"
    drawn = CliRunner().invoke(main, [*arguments, *chosen, "--plot", str(plot)])
    assert drawn.exit_code == 0 and "value, kappa 0.001" in plot.read_text()
    table_for_people = CliRunner().invoke(main, [*arguments, "--unknown", "0.1"])
    assert table_for_people.exit_code == 0 and "30% error, none for 10% of the jobs" in table_for_people.stdout
    assert "p50 to p99: bounded slowdown" in table_for_people.stdout


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--gpus", "v100=2,t4=2"], 1, "no throughputs of t4; there are: k80, v100"),
        (["--gpus", "v100"], 2, "must be TYPE=N"),
        (["--gpus", "v100=2", "--policies", "best"], 2, "there is no policy 'best'"),
        (["--gpus", "v100=2", "--executor", "best"], 2, "there is no executor 'best'"),
        (["--gpus", "v100=2", "--plot", "runs.doc"], 1, "runs.doc: the name of a plot must end with"),
        (["--gpus", "v100=2", "--load", "0.9"], 1, "--load needs jobs that were submitted at different times"),
    ],
)
def test_the_command_says_what_is_wrong(tmp_path: Path, options: list[str], code: int, message: str) -> None:
    trace, table = gavel_files(tmp_path, gavel_line())
    done = CliRunner().invoke(main, ["simulate", "replay", "gavel", str(trace), "--throughputs", str(table), *options])
    assert done.exit_code == code and message in done.output and "Traceback" not in done.output


def test_a_load_that_takes_an_endless_cluster_is_refused(tmp_path: Path) -> None:
    trace, table = gavel_files(tmp_path, gavel_line(), gavel_line(arrival=10))
    words = ["--throughputs", str(table), "--gpus", "v100=2", "--load", "1e-9"]
    done = CliRunner().invoke(main, ["simulate", "replay", "gavel", str(trace), *words])
    assert done.exit_code == 1 and "GPUs of a type: give a larger load" in done.output


def test_time_and_energy_count_alike_with_the_break_even_kappa(tmp_path: Path) -> None:
    trace, table = gavel_files(tmp_path, *(gavel_line(steps=4 * number, arrival=number) for number in (100, 200, 300)))
    jobs = gavel.trace(gavel.read(trace), gavel.speeds(table), pools("v100=4"), seed=1).workload
    kappa = break_even_kappa(jobs)
    values = 1 / (jobs.gpus * jobs.time_s) - kappa * jobs.energy_kwh
    assert values[1, 0] == pytest.approx(0, abs=1e-12)
    assert values[0, 0] > 0 > values[2, 0]
    assert np.isnan(break_even_kappa(replace(jobs, energy_kwh=np.full((3, 1), np.nan))))


def test_the_benchmark_says_which_traces_are_absent(tmp_path: Path) -> None:
    program = Path(__file__).parents[2] / "benchmarks" / "replay.py"
    environment = {**os.environ, "SLURMCAST_DATA": str(tmp_path)}
    command = [sys.executable, str(program), "--parts", "replays", "--traces", "some,other"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["results"] == [] and "some, other: not in" in answer["skipped"]["traces"]
