"""The controller sizes a workload by its usage in all members and reports it."""

from __future__ import annotations

import asyncio

import pytest

from controller.flags import KARMADA
from tests.support.controller import HPAS, NAMESPACE, SCALE_PATH, ControllerWorld, federated_hpa, world
from tests.support.fakeapi import eventually
from tests.support.members import DEADLINE

pytestmark = pytest.mark.looptime(noop_cycles=0)


def duplicate(w: ControllerWorld) -> None:
    """Set every member to the template's replicas, as Karmada's Duplicated does."""

    def spread() -> None:
        for member in w.members.values():
            if member.replicas() != w.hub.replicas():
                member.deploy(w.hub.replicas())

    w.hub.resized = spread


async def test_status_tells_what_was_done_and_why() -> None:
    """After a scale-up the status has the sizes, the conditions, each cluster and the decision."""
    async with world(m1=2, m2=2) as w:
        w.load(400)
        w.scale()
        async with w.controller():
            await eventually(lambda: w.status().get("desiredReplicas") == 8)
            status = w.status()
            await eventually(lambda: w.events("SuccessfulRescale"))

        reason = "cpu resource utilization (percentage of request) above target"
        conditions = {entry["type"]: (entry["status"], entry["reason"]) for entry in status["conditions"]}
        clusters = [
            (entry["name"], entry.get("state"), entry["currentReplicas"], entry["desiredReplicas"])
            for entry in status["clusters"]
        ]
        assert status["currentReplicas"] == 4
        assert status["observedGeneration"] == 1
        assert status["lastScaleTime"]
        assert conditions == {
            "AbleToScale": ("True", "SucceededRescale"),
            "ScalingActive": ("True", "ValidMetricFound"),
            "ScalingLimited": ("False", "DesiredWithinRange"),
            "ScaledToZero": ("False", "NotScaledToZero"),
            "MetricsComplete": ("True", "AllClustersAnswered"),
            "Ready": ("True", "Reconciled"),
        }
        assert w.condition("Ready")[2] == f"scale 4 -> 8 replicas; reason: {reason}"
        assert status["summary"] == {
            "targets": "cpu: 100%/50%",
            "clusters": "2/2",
            "min": "1",
            "max": "20",
            "reason": reason,
            "propagation": "direct",
            "selector": "app=web",
        }
        assert clusters == [("m1", None, 2, 4), ("m2", None, 2, 4)]
        assert w.record()["decision"]["reason"] == reason
        assert w.record()["decision"]["rescale"] is True
        assert [entry["change"] for entry in w.record()["state"]["history"]["scaleUps"]] == [4]
        assert w.events("SuccessfulRescale") == [f"New size: 8; reason: {reason}; m1 2 -> 4, m2 2 -> 4"]


async def test_template_is_scaled_for_all_members_at_once() -> None:
    """With --propagation=karmada only the template is scaled, and Duplicated replicas count once."""
    async with world(m1=3, m2=3) as w:
        w.hub.deploy(3)
        duplicate(w)
        w.load(600)
        w.scale()
        async with w.controller(propagation=KARMADA) as controller:
            await eventually(lambda: w.hub.replicas() == 6)
            await eventually(lambda: w.status().get("currentReplicas") == 6)
            await w.reconciles(controller)

        assert w.hub.replicas() == 6
        assert w.hub.request_count("PUT", SCALE_PATH) == 1
        assert [member.writes for member in w.members.values()] == [[], []]


async def test_changed_spec_is_looked_at_at_once() -> None:
    """A changed maximum applies at once, not after the period."""
    async with world(m1=4, m2=4) as w:
        w.scale()
        async with w.controller(sync_period=60.0):
            await eventually(lambda: w.status().get("currentReplicas") == 8)
            w.scale(maxReplicas=6)
            await eventually(lambda: w.replicas == {"m1": 3, "m2": 3})


async def test_dry_run_shows_and_does_not_write() -> None:
    """With spec.dryRun the desired size is in the status, and the workload stays as it is."""
    async with world(m1=2, m2=2) as w:
        w.load(400)
        w.scale(dryRun=True)
        async with w.controller() as controller:
            await eventually(lambda: w.status().get("desiredReplicas") == 8)
            await w.reconciles(controller)
            shown = controller.value("fedhpa_controller_dry_run")
            told = w.events("DryRun")

        assert shown == 1.0
        assert told == [
            "New size would be: 8; reason: cpu resource utilization (percentage of request) above target"
        ]
        assert w.replicas == {"m1": 2, "m2": 2}
        assert [member.writes for member in w.members.values()] == [[], []]
        assert w.record()["decision"]["rescale"] is False


async def test_deleted_object_is_left_alone() -> None:
    """The workload of a deleted autoscaler is not scaled, and its series are removed."""
    async with world(m1=2) as w:
        w.scale()
        async with w.controller() as controller:
            await w.reconciles(controller)
            w.hub.remove(("autoscaling.karmada.io/v1alpha1", "federatedhpas"), "web", "shop")
            series = "fedhpa_controller_desired_replicas"
            before = controller.total("fedhpa_cluster_replicas")
            await eventually(lambda: controller.value(series) is None)
            after = controller.total("fedhpa_cluster_replicas")
            w.load(400)

        assert (before, after) == (4, 0)
        assert w.replicas == {"m1": 2}


async def test_object_deleted_while_it_is_reconciled() -> None:
    """A reconcile whose object is deleted meanwhile ends without a failure, also beside other objects."""
    async with world(m1=2) as w:
        w.scale()
        w.hub.put(HPAS, federated_hpa("other", target="other"))
        async with w.controller() as controller:
            await w.reconciles(controller)
            member = w.members["m1"]
            member.seen.clear()
            member.faults.hang.add("/apis/metrics.k8s.io")
            await eventually(lambda: any("metrics.k8s.io" in seen.path for seen in member.seen))
            w.hub.remove(HPAS, "web", NAMESPACE)
            await asyncio.sleep(10 * DEADLINE)

            assert controller.total("fedhpa_controller_reconcile_failures_total") == 0
