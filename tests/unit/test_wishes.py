"""Which submissions' sources are wanted: bounds and ages."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from slurmcast.daemon import wishes as module
from slurmcast.daemon.wishes import AWAITED_S, KEPT_S, MAX_SCRIPT, Wish, Wishes
from slurmcast.model import Submission

ALICE, BOB = 1000, 1001


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def submission(uid: int = ALICE, script: bytes = b"x") -> Submission:
    return Submission(uid, "", "job", 0, script, len(script))


def added(wishes: Wishes, stored: int, uid: int = ALICE) -> Wish:
    wish = wishes.add(stored, submission(uid))
    assert wish is not None
    return wish


def test_a_wish_is_granted_once() -> None:
    wishes = Wishes()
    wish = added(wishes, 7)
    assert wishes.get(7) is wish and wishes.awaited(7)
    assert wishes.take(wish)
    assert wishes.get(7) is None and not wishes.awaited(7)
    assert not wishes.take(wish)
    assert wishes.get(8) is None and wishes.get(None) is None


def test_wishes_grow_old() -> None:
    clock = Clock()
    wishes = Wishes(clock)
    wish = added(wishes, 7)
    clock.now += AWAITED_S
    assert not wishes.awaited(7) and wishes.get(7) is wish
    clock.now += KEPT_S - AWAITED_S
    assert wishes.get(7) is None and not wishes.take(wish)


def test_what_is_wanted_again_is_awaited_anew() -> None:
    clock = Clock()
    wishes = Wishes(clock)
    former = added(wishes, 7)
    clock.now += AWAITED_S
    latter = added(wishes, 7)
    assert wishes.awaited(7) and wishes.get(7) is latter
    assert not wishes.take(former) and wishes.take(latter)


def test_long_scripts_are_not_held() -> None:
    wishes = Wishes()
    assert wishes.add(7, submission(script=b"x" * (MAX_SCRIPT + 1))) is None
    assert wishes.add(8, submission(script=b"x" * MAX_SCRIPT)) is not None


def test_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WISHES", 4)
    monkeypatch.setattr(module, "MAX_OF_ONE_USER", 2)
    wishes = Wishes()
    for stored, uid in ((1, BOB), (2, ALICE), (3, ALICE), (4, ALICE)):
        added(wishes, stored, uid)
    assert [stored for stored in range(9) if wishes.get(stored)] == [1, 3, 4]
    added(wishes, 5, 1002)
    added(wishes, 6, 1003)
    assert [stored for stored in range(9) if wishes.get(stored)] == [3, 4, 5, 6]
