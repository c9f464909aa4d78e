"""Where a plan puts jobs, and in which order."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.plan_world import CONFIG, apply, changes, decisions, order, pending, plan, running, snapshot


def test_free_gpus_go_to_the_best_value() -> None:
    result = plan(snapshot(pending(1, 3600, 900), pending(2, 1000, 3600), a100=(1,), a6000=(1,)), 0.0, CONFIG)
    assert decisions(result)[1].partition == "a6000"
    assert decisions(result)[2].partition == "a100"
    assert changes(result)[1].partition == "a6000"
    assert changes(result)[2].partition is None


def test_a_job_waits_for_the_better_partition_and_is_told_so() -> None:
    """Under lookahead: 9,000 s are saved on a100, which comes free in half an hour; for 900 s nobody waits."""
    jobs = (pending(1, 3600, 12600, at="a6000"), pending(2, 3600, 4500))
    now = replace(snapshot(*jobs, a100=(0,), a6000=(2,)), running=(running(9, 1800, 4),))
    ahead = plan(now, 0.0, replace(CONFIG, policy="lookahead"))
    assert {n: decision.partition for n, decision in decisions(ahead).items()} == {1: "a100", 2: "a6000"}
    assert decisions(ahead)[1].reason == "It waits for a100, which is better for it than a6000 now."
    assert changes(ahead)[1].partition == "a100"
    at_once = plan(now, 0.0, replace(CONFIG, policy="lookahead", patience=0.0))
    assert decisions(at_once)[1].partition == "a6000"


def test_nobody_passes_a_job_that_has_waited_too_long() -> None:
    wide, later = pending(1, 3600, 5400, gpus=4), pending(2, 600, 900)
    now = replace(snapshot(wide, later, a100=(2,)), running=(running(9, 1800, 2),))
    assert order(apply(now, plan(now, 0.0, replace(CONFIG, policy="lookahead")))) == [2, 1]
    late = plan(now, 0.0, replace(CONFIG, policy="lookahead", longest_wait_h=0.0))
    assert order(apply(now, late)) == [1, 2]
    assert decisions(late)[2].reason == "It waits on a6000; on a100, GPUs are kept for a job that has waited too long."


def test_kappa_turns_the_choice_to_the_thriftier_partition() -> None:
    now = snapshot(pending(1, 3600, 4000, kwh=(1.0, 0.5)), a100=(1,), a6000=(1,))
    assert decisions(plan(now, 0.0, CONFIG))[1].partition == "a100"
    assert decisions(plan(now, 1e-3, CONFIG))[1].partition == "a6000"


def test_jobs_that_fit_now_stand_above_those_that_do_not() -> None:
    """The wide job has the best value, but would block the partition: Slurm's top job reserves."""
    wide, small = pending(1, 10, None, gpus=4), pending(2, 9000, None)
    now = snapshot(wide, small, a100=(1,))
    assert order(apply(now, plan(now, 0.0, CONFIG))) == [2, 1]
    full = snapshot(wide, small)
    assert order(apply(full, plan(full, 0.0, CONFIG))) == [1, 2]


def test_unknown_jobs_stand_in_the_middle_and_stay() -> None:
    jobs = [pending(1, 100, 100), pending(2, None, None), pending(3, 9000, 9000)]
    now = snapshot(*jobs)
    result = plan(now, 0.0, CONFIG)
    assert order(apply(now, result)) == [1, 2, 3]
    assert "isn't known" in decisions(result)[2].reason
    assert decisions(result)[2].partition == "a100"


def test_a_waiting_job_waits_where_its_value_is_clearly_better() -> None:
    assert changes(plan(snapshot(pending(1, 3600, 3000)), 0.0, CONFIG))[1].partition == "a6000"
    hardly = plan(snapshot(pending(1, 3600, 3400)), 0.0, CONFIG)
    assert changes(hardly)[1].partition is None
    assert "hardly better" in decisions(hardly)[1].reason
