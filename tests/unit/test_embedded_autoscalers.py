"""The HPA controller of the embedded plane's members."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from testbed.embedded.api.types import Object
from testbed.embedded.cluster.autoscalers import HPAS, Autoscalers
from testbed.embedded.cluster.metrics import MetricsApis
from tests.support.embedded_member import DEPLOYMENTS, SimulatedMember, condition

REQUEST = {"resources": {"requests": {"cpu": "200m"}}}


class ScaledMember(SimulatedMember):
    """A member with a Deployment, its HPA, and the HPA controller."""

    def __init__(self, replicas: int, **spec: Any) -> None:
        super().__init__()
        self.autoscalers = Autoscalers(
            self.store, MetricsApis(self.store, self.load, lambda: self.now), lambda: self.now
        )
        self.run("web", replicas, REQUEST)
        target = {"type": "Utilization", "averageUtilization": 50}
        self.bounds = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1,
            "maxReplicas": 8,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
            **spec,
        }
        self.settle(60.0)

    def hpa(self) -> None:
        """Creates the HPA."""
        metadata = {"name": "web", "namespace": "shop"}
        self.store.create(
            HPAS,
            {
                "apiVersion": "autoscaling/v2",
                "kind": "HorizontalPodAutoscaler",
                "metadata": metadata,
                "spec": self.bounds,
            },
        )

    def sync(self, seconds: float = 15.0) -> int:
        """Lets the HPA act once after `seconds`, and the pods become ready; returns the replicas."""
        self.now += timedelta(seconds=seconds)
        self.autoscalers.step()
        self.settle()
        return self.replicas()

    def replicas(self) -> int:
        replicas = self.store.get(DEPLOYMENTS, "shop", "web")["spec"]["replicas"]
        assert isinstance(replicas, int)
        return replicas

    def seen(self) -> Object:
        return self.store.get(HPAS, "shop", "web")


def scaled(replicas: int, millis: int, **spec: Any) -> ScaledMember:
    """Returns a member with so many pods under a demand."""
    member = ScaledMember(replicas, **spec)
    member.load.demand("shop", "web", millis)
    member.hpa()
    return member


def test_workload_follows_the_usage_of_its_pods() -> None:
    """Two pods at 200 % of a target of 50 % become four, and the status has usage and conditions."""
    member = scaled(2, 400)

    assert member.sync() == 4
    status = member.seen()["status"]
    assert (status["currentReplicas"], status["desiredReplicas"]) == (2, 4)
    assert status["currentMetrics"][0]["resource"]["current"] == {
        "averageUtilization": 100,
        "averageValue": "200m",
    }
    assert status["lastScaleTime"] == "2026-03-11T13:01:15Z"
    assert [each["type"] for each in status["conditions"]] == [
        "AbleToScale",
        "ScalingActive",
        "ScalingLimited",
    ]
    assert member.sync() == 4


def test_pinned_hpa_says_since_when() -> None:
    """At its maximum the HPA has ScalingLimited=True, and the time of that condition stays."""
    member = scaled(2, 4000, maxReplicas=4)
    member.sync()
    first = condition(member.seen(), "ScalingLimited")
    member.sync()

    assert (first["status"], first["reason"]) == ("True", "TooManyReplicas")
    assert condition(member.seen(), "ScalingLimited")["lastTransitionTime"] == first["lastTransitionTime"]
    assert member.replicas() == 4


def test_scale_down_waits_for_the_window() -> None:
    """After the load fell, the size stays for five minutes."""
    member = scaled(2, 400)
    member.sync()
    member.load.demand("shop", "web", 20)

    assert {member.sync() for _ in range(17)} == {4}
    assert member.sync(60.0) < 4


def test_raised_minimum_is_followed_and_zero_is_left_alone() -> None:
    """Bounds apply at the next sync. A workload of 0 replicas is not scaled."""
    member = scaled(1, 20, minReplicas=3)

    assert member.sync() == 3
    member.resize("web", 0)
    member.settle()
    assert member.sync() == 0
    assert condition(member.seen(), "ScalingActive")["reason"] == "ScalingDisabled"


def test_hpa_without_its_workload_says_so_and_stops_no_other() -> None:
    """A missing workload is a condition of its HPA. An unreadable HPA is skipped."""
    member = scaled(2, 400)
    for name, kind in (("alone", "Deployment"), ("broken", "Gadget")):
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": name}
        spec = {**member.bounds, "scaleTargetRef": reference}
        member.store.create(HPAS, {"metadata": {"name": name, "namespace": "shop"}, "spec": spec})

    assert member.sync() == 4
    alone = member.store.get(HPAS, "shop", "alone")
    assert condition(alone, "AbleToScale")["reason"] == "FailedGetScale"


@pytest.mark.parametrize("metrics", [[], None])
def test_hpa_without_metrics_uses_the_default(metrics: list[Any] | None) -> None:
    """Without metrics the target is cpu at 80 % of the requests."""
    assert scaled(2, 400, metrics=metrics).sync() == 3
