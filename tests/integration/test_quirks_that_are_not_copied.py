"""Faults of Karmada's FederatedHPA controller that this one does not have."""

from __future__ import annotations

import pytest

from controller.flags import KARMADA
from tests.integration.test_controller_metric_types import (
    by_external,
    serve_external,
)
from tests.support import fakeapi
from tests.support.controller import (
    DEPLOYMENTS,
    HPAS,
    NAMESPACE,
    SCALE_PATH,
    federated_hpa,
    world,
)
from tests.support.fake_responses import scale_of
from tests.support.fakeapi import Object, eventually

pytestmark = pytest.mark.looptime(noop_cycles=0)


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
