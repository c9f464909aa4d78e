"""Who runs many jobs doesn't speak for all: weights, places, and intervals of others' jobs."""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurmcast.config import ProbeConfig
from slurmcast.labels import examples
from slurmcast.probe import Example, Model, train
from slurmcast.probe.examples import latest, merged
from slurmcast.probe.fair_share import PARTS, allotted, shares
from slurmcast.probe.features import MAX_OWN, choose_numbers, unit
from slurmcast.probe.intervals import calibrate, ends_for
from slurmcast.probe.model import SETTINGS_FILE, TENSORS_FILE
from slurmcast.probe.territory import survey
from slurmcast.store.store import Store
from tests.unit.probe_world import DIMENSIONS, NOISE, PARTITIONS, Script, World, known_scripts, new_scripts
from tests.unit.store_world import fill, jobs, site

MANY = 99
"""The user who runs many jobs."""
VECTOR = np.ones(2, np.float32)


def totals(owners: Sequence[int], least: float = 9) -> tuple[dict[int, float], float]:
    """What each owner's observations, each a group of its own, count for together, and how many that makes."""
    found = shares(range(len(owners)), owners, least)
    sums: Counter[int] = Counter()
    for owner, weight in zip(owners, found.weights.tolist(), strict=True):
        sums[owner] += weight
    return dict(sums), found.count


@pytest.mark.parametrize(
    ("sizes", "counted"),
    [
        ([50], [50]),
        ([50, 20], [20, 20]),
        ([80, 15, 9], [24, 15, 9]),
        ([30, 30, 30], [30, 30, 30]),
        ([300, 20, 20, 20], [30, 20, 20, 20]),
        ([300, 200, 10, 10, 5], [25, 25, 10, 10, 5]),
        ([20, 15, 15, 10], [20, 15, 15, 10]),
    ],
)
def test_no_owner_counts_for_more_than_his_part(sizes: list[int], counted: list[float]) -> None:
    found, count = totals([owner for owner, size in enumerate(sizes) for _ in range(size)])
    assert list(found.values()) == pytest.approx(counted)
    assert count == pytest.approx(
        sum(counted) ** 2 / sum(of**2 / size for of, size in zip(counted, sizes, strict=True))
    )


