"""New bounds are written only when they matter; a quiet fleet gets no writes."""

from __future__ import annotations

from fractions import Fraction

import pytest

from fedhpa.assignment.due import is_due, recently_scaled
from fedhpa.assignment.shares import Bounds, MemberState

NOW = 10_000.0


def bounds(**maxima: int | None) -> dict[str, Bounds | None]:
    """Returns bounds with a minimum of 1 for each cluster; None for no HPA."""
    return {
        cluster: None if most is None else Bounds(minimum=1, maximum=most) for cluster, most in maxima.items()
    }


CALM = [MemberState(cluster="a", running=3), MemberState(cluster="b", running=2)]
PINNED = [MemberState(cluster="a", running=6, need=9), MemberState(cluster="b", running=2)]
PENDING = [MemberState(cluster="a", running=4, pending=2), MemberState(cluster="b", running=2)]


@pytest.mark.parametrize("members", [CALM, PINNED, PENDING])
@pytest.mark.parametrize("changed", [False, True])
def test_no_difference_is_never_written(members: list[MemberState], changed: bool) -> None:
    """Neither a changed spec nor a pinned cluster makes a write of equal bounds."""
    assert not is_due(bounds(a=6, b=6), bounds(a=6, b=6), members, changed=changed)


def test_a_quiet_fleet_is_left_alone() -> None:
    """Replicas that come and go change the computed maxima, but nothing is written."""
    assert not is_due(bounds(a=6, b=6), bounds(a=7, b=5), CALM, changed=False)
    assert not is_due(bounds(a=6, b=None), bounds(a=6, b=3), CALM, changed=False)


def test_a_changed_spec_is_written() -> None:
    """Every difference counts after a change of the spec or the candidates, a loss or a return."""
    assert is_due(bounds(a=6, b=6), bounds(a=7, b=5), CALM, changed=True)
    assert is_due(bounds(a=6), bounds(a=6, b=5), CALM, changed=True)


def test_a_pinned_cluster_that_may_grow_is_written() -> None:
    """A result that lets it grow is written; one that only moves room between the others is not."""
    assert is_due(bounds(a=6, b=6), bounds(a=8, b=4), PINNED, changed=False)
    assert not is_due(bounds(a=6, b=6, c=2), bounds(a=6, b=5, c=3), PINNED, changed=False)
    assert not is_due(bounds(a=6, b=6), bounds(a=5, b=7), PINNED, changed=False)


def test_a_pending_cluster_passes_its_share_on() -> None:
    """Its maximum falls to what runs there; a result that raises it again is not written."""
    assert is_due(bounds(a=6, b=6), bounds(a=4, b=8), PENDING, changed=False)
    assert not is_due(bounds(a=4, b=8), bounds(a=5, b=7), PENDING, changed=False)


@pytest.mark.parametrize("members", [PINNED, PENDING])
def test_an_hpa_that_comes_to_help_is_written(members: list[MemberState]) -> None:
    """A cluster without an HPA gets one for room that nobody else can take."""
    assert is_due(bounds(a=6, b=6, c=None), bounds(a=6, b=6, c=4), members, changed=False)
    assert is_due(bounds(a=6, b=6, c=4), bounds(a=6, b=6, c=None), members, changed=False)


@pytest.mark.parametrize(
    ("member", "scaled_at", "load", "expected"),
    [
        (MemberState(cluster="a", running=4), NOW - 119, Fraction(4), True),
        (MemberState(cluster="a", running=4), NOW - 120, Fraction(4), False),
        (MemberState(cluster="a", running=4), NOW - 5, Fraction(39, 10), False),
        (MemberState(cluster="a", running=4), NOW - 5, None, True),
        (MemberState(cluster="a", running=4), None, Fraction(9), False),
        (MemberState(cluster="a", running=4, pending=1), NOW - 5, Fraction(9), False),
        (MemberState(cluster="a", running=4), NOW + 60, Fraction(4), True),
        (MemberState(cluster="a", running=4), NOW + 61, Fraction(4), False),
    ],
)
def test_two_minutes_after_scaling_a_maximum_is_kept(
    member: MemberState, scaled_at: float | None, load: Fraction | None, expected: bool
) -> None:
    """It is kept while usage is at or above target and nothing is pending; clocks may differ by a minute."""
    found = recently_scaled([member], {"a": scaled_at}, {"a": load}, NOW, overruled=False)

    assert found == ({"a"} if expected else set())


def test_a_loss_or_a_lowered_maximum_overrules() -> None:
    """Then no maximum is kept."""
    busy = MemberState(cluster="a", running=4)

    assert not recently_scaled([busy], {"a": NOW}, {"a": Fraction(9)}, NOW, overruled=True)
