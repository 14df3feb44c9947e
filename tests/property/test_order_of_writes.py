"""Properties of the order in which the bounds of member HPAs are written, with random failures."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fedhpa.assignment import Bounds
from fedhpa.assignment.writes import Outcome, Result, Sent, SetBounds

HPAs = dict[str, Bounds | None]

seeds = st.integers(0, 2**32)


def most(hpas: HPAs) -> int:
    """Returns the sum of the maxima."""
    return sum(bounds.maximum for bounds in hpas.values() if bounds)


def least(hpas: HPAs) -> int:
    """Returns the sum of the minima."""
    return sum(bounds.minimum for bounds in hpas.values() if bounds)


def next_writes(*args: Any, **more: Any) -> tuple[SetBounds, ...]:
    """The writes that may be sent now."""
    return Sent(*args, **more).next()


class Fleet:
    """Members whose HPAs have some bounds, other wanted ones, and a total that is enough for both."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        names = [f"m{index}" for index in range(self.chance.randrange(1, 7))]
        self.present: HPAs = {name: self._bounds() for name in names}
        self.wanted: HPAs = {name: self._bounds() for name in names if self.chance.random() < 0.85}
        self.actual = dict(self.present)
        goal = most(self.present | self.wanted)
        self.total = max(most(self.present), goal) + self.chance.choice((0, 0, 3))
        # Sums of the real maxima and minima whenever one member made a change.
        self.maxima, self.minima = [most(self.actual)], [least(self.actual)]
        self.outcomes: list[Outcome] = []

    def _bounds(self) -> Bounds | None:
        if self.chance.random() < 0.15:
            return None
        minimum = self.chance.randrange(1, 6)
        return Bounds(minimum=minimum, maximum=minimum + self.chance.randrange(8))

    def run(self, total: int | None, failing: float) -> None:
        """Sends the writes of a pass until there are none; each fails with the given probability."""
        for _ in range(50):
            sent = next_writes(total, self.present, self.wanted, self.outcomes)
            if not sent:
                return
            assert len({write.cluster for write in sent}) == len(sent)
            results = [(write, self._result(failing)) for write in self.chance.sample(sent, len(sent))]
            for write, result in results:
                self._send(write, result)
                self.outcomes.append(Outcome(write=write, result=result))
        raise AssertionError("the pass does not end")

    def _result(self, failing: float) -> Result:
        if self.chance.random() >= failing:
            return Result.CONFIRMED
        return self.chance.choice((Result.REFUSED, Result.UNKNOWN))

    def _send(self, write: SetBounds, result: Result) -> None:
        assert write.before == self.actual.get(write.cluster)
        assert write.after is None or 1 <= write.after.minimum <= write.after.maximum
        made = result is Result.CONFIRMED or (result is Result.UNKNOWN and self.chance.random() < 0.5)
        if made:
            self.actual[write.cluster] = write.after
            self.maxima.append(most(self.actual))
            self.minima.append(least(self.actual))


@given(seeds)
def test_without_failures_the_wanted_bounds_are_reached(seed: int) -> None:
    """Each member gets its wanted bounds. A second pass writes nothing."""
    fleet = Fleet(seed)
    fleet.run(fleet.total, 0)

    assert fleet.actual == fleet.present | fleet.wanted
    assert next_writes(fleet.total, fleet.actual, fleet.wanted) == ()


@given(seeds, st.sampled_from([0.0, 0.3, 0.8, 1.0]))
def test_no_failure_lets_the_maxima_pass_the_total(seed: int, failing: float) -> None:
    """The real sum never passes the total, in the middle of the writes that are sent at once either."""
    fleet = Fleet(seed)
    fleet.run(fleet.total, failing)

    assert max(fleet.maxima) <= fleet.total


@given(seeds, st.sampled_from([0.0, 0.3, 0.8]))
def test_a_sum_above_the_total_never_grows(seed: int, failing: float) -> None:
    """After the total was lowered, or while an unreachable cluster holds too much, the sum only falls."""
    fleet = Fleet(seed)
    total = fleet.total // 2
    fleet.run(total, failing)

    for before, after in zip(fleet.maxima, fleet.maxima[1:], strict=False):
        assert after <= max(before, total)
    assert all(after <= max(fleet.minima[0], total) for after in fleet.minima)


@given(seeds, st.sampled_from([0.0, 0.3, 0.8]))
def test_minima_fall_only_after_others_rose(seed: int, failing: float) -> None:
    """The sum of the minima stays at the lower one of its first and its wanted value.

    Only a minimum above its new maximum falls before.
    """
    fleet = Fleet(seed)
    forced = 0
    for name, goal in fleet.wanted.items():
        bounds = fleet.present[name]
        if bounds is not None:
            forced += max(bounds.minimum - (goal.maximum if goal else 0), 0)
    fleet.run(fleet.total, failing)

    assert min(fleet.minima) >= min(fleet.minima[0], least(fleet.present | fleet.wanted)) - forced


@given(seeds, st.sampled_from([0.0, 0.3, 1.0]))
def test_a_failed_pass_is_completed_by_the_next(seed: int, failing: float) -> None:
    """The next pass begins with the bounds that it reads."""
    fleet = Fleet(seed)
    fleet.run(fleet.total, failing)
    fleet.present, fleet.outcomes = dict(fleet.actual), []
    fleet.run(fleet.total, 0)

    assert fleet.actual == fleet.present | fleet.wanted


@given(seeds, seeds)
def test_order_is_irrelevant(seed: int, other: int) -> None:
    """The same bounds in another order give the same writes."""
    fleet = Fleet(seed)
    shuffler = random.Random(other)
    present, wanted = (
        dict(shuffler.sample(list(hpas.items()), len(hpas))) for hpas in (fleet.present, fleet.wanted)
    )

    assert next_writes(fleet.total, present, wanted) == next_writes(fleet.total, fleet.present, fleet.wanted)


@given(seeds)
def test_few_writes(seed: int) -> None:
    """Without failures only clusters with other bounds are written, and each at most twice."""
    fleet = Fleet(seed)
    fleet.run(fleet.total, 0)

    written = [outcome.write.cluster for outcome in fleet.outcomes]
    assert all(written.count(name) <= 2 for name in written)
    assert all(fleet.present[name] != fleet.wanted[name] for name in written)
