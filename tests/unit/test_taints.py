"""Taints of Cluster objects are tolerated as Kubernetes tolerates those of nodes."""

from __future__ import annotations

import pytest

from fedhpa.api.taints import Taint, Toleration, tolerated_for

NO_EXECUTE = Taint(key="maintenance", value="network", effect="NoExecute")
NO_SCHEDULE = Taint(key="maintenance", value="network", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "taint", "expected"),
    [
        pytest.param(
            Toleration(key="maintenance", value="network"), NO_SCHEDULE, True, id="equal by default"
        ),
        pytest.param(
            Toleration(key="maintenance", operator="Equal", value="network"), NO_SCHEDULE, True, id="equal"
        ),
        pytest.param(Toleration(key="maintenance", value="power"), NO_SCHEDULE, False, id="another value"),
        pytest.param(Toleration(key="maintenance", operator="Exists"), NO_SCHEDULE, True, id="any value"),
        pytest.param(Toleration(operator="Exists"), NO_EXECUTE, True, id="any taint"),
        pytest.param(
            Toleration(), Taint(effect="NoSchedule"), False, id="an empty toleration tolerates nothing"
        ),
        pytest.param(Toleration(key="other", operator="Exists"), NO_SCHEDULE, False, id="another key"),
        pytest.param(
            Toleration(key="maintenance", operator="Exists", effect="NoExecute"),
            NO_SCHEDULE,
            False,
            id="another effect",
        ),
    ],
)
def test_a_toleration_matches_as_in_kubernetes(toleration: Toleration, taint: Taint, expected: bool) -> None:
    """Key, operator, value and effect of the toleration must match the taint."""
    assert toleration.tolerates(taint) is expected


def test_the_shortest_time_counts() -> None:
    """A taint NoExecute is tolerated for the shortest tolerationSeconds, and for ever without any."""
    short = Toleration(key="maintenance", operator="Exists", seconds=60.0)
    long = Toleration(operator="Exists", seconds=600.0)
    ever = Toleration(operator="Exists")

    assert tolerated_for(NO_EXECUTE, (long, short, ever)) == 60.0
    assert tolerated_for(NO_EXECUTE, (ever,)) is None
    assert tolerated_for(NO_EXECUTE, ()) == 0.0
    assert tolerated_for(NO_EXECUTE, (Toleration(operator="Exists", seconds=-5.0),)) == 0.0


def test_seconds_limit_only_evictions() -> None:
    """A toleration with seconds tolerates a taint NoSchedule for ever."""
    assert tolerated_for(NO_SCHEDULE, (Toleration(operator="Exists", seconds=60.0),)) is None
