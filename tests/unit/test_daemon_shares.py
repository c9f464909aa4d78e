"""Shares of what there is only so much of: who has to give room to whom."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmcast.daemon.requests import Refused
from slurmcast.daemon.shares import Held, Share


class Hall:
    """Guests by what became of each."""

    def __init__(self, each: int, total: int) -> None:
        self.held = Held(each, total)
        self.fates: list[str] = []
        self.shares: dict[int, Share] = {}

    def enter(self, who: str, size: int = 1, fixed: bool = False) -> None:
        number = len(self.fates)
        self.fates.append("in")
        try:
            share = self.shares[number] = self.held.enter(who, size)
        except Refused:
            self.fates[number] = "refused"
        else:
            share.give_up = None if fixed else lambda: self.leave(number, "out")

    def leave(self, number: int, fate: str = "left") -> None:
        assert self.fates[number] == "in"
        self.fates[number] = fate
        self.held.leave(self.shares[number])
        self.held.leave(self.shares[number])  # twice does no harm

    def inside(self, who: str = "") -> int:
        return sum(
            self.shares[n].size for n, fate in enumerate(self.fates) if fate == "in" and who in self.shares[n].who
        )


# what: (of each, together, who comes with how much, ! where he may not be put out; what became of each)
COMERS: dict[str, tuple[int, int, str, str]] = {
    "room for all": (2, 9, "a1 a1 b1", "in in in"),
    "his own oldest makes room": (2, 9, "a1 b1 a1 a1", "out in in in"),
    "as many as it takes": (4, 9, "a1 a1 a2 a3", "out out out in"),
    "more than there ever is": (2, 9, "b1 a3", "in refused"),
    "what may not be put out stays": (2, 9, "a1! a1 a1", "in out in"),
    "nobody may be put out": (2, 9, "a1! a1! a1 b1", "in in refused in"),
    "who has most makes room": (3, 4, "b1 a1 a2 c1", "in out in in"),
    "all have the same": (3, 3, "a1 b1 c1 d1", "out in in in"),
    "none of who has most may be put out": (3, 3, "b1 a1! a1! c1", "in in in refused"),
}


@pytest.mark.parametrize("what", COMERS)
def test_who_makes_room(what: str) -> None:
    each, total, comers, fates = COMERS[what]
    hall = Hall(each, total)
    for who, size, *fixed in comers.split():
        hall.enter(who, int(size), bool(fixed))
    assert hall.fates == fates.split()


def test_what_was_refused_or_put_out_holds_nothing() -> None:
    held = Held(3, 9)
    share, other = held.enter("a", 2), held.enter("b", 1)
    with pytest.raises(Refused, match="try again"):
        held.take(share, 2)
    assert share.size == 2
    other.give_up = lambda: None
    held.take(held.enter("b"), 3)  # puts the other out
    with pytest.raises(Refused):
        held.take(other, 0)


COMES = st.tuples(st.sampled_from("abc"), st.integers(0, 4), st.booleans())


@given(st.lists(st.one_of(COMES, st.integers(0, 30))))
def test_never_more_than_there_is(events: list[tuple[str, int, bool] | int]) -> None:
    """Somebody comes, or the n-th who is there goes."""
    hall = Hall(4, 8)
    for event in events:
        there = [number for number, fate in enumerate(hall.fates) if fate == "in"]
        if not isinstance(event, int):
            hall.enter(*event)
        elif there:
            hall.leave(there[event % len(there)])
        assert all(hall.inside(who) <= 4 for who in "abc") and hall.inside() <= 8
    for number, fate in enumerate(hall.fates):
        if fate == "in":
            hall.leave(number)
    for who in "ab":  # all of it is given back
        hall.held.enter(who, 4)
