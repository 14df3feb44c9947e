"""A Cluster that is deleted while it runs replicas stays on the hub until these run in other clusters.

The real controller, mode Centralized, runs in emulated fleets in virtual time.
"""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.closed_loop.actions import Action, controller_killed, deleted
from benchmarks.closed_loop.running import Running
from benchmarks.closed_loop.worlds import World, limited
from benchmarks.world.hub import CLUSTERS
from tests.virtual.test_clusters_leave import Watched, fleet, slow

FINALIZER = "fedhpa.io/replicas-leave-0-of-1"
HOUR = 3600


class Deletion(Watched):
    """A run in which the finalizers of Cluster m2 are read each second; None without the Cluster."""

    def __init__(self, world: World, minutes: float) -> None:
        self.finalizers: list[list[str] | None] = []
        super().__init__(world, minutes)

    def _look(self, run: Running) -> None:
        super()._look(run)
        assert run.hub is not None
        found = run.hub.store.find(CLUSTERS, "clusters", "m2")
        self.finalizers.append(None if found is None else found["metadata"].get("finalizers", []))

    @property
    def gone_at(self) -> int:
        """The first second without the Cluster."""
        return self.finalizers.index(None)

    def of_cluster(self, reason: str) -> list[dict[str, Any]]:
        """The events of a reason about Cluster m2."""
        return [
            event
            for event in self.events
            if event["reason"] == reason and event["involvedObject"]["kind"] == "Cluster"
        ]


@pytest.mark.parametrize(
    "between",
    [
        pytest.param((), id="alone"),
        pytest.param(tuple((second, controller_killed()) for second in (301.0, 340.0, 420.0)), id="restarts"),
    ],
)
def test_a_deleted_cluster_is_emptied_first(between: tuple[tuple[float, Action], ...]) -> None:
    """At the maximum and with slow pods, at most a step of ready pods is missed. Then the Cluster goes."""
    found = Deletion(fleet((300, deleted("m2")), *between), 20)

    found.assert_kind()
    assert found.at(5) == (4, 4, 4)
    assert found.at(19) == (6, 0, 6)
    assert found.finalizers[290] == [FINALIZER]
    assert found.sizes[found.gone_at - 30]["m2"] in (0, 1)
    assert found.sizes[found.gone_at]["m2"] == 0
    assert found.gone_at - next(n for n, one in enumerate(found.sizes) if one["m2"] == 0) <= 15
    entry = found.status(7, "m2")
    assert entry is not None
    assert entry["membership"] == "Leaving"
    assert "its Cluster is being deleted" in entry["waitsFor"]
    assert len(found.of_cluster("ReplicasLeave")) >= 1
    assert found.of_cluster("ReplicasLeftBehind") == []


def test_where_no_other_cluster_has_room_the_cluster_goes_after_an_hour() -> None:
    """Its replicas go on running there, and an event names them."""
    clusters = limited(limited(slow(), "m1", 4), "m3", 4)
    found = Deletion(fleet((300, deleted("m2")), clusters=clusters), 70)

    assert 300 + HOUR <= found.gone_at <= 300 + HOUR + 10
    assert found.sizes[found.gone_at]["m2"] >= 3
    (event,) = found.of_cluster("ReplicasLeftBehind")
    assert event["type"] == "Warning"
    assert "shop/web" in event["message"]
