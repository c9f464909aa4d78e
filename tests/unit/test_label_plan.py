"""What is run where, how a script stands, and what is submitted next: never beyond the budget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmcast.label.plan import (
    RETRIES,
    Call,
    Exclusive,
    Rules,
    Stage,
    Standing,
    Unfit,
    affordable,
    cell,
    following,
    standing,
    totals,
)
from slurmcast.label.words import Batch, Budget, Cell, Cost, Place, Run, Work, spent
from slurmcast.model import GpuRequest

RULES = Rules()
A100 = Place("a100", frozenset({"a100"}), 4, 3600, mean_w=200.0, most_w=300.0)
A6000 = Place("a6000", frozenset({"a6000"}), 8, 7200, mean_w=150.0, most_w=300.0)


def work(name: str = "a.sh", **fields: Any) -> Work:
    base = {"arguments": (), "options": {}, "gpus": 1, "nodes": 1, "request": GpuRequest(per_node=1), "limit_s": 600}
    return Work(**{"path": Path("/scripts", name), "key": name, **base, **fields})


def made(of: Work, place: Place = A100, exclusive: Exclusive = Exclusive.USER) -> Cell:
    found = cell(of, place, exclusive)
    assert isinstance(found, Cell), found
    return found


class TestCell:
    def test_a_plain_script(self) -> None:
        found = cell(work(), A100, Exclusive.USER, 120.0)
        assert found == Cell(work(), "a100", 1, 600, ("--exclusive=user",), 120.0, 200.0, 300.0)
        assert found.at_most(2) == Cost(pytest.approx(1 / 3), pytest.approx(0.1))
        assert found.expected(3) == Cost(pytest.approx(0.1), pytest.approx(0.02))

    def test_without_a_limit_the_partitions_holds(self) -> None:
        assert made(work(limit_s=None)).limit_s == 3600
        found = cell(work(limit_s=None), replace(A100, default_limit_s=None), Exclusive.USER)
        assert isinstance(found, Unfit) and "#SBATCH --time" in found.reason

    @pytest.mark.parametrize(
        ("exclusive", "options", "whole_nodes", "words", "gpus"),
        [
            (Exclusive.USER, {}, False, ("--exclusive=user",), 2),
            (Exclusive.GPU, {}, False, (), 2),
            (Exclusive.NODE, {}, False, ("--exclusive",), 8),
            (Exclusive.USER, {"exclusive": ""}, False, (), 8),  # the script's own wish
            (Exclusive.USER, {"exclusive": "user"}, False, (), 2),
            (Exclusive.GPU, {}, True, (), 8),
        ],
    )
    def test_whoever_gets_whole_nodes_gets_all_their_gpus(
        self, exclusive: Exclusive, options: dict[str, str], whole_nodes: bool, words: tuple[str, ...], gpus: int
    ) -> None:
        found = made(work(gpus=2, nodes=2, options=options), replace(A100, whole_nodes=whole_nodes), exclusive)
        assert (found.options, found.gpus) == (words, gpus)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"gres": "gpu:a100:2,shm:1"}, ("--gres=gpu:a6000:2,shm:1",)),
            ({"gpus": "a100:2"}, ("--gpus=a6000:2",)),
            ({"gpus": "a100", "gpus-per-node": "a100:1"}, ("--gpus=a6000", "--gpus-per-node=a6000:1")),
            ({"tres-per-task": "cpu=4,gres/gpu:a100=2"}, ("--tres-per-task=cpu=4,gres/gpu:a6000=2",)),
            ({"gres": "gpu:a100:1", "job-name": "a100", "comment": "gpu:a100"}, ("--gres=gpu:a6000:1",)),
        ],
    )
    def test_the_type_of_gpus_goes_with_the_partition(self, options: dict[str, str], words: tuple[str, ...]) -> None:
        typed = work(options=options, request=GpuRequest(per_node=1, type="a100"))
        assert made(typed, A6000, Exclusive.GPU).options == words
        assert made(typed, A100, Exclusive.GPU).options == ()

    @pytest.mark.parametrize("types", [frozenset(), frozenset({"x", "y"})])
    def test_unless_it_is_not_clear_which(self, types: frozenset[str]) -> None:
        typed = work(options={"gpus": "a100:1"}, request=GpuRequest(per_job=1, type="a100"))
        found = cell(typed, replace(A6000, types=types), Exclusive.USER)
        assert isinstance(found, Unfit) and "a100" in found.reason

    def test_what_the_reader_refused_stays_refused(self) -> None:
        assert cell(work(refusal="no"), A100, Exclusive.USER) == Unfit(work(refusal="no"), "a100", "no")


def batch(of: Cell, number: int = 1, runs: int = 2, **fields: Any) -> Batch:
    facts = (of.work.key, str(of.work.path), of.work.arguments, of.partition, runs, of.gpus, of.limit_s)
    return Batch(f"b{number}", float(number), *facts, of.mean_w, of.most_w, **{"job_id": number, **fields})


def run(elapsed_s: float = 100.0, state: str = "COMPLETED", task: int = 0, number: int = 1, **fields: Any) -> Run:
    base = {"start": 1000 * number + task, "gpus": 1, "at": float(number)}
    return Run(f"b{number}", number, task, 10 * number + task, state=state, elapsed_s=elapsed_s, **{**base, **fields})


FAILED = run(state="FAILED", exit_code="3:0")


@pytest.mark.parametrize(
    ("runs", "still_open", "call", "stage", "reason"),
    [
        ([], 0, Call(), Stage.WANTED, ""),
        ([], 2, Call(), Stage.RUNNING, ""),
        ([run()], 1, Call(), Stage.RUNNING, ""),
        ([run(100), run(101, task=1)], 0, Call(), Stage.DONE, ""),
        ([run(100), run(200, task=1)], 0, Call(), Stage.WANTED, ""),
        ([run(100), run(200, task=1), run(400, number=2)], 0, Call(), Stage.DONE, ""),
        ([FAILED], 1, Call(), Stage.FAILED, "exit code 3"),
        ([run(state="FAILED", exit_code="0:11")], 0, Call(), Stage.FAILED, "signal 11"),
        ([run(state="TIMEOUT")], 0, Call(), Stage.FAILED, "it reached its time limit"),
        ([run(state="OUT_OF_MEMORY")], 0, Call(), Stage.FAILED, "it was out of memory"),
        ([FAILED], 0, Call(5), Stage.FAILED, "exit code 3"),  # in an earlier call, and it stays so
        ([FAILED], 0, Call(5, retry=True), Stage.WANTED, ""),
        ([FAILED], 0, Call(0.5, retry=True), Stage.FAILED, "exit code 3"),
        ([run(state="CANCELLED")], 0, Call(), Stage.CANCELLED, "a run was cancelled"),
        ([run(state="CANCELLED")], 0, Call(5), Stage.WANTED, ""),
        ([run(state="NODE_FAIL")], 0, Call(), Stage.WANTED, ""),
        ([run(state="PREEMPTED"), run(state="NODE_FAIL", task=1)], 0, Call(), Stage.WANTED, ""),
        ([run(state="SOMETHING_NEW")], 0, Call(), Stage.WANTED, ""),
        ([run(state="NODE_FAIL", start=1 + i) for i in range(RETRIES + 1)], 0, Call(), Stage.FAILED, "4 runs ended"),
        # Queued again by an admin: the run before doesn't count, and isn't held against the script.
        ([run(90, final=False), run(100), run(101, task=1)], 0, Call(), Stage.DONE, ""),
    ],
)
def test_how_a_script_stands(runs: list[Run], still_open: int, call: Call, stage: Stage, reason: str) -> None:
    of = made(work())
    found = standing(of, [batch(of, 1), batch(of, 2)], runs, still_open, RULES, call)
    assert found.stage is stage and found.reason.startswith(reason), found
    assert all(one.state == "COMPLETED" and one.final for one in found.counted)


def test_what_slurm_refused_failed() -> None:
    of = made(work())
    refused = batch(of, refused="Invalid account")
    assert standing(of, [refused], [], 0, RULES).reason == "Invalid account"
    assert standing(of, [refused], [], 0, RULES, Call(2, retry=True)).stage is Stage.WANTED


def wanted(name: str, place: Place = A100, still_open: int = 0, **fields: Any) -> Standing:
    of = made(work(name, **fields), place)
    return standing(of, [], [], still_open, RULES)


class TestFollowing:
    def test_spreads_over_partitions_and_never_runs_a_script_beside_itself(self) -> None:
        all_of_them = [wanted(name, place) for name in "abc" for place in (A100, A6000)]
        found = following(all_of_them, Cost(), 0, Budget(gpu_hours=100), RULES)
        assert [(c.work.key, c.partition, n) for c, n in found.submit] == [
            ("a", "a100", 2), ("b", "a6000", 2), ("c", "a100", 2)
        ]  # fmt: skip

    def test_scripts_that_were_begun_go_first(self) -> None:
        begun = made(work("z"))
        third = standing(begun, [batch(begun)], [run(100), run(200, task=1)], 0, RULES)
        found = following([wanted("a"), third], Cost(), 9, Budget(gpu_hours=100), RULES)
        assert [(c.work.key, n) for c, n in found.submit] == [("z", 1)]

    @pytest.mark.parametrize(("waiting", "in_flight", "submitted"), [(0, 1, 1), (1, 3, 1), (2, 3, 0), (0, 4, 2)])
    def test_limits_what_waits(self, waiting: int, in_flight: int, submitted: int) -> None:
        rules = replace(RULES, in_flight=in_flight)
        found = following([wanted(name) for name in "abc"], Cost(), waiting, Budget(gpu_hours=100), rules)
        assert len(found.submit) == submitted and not found.beyond

    @pytest.mark.parametrize(
        ("budget", "submitted"),
        [
            (Budget(gpu_hours=1 / 3), 1),  # one array of two runs of 600 s
            (Budget(gpu_hours=0.33), 0),
            (Budget(gpu_hours=2 / 3), 2),
            (Budget(kwh=0.1), 1),
            (Budget(gpu_hours=1, kwh=0.1), 1),
            (Budget(kwh=0.0999), 0),
        ],
    )
    def test_the_budget_holds_for_the_worst_case(self, budget: Budget, submitted: int) -> None:
        found = following([wanted("a"), wanted("b")], Cost(), 0, budget, RULES)
        assert (len(found.submit), len(found.beyond)) == (submitted, 2 - submitted)

    def test_an_unknown_power_fits_no_budget_of_energy(self) -> None:
        dark = replace(A100, most_w=None)
        assert not affordable(Cost(), Budget(kwh=1e9), made(work(), dark), 1)
        assert affordable(Cost(), Budget(gpu_hours=1), made(work(), dark), 1)

    def test_a_smaller_script_may_pass_one_that_is_beyond(self) -> None:
        large, small = wanted("a", limit_s=6000), wanted("b", limit_s=60)
        found = following([large, small], Cost(), 0, Budget(gpu_hours=0.1), RULES)
        assert [c.work.key for c, _ in found.submit] == ["b"] and [c.work.key for c in found.beyond] == ["a"]

    def test_ten_thousand_scripts(self) -> None:  # a round of theirs is some seconds, not hours
        cells = [made(work(f"{n}.sh"), place) for n in range(10_000) for place in (A100, A6000)]
        stands = [standing(c, [], [], 0, RULES) for c in cells]
        assert following(stands, Cost(), 8, Budget(1e9), RULES).submit == ((cells[0], 2),)
        assert len(following(stands, Cost(), 0, Budget(1e-9), RULES).beyond) == 20_000


def test_totals_are_of_what_is_still_to_be_submitted() -> None:
    done = made(work("d"))
    settled = standing(done, [batch(done)], [run(100), run(100, task=1)], 0, RULES)
    running = replace(wanted("r", still_open=2), open=2)
    expected, most = totals([wanted("a"), running, settled], RULES)
    assert expected.gpu_hours == pytest.approx(2 * 600 / 3600)
    assert most.gpu_hours == pytest.approx((3 + 1) * 600 / 3600)


def test_what_was_spent_is_measured_where_it_can_be() -> None:
    of = batch(made(work()))
    used = spent([run(3600), run(3600, energy_kwh=0.5), run(3600, state="FAILED", gpus=2)], {"b1": of})
    assert used == Cost(4.0, pytest.approx(0.2 + 0.5 + 0.4))
    assert spent([run(3600)], {"b1": replace(of, mean_w=None)}).kwh is None


@settings(deadline=None)
@given(st.data())
def test_a_whole_campaign_stays_within_its_budget(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.tuples(st.integers(1, 8), st.integers(60, 7200)), min_size=1, max_size=5))
    cells = [
        made(work(str(number), gpus=gpus, limit_s=limit), place)
        for number, (gpus, limit) in enumerate(sizes)
        for place in (A100, A6000)
    ]
    budget = Budget(gpu_hours=data.draw(st.floats(0.01, 40)))
    states = st.sampled_from(["COMPLETED"] * 6 + ["FAILED", "NODE_FAIL", "CANCELLED"])
    batches: list[Batch] = []
    runs: list[Run] = []
    still_open: list[tuple[Batch, int]] = []
    for number in range(1, 200):
        stands = [
            standing(
                c,
                [b for b in batches if b.cell == c.id],
                [r for r in runs if batches[int(r.batch[1:]) - 1].cell == c.id],
                sum(b.cell == c.id for b, _ in still_open),
                RULES,
            )
            for c in cells
        ]
        committed = spent(runs, {b.id: b for b in batches})
        for b, _ in still_open:
            committed += b.one_at_most
        assert committed.gpu_hours <= budget.gpu_hours + 1e-9  # type: ignore[operator]
        plan = following(stands, committed, len(still_open), budget, RULES)
        for c, count in plan.submit:
            new = batch(c, len(batches) + 1, count)
            batches.append(new)
            still_open += [(new, task) for task in range(count)]
        if not still_open:
            break
        over, task = still_open.pop(data.draw(st.integers(0, len(still_open) - 1)))
        elapsed = data.draw(st.integers(0, over.limit_s))
        runs.append(
            run(elapsed, data.draw(states), task, int(over.id[1:]), start=number, gpus=over.gpus, at=float(number))
        )
    assert not still_open
    for c in cells:
        counted = [r for r in runs if r.state == "COMPLETED" and batches[int(r.batch[1:]) - 1].cell == c.id]
        assert len(counted) <= RULES.most
