"""On a shared hub the controller reports other actors and does not compete with them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controller.hub_check import CRD_PATH, OUR_PATHS, is_foreign, pruned_paths
from fedhpa.admission.crd import FEDERATED_HPA, custom_resource_definition
from fedhpa.api.times import format_time
from tests.support import karmada_crds
from tests.support.controller import HPAS, NAMESPACE, Controller, ControllerWorld, world
from tests.support.fakeapi import Object, eventually

pytestmark = pytest.mark.looptime(noop_cycles=0)

VALIDATING = ("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations")


def karmadas_crd() -> Object:
    """A CRD with only Karmada's fields."""
    known: Object = {
        "spec": {"properties": {"scaleTargetRef": {}, "minReplicas": {}, "maxReplicas": {}, "metrics": {}}},
        "status": {"properties": {"conditions": {}, "currentReplicas": {}}},
    }
    schema = {"openAPIV3Schema": {"properties": known}}
    named = {"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1"}
    return {**named, "spec": {"versions": [{"name": "v1alpha1", "served": True, "schema": schema}]}}


def registration(name: str, webhook: str, resource: str = "federatedhpas") -> Object:
    rule = {"apiGroups": ["autoscaling.karmada.io"], "apiVersions": ["*"], "resources": [resource]}
    rules = [{**rule, "operations": ["CREATE"]}]
    return {"metadata": {"name": name}, "webhooks": [{"name": webhook, "rules": rules}]}


def finding(controller: Controller, reason: str) -> float | None:
    return controller.series.get_sample_value("fedhpa_controller_hub_finding", {"reason": reason})


def written_by_karmada(w: ControllerWorld, seconds_ago: float = 0.0) -> None:
    """Write the object's status as Karmada's controller manager, visible in its managed fields."""
    stored = w.hub.find(HPAS, "web", NAMESPACE)
    assert stored is not None
    entry = {
        "manager": "karmada-controller-manager",
        "operation": "Update",
        "subresource": "status",
        "time": format_time(w.clock.wall() // 1 - seconds_ago),
    }
    w.hub.put(HPAS, {**stored, "metadata": {**stored["metadata"], "managedFields": [entry]}})


def test_our_own_crd_keeps_all_fields() -> None:
    """The generated CRDs have no finding."""
    definition: Any = custom_resource_definition(FEDERATED_HPA)

    assert pruned_paths(definition, OUR_PATHS) == []
    assert not is_foreign(definition)


def test_each_field_that_karmada_lacks_is_checked() -> None:
    """No field of Karmada's is."""
    own = custom_resource_definition(FEDERATED_HPA)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    theirs = karmada_crds.FEDERATED_HPA["properties"]
    lacking = [
        f"{part}.{name}"
        for part in ("spec", "status")
        for name in own["properties"][part]["properties"]
        if name not in theirs[part]["properties"]
    ]

    assert sorted(OUR_PATHS) == sorted(lacking)


def test_a_crd_without_a_newer_field_is_not_foreign() -> None:
    """The doctor calls it outdated. The controller names the field all the same."""
    definition: Any = custom_resource_definition(FEDERATED_HPA)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"].pop("scaleAssist")

    assert pruned_paths(definition, OUR_PATHS) == ["spec.scaleAssist"]
    assert not is_foreign(definition)


async def test_a_schema_that_drops_our_fields_is_told() -> None:
    """Condition, event and series report pruned fields, and the workload is scaled all the same.

    They come before fields of a newer release, which the same condition names.
    """
    async with world(m1=2) as w:
        w.hub.answers[CRD_PATH] = karmadas_crd
        w.load(200)
        w.scale(addedLater=1)
        async with w.controller() as controller:
            await eventually(lambda: w.condition("HubCompatible")[:2] == ("False", "FieldsPruned"))
            await eventually(lambda: w.events("FieldsPruned"))
            await eventually(lambda: w.replicas == {"m1": 4})
            shown = finding(controller, "FieldsPruned")

    assert "spec.dryRun" in w.condition("HubCompatible")[2]
    assert "status.clusters" in w.condition("HubCompatible")[2]
    assert "spec.addedLater" in w.condition("HubCompatible")[2]
    assert shown == 1


async def test_a_hub_that_drops_our_fields_works_and_is_rarely_written() -> None:
    """With Karmada's CRD Ready says what is dropped, and the status is written as rarely as elsewhere."""
    async with world(m1=2) as w:
        w.hub.answers[CRD_PATH] = karmadas_crd
        store = w.hub.put

        def put(collection: Any, obj: Object) -> Object:
            if collection == HPAS and "status" in obj:
                kept = karmadas_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
                known = kept["status"]["properties"]
                obj = {**obj, "status": {key: obj["status"][key] for key in known if key in obj["status"]}}
            return store(collection, obj)

        w.hub.put = put  # type: ignore[method-assign]  # the hub's API server prunes
        w.scale()
        async with w.controller() as controller:
            await eventually(lambda: w.condition("Ready")[:2] == ("False", "FieldsPruned"), 600)
            writes = w.status_writes
            await w.reconciles(controller, 30)
            written = w.status_writes - writes
            told = w.condition("Ready")[2]

    assert set(w.status()) == {"conditions", "currentReplicas"}
    assert "status.summary" in told
    assert written <= 2


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (registration("validating-config", "federatedhpa.karmada.io"), True),
        (registration("fedhpa-webhook", "federatedhpa.karmada.io"), False),
        (registration("validating-config", "cronfederatedhpa.karmada.io", "cronfederatedhpas"), False),
        (registration("policies", "policy.example.org"), False),
    ],
    ids=["karmada's", "ours", "other kind", "other name"],
)
async def test_another_webhook_is_told(found: Object, told: bool) -> None:
    """Only a webhook of Karmada for our kind is reported, not ours and not a policy webhook. The details of
    its rules are those of tests/unit/test_foreign_webhooks.py.
    """
    async with world(m1=2) as w:
        w.hub.put(VALIDATING, found)
        w.scale()
        async with w.controller() as controller:
            await w.reconciles(controller, 4)
            shown = finding(controller, "ForeignWebhook")

    assert w.condition("HubCompatible")[:2] == (("False", "ForeignWebhook") if told else ("", ""))
    assert shown == told