@pytest.mark.parametrize("seed", range(20))
def test_who_has_least_counts_in_full_and_who_has_more_for_no_less(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.geometric(0.03, rng.integers(PARTS, 12)).tolist()
    found, _ = totals([owner for owner, size in enumerate(sizes) for _ in range(size)], least=0)
    counted = [found[owner] for owner in range(len(sizes))]
    assert max(counted) <= sum(counted) / (PARTS if len(sizes) > 3 else 2) + 1e-9
    assert min(counted) == pytest.approx(min(sizes))
    assert [counted[i] for i in np.argsort(sizes)] == pytest.approx(sorted(counted))


def test_all_count_alike_where_too_few_would_be_left() -> None:
    found, count = totals([0] * 20 + [1])
    assert (found, count) == ({0: pytest.approx(20), 1: pytest.approx(1)}, 21)


def test_a_group_is_one_observation_whoevers() -> None:
    found = shares(["a", "a", "b", "c"], [0, 1, 0, 0], least=0)
    assert found.weights.tolist() == pytest.approx([0.1, 0.5, 0.2, 0.2])
    assert found.count == pytest.approx(1 / (0.6**2 + 0.2**2 + 0.2**2))


@pytest.mark.parametrize(
    ("wanted", "places", "given"),
    [
        ("", 3, ""),
        ("a0 a1 a2 a3", 3, "012"),
        ("a0 a1 a2 a3 b4 b5", 4, "0145"),
        ("a0 a1 a2 a3 b4", 4, "0142"),
        ("a0 a1 b2 a3 a4", 9, "01234"),
        ("a0 b0 a0 b1", 2, "01"),
        ("a0 a1 a2 b2 a3 b4", 4, "0124"),
    ],
)
def test_nobody_is_pushed_out_by_one_other(wanted: str, places: int, given: str) -> None:
    assert "".join(allotted(((pair[0], pair[1]) for pair in wanted.split()), places)) == given


def test_the_latest_jobs_are_not_all_one_users() -> None:
    owners = [owner for owner in range(4) for _ in range(20)] + [MANY] * 300 + [0]
    samples = merged(
        Example("old 0" if n == 380 else f"{owner} {n}", VECTOR, {}, 1, "p", "", 1.0, owner=owner)
        for n, owner in enumerate(owners)
    )
    kept = Counter(sample.owner for sample in latest(samples, 100))
    assert kept[MANY] == 50
    assert sum(kept.values()) == 100
    everybody = Counter(sample.owner for sample in latest(samples, 200))
    assert (everybody[MANY], everybody[1]) == (119, 20)  # what others don't take


def test_the_same_work_of_two_users_is_two_samples() -> None:
    runs = [Example("work", VECTOR, {}, 1, "p", "", time_s, owner=owner) for owner, time_s in ((0, 9), (1, 1), (1, 1))]
    assert [(sample.owner, round(math.exp(sample.log_time)), sample.runs) for sample in merged(runs)] == [
        (0, 9, 1),
        (1, 1, 1),
        (1, 1, 1),
    ]


def test_invented_options_of_one_user_leave_others_their_columns() -> None:
    honest = [Example(f"job {n}", VECTOR, {"--n-critic": 2.0 + n % 3}, 1, "p", "", 1.0, owner=n % 3) for n in range(30)]
    honest += [Example(f"k {n}", VECTOR, {f"--option-{n}": 3.0}, 1, "p", "", 1.0, owner=n % 3) for n in range(60)]
    invented = [
        Example(f"odd {n}", VECTOR, {f"--{40 * (n % 9) + k}": 2.0 + n for k in range(40)}, 1, "p", "", 1.0, owner=MANY)
        for n in range(90)
    ]
    own = choose_numbers(merged([*honest, *invented])).own
    assert len(own) == MAX_OWN
    assert {"--n-critic", *(f"--option-{n}" for n in range(60))} <= set(own)


def test_odd_scripts_of_one_user_are_not_all_that_new_ones_are_tested_by() -> None:
    rng = np.random.default_rng(0)
    alike = rng.normal(size=16) + 0.6 * rng.normal(size=(24, 16))
    vectors = unit(np.vstack([np.repeat(alike, 2, axis=0), rng.normal(size=(30, 16))]).astype(np.float32))
    owners = [n % 5 for n in range(24) for _ in range(2)] + [MANY] * 30
    found = survey(vectors, [str(n) for n in range(78)], True, owners)
    tested = {cluster: owner for cluster, owner, far in zip(found.clusters, owners, found.far, strict=True) if far}
    assert len(tested) == 27
    assert Counter(owner == MANY for owner in tested.values())[False] == 12


def residuals(rng: np.random.Generator, honest: int, exact: int) -> tuple[np.ndarray, list[int]]:
    """Residuals of five users' jobs, and ``exact`` ones of one who is told without error."""
    return np.concatenate([rng.standard_t(5, honest), np.zeros(exact)]), [n % 5 for n in range(honest)] + [MANY] * exact


@pytest.mark.parametrize(("exact", "low", "high"), [(0, 0.77, 0.84), (60, 0.69, 0.84), (300, 0.69, 0.84)])
def test_ends_hold_for_others_though_one_user_has_many_exact_jobs(exact: int, low: float, high: float) -> None:
    inside = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        values, owners = residuals(rng, 120, exact)
        found = ends_for(calibrate(values, ["a"] * len(values), owners=owners), "a")
        fresh = rng.standard_t(5, 200)
        assert found is not None
        inside.append(np.mean((found.low <= fresh) & (fresh <= found.high)))
    assert low < np.mean(inside) < high


def test_ends_of_a_single_owner_are_those_of_unknown_ones() -> None:
    values, _ = residuals(np.random.default_rng(0), 60, 10)
    groups, types = [n // 2 for n in range(70)], ["a" if n % 3 else "b" for n in range(70)]
    assert calibrate(values, types, groups, [7] * 70) == calibrate(values, types, groups)


def test_ends_hold_where_one_of_three_users_runs_four_jobs_in_five() -> None:
    inside = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        values, owners = rng.standard_t(5, 60), [0] * 48 + [1] * 8 + [2] * 4
        found = ends_for(calibrate(values, ["a"] * 60, owners=owners), "a")
        fresh = rng.standard_t(5, 100)
        assert found is not None
        inside.append(np.mean((found.low <= fresh) & (fresh <= found.high)))
    assert 0.78 < np.mean(inside) < 0.88


def test_ends_of_few_programs_are_no_wider_where_most_are_one_users() -> None:
    values, owners = np.random.default_rng(0).normal(size=20), [0] * 16 + [1] * 3 + [2]
    assert calibrate(values, ["a"] * 20, owners=owners) == calibrate(values, ["a"] * 20)


def test_whose_a_job_is_comes_from_the_store(tmp_path: Path) -> None:
    fill(config := site(tmp_path), jobs(30))
    with closing(Store(config.paths.store, config.cluster)) as store:
        labels = store.labels()
    learned = examples(labels, dict.fromkeys((label.text_key for label in labels), VECTOR))
    with closing(sqlite3.connect(config.paths.store)) as database:
        uids = database.execute("SELECT uid FROM job").fetchall()
    assert Counter((example.owner,) for example in learned) == Counter(uids)
    assert len(set(uids)) > 9


def owned(runs: Sequence[Example], users: int = 5) -> list[Example]:
    """``runs``, each script's one user's."""
    scripts = list(dict.fromkeys(run.vector.tobytes() for run in runs))
    return [replace(run, owner=scripts.index(run.vector.tobytes()) % users) for run in runs]


def different_scripts(world: World) -> list[Example]:
    vectors = world.rng.normal(size=(30, DIMENSIONS)).astype(np.float32)
    return [Example(f"odd {n}", v, {}, 1, "fast", "a100", 1.0, owner=MANY) for n, v in enumerate(vectors)]


def one_program(world: World) -> list[Example]:
    vectors = world.rng.normal(size=DIMENSIONS) + 0.001 * np.arange(200)[:, None]
    return [
        Example(f"odd {n}", v.astype(np.float32), {}, 1, "fast", "a100", 1.0, owner=MANY) for n, v in enumerate(vectors)
    ]


def holds(world: World, model: Model, scripts: Sequence[Script]) -> list[bool]:
    """Whether intervals of jobs of ``scripts`` hold."""
    found = []
    for script in scripts:
        for _ in range(6):
            numbers = world.arguments()
            for e in model.predict(script.vector, numbers, dict.fromkeys(PARTITIONS, 1)):
                truth = script.seconds(PARTITIONS[e.partition], **numbers) * math.exp(world.rng.normal(0, NOISE))
                if e.time_s:
                    found.append(e.time_s.p10 <= truth <= e.time_s.p90)
    return found


@pytest.mark.parametrize(
    ("odd", "scripts", "low"),
    [(different_scripts, new_scripts, 0.6), (one_program, known_scripts, 0.75)],
    ids=["new", "known"],
)
def test_jobs_of_one_user_that_end_at_once_leave_others_their_intervals(
    odd: Callable[[World], list[Example]], scripts: Callable[[World], list[Script]], low: float
) -> None:
    inside = []
    for seed in range(2):
        world = World(seed)
        runs = [*owned(world.history(120, known_scripts(world))), *odd(world)]
        model = train(runs, ProbeConfig(targets=("time",)), encoder="test").model
        inside += holds(world, model, scripts(world))
    assert len(inside) > 150
    assert low < np.mean(inside) < 0.95


def test_no_model_tells_whose_jobs_it_has_learned_from(tmp_path: Path) -> None:
    world = World(0)
    runs = owned(world.history(60, known_scripts(world)))
    files = []
    for name, owner in (("one", 1001), ("other", 523)):
        (folder := tmp_path / name).mkdir()
        of = [replace(run, owner=owner + (run.owner or 0)) for run in runs]
        model = train(of, ProbeConfig(targets=("time",)), encoder="test").model
        replace(model, figures={}).write(folder)
        files.append([(folder / part).read_bytes() for part in (SETTINGS_FILE, TENSORS_FILE)])
    assert files[0] == files[1]
