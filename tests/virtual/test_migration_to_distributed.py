"""The steps of docs/how-to/migrate-from-hpa.md, "To mode Distributed", one by one: no pod is missed.

The real controller runs in virtual time over members whose HPAs somebody made.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks.closed_loop.actions import Action
from benchmarks.closed_loop.running import Running, quiet
from benchmarks.closed_loop.ways import DISTRIBUTED, started
from benchmarks.closed_loop.worlds import World, several, steps
from benchmarks.world.cluster import AUTOSCALING, HPAS, NAME, NAMESPACE, Cluster
from benchmarks.world.hub import FEDERATED, FEDERATED_HPAS
from benchmarks.world.loop import VirtualLoop
from fedhpa.cli.migrate import federated_hpa

PAGE: Final = Path(__file__).parents[2] / "docs/how-to/migrate-from-hpa.md"
# 12 pods serve it within the tolerance.
WORLD: Final = World("migration", "", several(3, 12), steps((0, 5.8)), minimum=6, maximum=30)
NAMES: Final = ("m1", "m2", "m3")
APPLIED, FIRST, BETWEEN = 300, 600, 180


def section() -> str:
    """The part of the page about mode Distributed."""
    return PAGE.read_text(encoding="utf-8").partition("## To mode Distributed")[2].partition("\n## ")[0]


def label_of_the_page() -> dict[str, str]:
    """The label that step 3 says to set."""
    (found,) = re.findall(r"label hpa web (\S+)=(\w+)`", section())
    return {found[0]: found[1]}


def hpa(cluster: Cluster) -> dict[str, Any]:
    """The HPA of a member; {} without one."""
    return cluster.store.find(AUTOSCALING, HPAS, NAME, NAMESPACE) or {}


class Migration:
    """A run along the page: HPAs, the object, one hand-over after the other, and a way back."""

    def __init__(self, folder: Path, hand_over: Callable[[Cluster], None], maximum: int, back: str) -> None:
        self._folder, self._hand_over, self._maximum, self._back = folder, hand_over, maximum, back
        self.ready: list[int] = []
        # The HPAs of each cluster: spec and owner, second by second.
        self.hpas: dict[str, list[dict[str, Any]]] = {name: [] for name in NAMES}
        self.shown: list[dict[str, Any]] = []
        self.replicas: list[dict[str, int]] = []

    def run(self, seconds: int) -> None:
        """Follows the page for so long."""
        loop = VirtualLoop()
        try:
            with quiet():
                loop.run_until_complete(self._run(seconds))
        finally:
            loop.close()

    async def _run(self, seconds: int) -> None:
        async with started(WORLD, DISTRIBUTED, self._folder) as running:
            assert running.hub is not None
            running.hub.store.delete(FEDERATED, FEDERATED_HPAS, NAME, NAMESPACE, {})
            for name, cluster in running.fleet.clusters.items():
                cluster.add_hpa(2, self._maximum if name == "m1" else 10, 50)
            events: list[tuple[float, Action]] = [(APPLIED, self._apply), (seconds - 300, self._leave)]
            events += [(FIRST + number * BETWEEN, self._handed(name)) for number, name in enumerate(NAMES)]
            looks = [(float(second), self._look) for second in range(seconds - 1)]
            await running.run(seconds, [*events, *looks])

    def _apply(self, run: Running) -> None:
        """Steps 1 and 2: the printed object with mode, policy and the bounds of all, without dryRun."""
        assert run.hub is not None
        printed = federated_hpa(hpa(run.fleet.clusters["m1"])).federated["spec"]
        assert printed.pop("dryRun") is True
        policy = {"federatedHPAAssignmentType": "StaticWeighted"}
        mode = {"mode": "Distributed", "federatedHPAAssignment": policy}
        run.hub.apply({**printed, **mode, "minReplicas": 6, "maxReplicas": 30})

    def _handed(self, name: str) -> Callable[[Running], None]:
        """Step 3 for one cluster."""
        return lambda run: run.on(name, self._hand_over)

    def _leave(self, run: Running) -> None:
        """The last paragraph of the page."""
        assert run.hub is not None
        if self._back == "delete":
            run.hub.store.delete(FEDERATED, FEDERATED_HPAS, NAME, NAMESPACE, {})
        else:
            run.change({"mode": "Centralized"})

    def _look(self, run: Running) -> None:
        assert run.hub is not None
        clusters = run.fleet.clusters
        self.ready.append(sum(one.ready for one in clusters.values()))
        self.replicas.append({name: one.replicas for name, one in clusters.items()})
        self.shown.append(run.hub.status)
        for name, one in clusters.items():
            self.hpas[name].append(hpa(one))

    def assigned(self, second: int) -> tuple[str, str]:
        """Reason and message of the condition Assigned at a second."""
        found = {one["type"]: one for one in self.shown[second].get("conditions") or ()}
        return found["Assigned"]["reason"], found["Assigned"]["message"]


@pytest.mark.parametrize("maximum", [10, 100])
@pytest.mark.parametrize(("way", "back"), [("label", "delete"), ("deletion", "Centralized")])
def test_each_step_of_the_page(tmp_path: Path, way: str, back: str, maximum: int) -> None:
    """Each cluster keeps an HPA and its pods, whatever the maximum of the HPA before was."""
    label = label_of_the_page()
    by_label: Callable[[Cluster], None] = lambda one: one.label_hpa(label)  # noqa: E731
    found = Migration(tmp_path, by_label if way == "label" else Cluster.delete_hpa, maximum, back)
    end = FIRST + 3 * BETWEEN + 360
    found.run(end)

    assert min(found.ready) == 12
    # Step 2: each cluster keeps its HPA, and the condition names these clusters.
    reason, message = found.assigned(FIRST - 1)
    assert reason == "NotOwned"
    assert all(name in message for name in NAMES)
    for number, name in enumerate(NAMES):
        at = FIRST + number * BETWEEN
        before, seen = found.hpas[name][APPLIED - 1], found.hpas[name]
        assert all(one["spec"] == before["spec"] for one in seen[APPLIED:at])
        # Step 3: it is the controller's within a minute, and what runs there stays.
        taken = seen[at + 60]
        assert label.items() <= taken["metadata"]["labels"].items()
        assert taken["metadata"]["annotations"]["fedhpa.io/owner"].startswith("hub/shop/web/")
        assert (taken["metadata"]["uid"] == before["metadata"]["uid"]) == (way == "label")
        assert {sizes[name] for sizes in found.replicas} == {4}
        if number < 2:
            reason, message = found.assigned(at + 90)
            assert reason == "NotOwned"
            assert name not in message.partition(":")[0]
    second = end - 301
    assert found.assigned(second)[0] == "Assigned"
    assert sum(one[second]["spec"]["maxReplicas"] for one in found.hpas.values()) == 30
    # To go back: the HPAs are removed, and the replicas stay as they run.
    assert [found.hpas[name][-1] for name in NAMES] == [{}, {}, {}]
    assert set(found.replicas[-1].values()) == {4}
