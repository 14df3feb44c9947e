"""Faults of Karmada's FederatedHPA controller that this one does not have."""

from __future__ import annotations

import asyncio

import pytest

from controller.flags import KARMADA
from tests.integration.test_controller_candidates import LABEL, binding
from tests.integration.test_controller_metric_types import (
    by_external,
    serve_external,
)
from tests.support import fakeapi
from tests.support.controller import (
    BINDINGS,
    DEPLOYMENTS,
    HPAS,
    NAMESPACE,
    PERIOD,
    SCALE_PATH,
    federated_hpa,
    reconciliations,
    world,
)
from tests.support.fake_responses import scale_of
from tests.support.fakeapi import Object, eventually

pytestmark = pytest.mark.looptime(noop_cycles=0)


async def test_a_failing_object_is_looked_at_every_period() -> None:
    """There is no back-off: after a hundred failures the period is the same."""
    async with world(m1=2) as w:
        w.hub.refused["GET", SCALE_PATH] = 500
        w.scale()
        async with w.controller(propagation=KARMADA) as controller:
            await asyncio.sleep(100 * PERIOD)
            before = reconciliations(controller)
            await asyncio.sleep(20 * PERIOD)
            last = reconciliations(controller) - before

    assert last >= 20 * 0.9


async def test_a_binding_of_another_namespace_is_not_ours() -> None:
    """Workloads of one name in two namespaces have their own clusters, also under one policy."""
    async with world(m1=2, m2=2) as w:
        w.hub.served.add(BINDINGS[0])
        w.hub.deploy(2, **{LABEL: "p1"})
        w.hub.put(BINDINGS, binding(LABEL, "m2", namespace="elsewhere"))
        w.hub.put(BINDINGS, binding(LABEL, "m1"))
        w.scale()
        async with w.controller(propagation=KARMADA):
            await eventually(lambda: w.status().get("currentReplicas") == 2)

    assert [entry["name"] for entry in w.status()["clusters"]] == ["m1"]


async def test_a_member_without_a_selector_does_not_skew_the_calibration() -> None:
    """A missing cluster adds neither replicas nor pods."""
    async with world(m1=4, m2=4) as w:
        w.hub.deploy(8)
        stored = w.members["m2"].find(DEPLOYMENTS, "web", NAMESPACE)
        assert stored is not None
        bare = {**stored, "spec": {"replicas": 4, "selector": {"matchLabels": {}}}}
        w.members["m2"].pods_follow = False
        w.members["m2"].put(DEPLOYMENTS, bare)
        w.members["m1"].use(100)
        w.scale()
        async with w.controller(propagation=KARMADA):
            # Four pods at twice the target speak for eight: sixteen.
            await eventually(lambda: w.hub.replicas() == 16)
            await eventually(lambda: w.state("m2"))

    assert w.state("m2") == "Missing"


async def test_a_template_leaves_zero_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The replicas of a scale at zero, which is served without the field, are written."""
    whole = scale_of

    def without_zero(obj: Object) -> Object:
        scale = whole(obj)
        return scale if scale["spec"]["replicas"] else {**scale, "spec": {}}

    monkeypatch.setattr(fakeapi, "scale_of", without_zero)
    async with world(m1=0) as w:
        w.hub.deploy(0)
        serve_external(w.members["m1"], 40)
        by_us = {"type": "ScaledToZero", "status": "True", "reason": "ScaledToZero", "message": ""}
        obj = federated_hpa(minReplicas=0, metrics=[by_external(averageValue="10")])
        w.hub.put(HPAS, {**obj, "status": {"conditions": [by_us]}})
        async with w.controller(propagation=KARMADA) as controller:
            await eventually(lambda: w.hub.replicas() == 4)
            await w.reconciles(controller)

    (event,) = w.events("SuccessfulRescale")
    assert event.startswith("New size: 4;")
    assert w.hub.request_count("PUT", SCALE_PATH) == 1


async def test_the_series_of_kubernetes_are_there() -> None:
    """The series of reconciliations, their duration and metric computations are registered."""
    async with world(m1=2) as w:
        w.scale()
        async with w.controller() as controller:
            await w.reconciles(controller)
            names = {metric.name for metric in controller.series.collect()}
            computed = controller.series.get_sample_value(
                "fedhpa_controller_metric_computation_total",
                {"action": "none", "error": "none", "metric_type": "Resource"},
            )

    prefix = "fedhpa_controller_"
    assert {f"{prefix}decisions", f"{prefix}reconciliation_duration_seconds"} <= names
    assert computed
