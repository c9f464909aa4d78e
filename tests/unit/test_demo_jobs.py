"""The demo's jobs and its work table fit each other."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from demo import workload
from demo.standin import standin

JOBS = Path(workload.__file__).parent / "jobs"
WORKS = workload.load_works()
PROGRAMS = ("python", "python3", "torchrun", "accelerate", "deepspeed")
each_work = pytest.mark.parametrize("name", sorted(WORKS))


def script_of(name: str) -> str:
    return (JOBS / name / WORKS[name]["script"]).read_text()


def option(script: str, *names: str) -> int | None:
    """The number in the last such option of the script's #SBATCH lines, None without one."""
    lines = " ".join(re.findall(r"^#SBATCH(.*)$", script, re.MULTILINE))
    found = re.findall(rf"(?<!\S)(?:{'|'.join(names)})[= ]?(?:gpu:)?(\d+)\b", lines)
    return int(found[-1]) if found else None


def requested(script: str) -> tuple[int, int]:
    """GPUs of the whole job, and nodes, that the script asks for."""
    nodes = option(script, "-N", "--nodes") or 1
    per_node = option(script, "--gres", "--gpus-per-node")
    per_task = option(script, "--gpus-per-task")
    if per_task is not None:
        return per_task * (option(script, "-n", "--ntasks") or 1), nodes
    return (option(script, "-G", "--gpus") or 0) if per_node is None else per_node * nodes, nodes


def test_table_and_folders_name_the_same_works() -> None:
    assert set(WORKS) == {folder.name for folder in JOBS.iterdir()}


def test_works_are_many_and_of_many_kinds() -> None:
    assert len(WORKS) >= 24
    assert len({work["kind"] for work in WORKS.values()}) >= 8


@each_work
def test_gpu_request_is_the_tables(name: str) -> None:
    gpus, nodes = requested(script_of(name))
    assert (gpus, nodes) == (WORKS[name]["gpus"], WORKS[name].get("nodes", 1))
    assert 1 <= gpus / nodes <= 2


@each_work
def test_script_leaves_partition_and_time_to_the_command_line(name: str) -> None:
    lines = " ".join(re.findall(r"^#SBATCH(.*)$", script_of(name), re.MULTILINE))
    assert not re.search(r"(?<!\S)(-p|--partition|-t|--time)\b", lines)


@each_work
def test_sources_compile(name: str) -> None:
    for path in (JOBS / name).rglob("*.py"):
        compile(path.read_text(), str(path), "exec")
    source = WORKS[name]["source"]
    assert source == "-" or (JOBS / name / source).is_file()
    assert ("<<" in script_of(name)) == (source == "-")


@each_work
def test_amounts_ascend(name: str) -> None:
    work = WORKS[name]
    assert work["amounts"] == sorted(set(work["amounts"]))
    assert work["argument"] == "constant" or len(work["amounts"]) >= 4


@pytest.fixture(scope="module")
def recorders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs of the stand-ins' names that only write down arguments and heredoc; ``srun`` runs what it is given."""
    folder = tmp_path_factory.mktemp("bin")
    for program in PROGRAMS:
        (folder / program).write_text('#!/bin/bash\nprintf "%s\\0" "$@" > "$SEEN"\n[[ $1 != - ]] || cat >> "$SEEN"\n')
    (folder / "srun").write_text('#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nexec "$@"\n')
    for path in folder.iterdir():
        path.chmod(0o755)
    return folder


@each_work
def test_the_amount_asked_for_reaches_the_program(name: str, recorders: Path, tmp_path: Path) -> None:
    work = WORKS[name]
    for amount in work["amounts"]:
        arguments, environment = workload.invocation(work, amount)
        seen = tmp_path / f"{amount}"
        environ = {**environment, "SEEN": str(seen), "SLURM_SUBMIT_DIR": str(JOBS / name), "HOME": str(tmp_path)}
        subprocess.run(
            ["/bin/bash", str(JOBS / name / work["script"]), *arguments],
            env={"PATH": f"{recorders}:/usr/bin:/bin", **environ},
            cwd=JOBS / name,
            capture_output=True,
            check=False,
        )
        argv = seen.read_text().split("\0")
        assert standin.amount_of(work, argv, environ) == amount
        assert work["source"] in argv
        assert any(re.search(rf"(?<!\d){amount}\b", word) for word in argv) or reads_environment(work)


def reads_environment(work: workload.Work) -> bool:
    """Whether the source itself takes the amount from its environment."""
    variable = work["argument"].removeprefix("env:")
    return f'os.environ.get("{variable}"' in (JOBS / work["name"] / work["source"]).read_text()


@each_work
def test_jobs_take_minutes(name: str) -> None:
    """The middle amount takes 2 to 60 minutes on either type; all take less than two hours."""
    work = WORKS[name]
    times = {
        (amount, gpu_type): standin.seconds_of(work, gpu_type, *as_the_program_sees(work, amount))
        for amount in work["amounts"]
        for gpu_type in workload.PARTITIONS
    }
    middle = work["amounts"][len(work["amounts"]) // 2]
    assert all(120 <= times[middle, gpu_type] <= 3600 for gpu_type in workload.PARTITIONS)
    assert max(times.values()) < 7200


def as_the_program_sees(work: workload.Work, amount: float) -> tuple[tuple[str, ...], dict[str, str]]:
    """Arguments and environment of the program that the script starts, where the two differ."""
    return workload.invocation({**work, "argument": work.get("seen", work["argument"])}, amount)


def test_powers_lie_between_idle_and_limit() -> None:
    for gpu_type, gpu in workload.gpu_table().items():
        for work in WORKS.values():
            assert gpu["idle_w"] < work["power_w_" + gpu_type] <= gpu["tdp_w"]


def test_either_type_is_the_better_one_for_several_works() -> None:
    def unit_energy(work: workload.Work, gpu_type: str) -> float:
        return float(work["seconds_per_unit_" + gpu_type] * work["power_w_" + gpu_type])

    better = [min(workload.PARTITIONS, key=lambda gpu_type: unit_energy(work, gpu_type)) for work in WORKS.values()]
    assert all(better.count(gpu_type) >= 6 for gpu_type in workload.PARTITIONS)