async def test_another_controller_is_not_fought() -> None:
    """While Karmada's controller writes the status nothing is scaled; some time after that it is."""
    async with world(m1=2) as w:
        w.load(400)
        w.scale()
        written_by_karmada(w)
        async with w.controller(sync_period=3.0) as controller:
            await eventually(lambda: w.condition("ScalingActive")[:2] == ("False", "AnotherController"))
            shown = finding(controller, "AnotherController")
            writes = w.status_writes
            for _ in range(20):
                written_by_karmada(w)
                await asyncio.sleep(3)
            held, written = dict(w.replicas), w.status_writes - writes
            await eventually(lambda: w.replicas == {"m1": 8}, 600)
            after = finding(controller, "AnotherController")

    assert held == {"m1": 2}
    assert written <= 2
    assert (shown, after) == (1, 0)
    assert "karmada-controller-manager" in w.events("AnotherController")[0]


async def test_a_new_leader_knows_of_the_other_controller() -> None:
    """A new leader scales nothing either, although our status has replaced the other's managed fields."""
    async with world(m1=2) as w:
        w.load(400)
        w.scale()
        written_by_karmada(w)
        async with w.controller(sync_period=3.0):
            await eventually(lambda: w.condition("ScalingActive")[:2] == ("False", "AnotherController"))
        stored = w.hub.find(HPAS, "web", NAMESPACE)
        assert stored is not None
        w.hub.put(HPAS, {**stored, "metadata": {**stored["metadata"], "managedFields": []}})
        async with w.controller(sync_period=1.5) as controller:
            await w.reconciles(controller, 5)
            held = dict(w.replicas)
            await eventually(lambda: w.replicas == {"m1": 8}, 600)

    assert held == {"m1": 2}


async def test_a_controller_that_stopped_long_ago_is_no_rival() -> None:
    """Old managed fields of Karmada's controller do not count."""
    async with world(m1=2) as w:
        w.load(200)
        w.scale()
        written_by_karmada(w, seconds_ago=3600)
        async with w.controller():
            await eventually(lambda: w.replicas == {"m1": 4})
            await eventually(lambda: w.condition("ScalingActive")[0] == "True")


async def test_a_hub_that_shows_nothing_is_not_blamed() -> None:
    """Without permission for the checks nothing is reported."""
    async with world(m1=2) as w:
        w.hub.refused["GET", "/validatingwebhookconfigurations"] = 403
        w.hub.refused["GET", CRD_PATH] = 403
        w.scale()
        async with w.controller() as controller:
            await w.reconciles(controller, 4)

    assert w.condition("HubCompatible") == ("", "", "")
