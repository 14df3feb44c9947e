"""The registration's matchConditions skip requests on the real API server."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator

import pytest

from testbed.real.plane import Plane
from testbed.stage.api import PlaneApi
from testbed.stage.processes import WEBHOOK, Processes
from testbed.stage.waiting import eventually
from tests.real.settling import done, kubectl, settled
from tests.real.workloads import federated_hpa, federated_hpa_path

VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/fedhpa-webhook"
MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/fedhpa-webhook"
MERGE = "application/merge-patch+json"
STATUS = {"status": {"desiredReplicas": 2, "currentMetrics": None}}


@pytest.fixture
async def hub(plane: Plane) -> AsyncIterator[PlaneApi]:
    async with plane.hub.api() as api:
        yield api


async def test_the_configurations_are_stored_as_they_were_written(
    hub: PlaneApi, plane: Plane, processes: Processes
) -> None:
    """The API server stores every field: conditions, policies, rules and timeout."""
    conditions = [
        {"name": "not-on-its-way-out", "expression": "!has(object.metadata.deletionTimestamp)"},
        {"name": "not-a-subresource", "expression": "!has(request.subResource) || request.subResource == ''"},
    ]
    stored = (await hub.get(MUTATING))["webhooks"] + (await hub.get(VALIDATING))["webhooks"]

    assert [
        (hook["name"], hook["failurePolicy"], hook["matchPolicy"], hook["timeoutSeconds"]) for hook in stored
    ] == [
        ("autoscaling.karmada.io", "Ignore", "Equivalent", 3),
        ("federatedhpa.karmada.io", "Fail", "Equivalent", 3),
        ("cronfederatedhpa.karmada.io", "Fail", "Equivalent", 3),
    ]
    assert all(hook["matchConditions"][:2] == conditions for hook in stored)
    assert [len(hook["matchConditions"]) for hook in stored] == [3, 2, 2]


@pytest.mark.parametrize(("manager", "called"), [("fedhpa-cron", False), ("kubectl-edit", True)])
async def test_the_defaults_are_not_asked_for_the_writes_of_a_controller(
    hub: PlaneApi, plane: Plane, processes: Processes, manager: str, called: bool
) -> None:
    """The audit log names the mutating webhooks that the API server called for a patch."""
    path = federated_hpa_path(f"bounds-{manager}", "default")
    await hub.apply_all([federated_hpa(f"bounds-{manager}", "default", low=1, high=3)])
    patch = {"spec": {"minReplicas": 2}}
    await hub.send("PATCH", path, body=patch, content_type=MERGE, params={"fieldManager": manager})

    async def recorded() -> list[dict[str, str]]:
        return [
            event.get("annotations", {})
            for event in plane.hub.audit_events()
            if event["requestURI"] == f"{path}?fieldManager={manager}"
        ]

    (annotations,) = await settled(recorded, bool)
    await hub.delete(path)

    assert any(name.startswith("mutation.webhook.admission.k8s.io/") for name in annotations) is called


async def test_what_is_being_deleted_loses_its_finalizer_while_the_webhook_is_down(
    hub: PlaneApi, plane: Plane, processes: Processes
) -> None:
    """While the webhook is down, the condition admits changes of an object that is being deleted, and of no
    other object.
    """
    held = {name: federated_hpa(name, "default", low=1, high=3) for name in ("going", "staying")}
    for manifest in held.values():
        manifest["metadata"]["finalizers"] = ["example.com/hold"]
        await hub.apply_all([manifest])
    released = {"metadata": {"finalizers": None}}
    staying = federated_hpa_path("staying", "default")
    deleted = await kubectl(plane.hub, "delete", "fhpa", "going", "--wait=false")

    assert deleted.code == 0, deleted.err

    await processes.kill(WEBHOOK)
    try:
        refused, _, answer = await settled(
            lambda: hub.request("PATCH", staying, body=released, content_type=MERGE),
            lambda found: found[0] == 500,
        )
        await hub.patch(federated_hpa_path("going", "default"), released)
        gone = await hub.find(federated_hpa_path("going", "default"))
    finally:
        await processes.start_one(WEBHOOK)
        await processes.webhook_is_called()
        await done(lambda: hub.patch(staying, released), "what stays loses its finalizer")
        await hub.delete(staying)

    assert gone is None
    assert refused == 500
    assert b"failed calling webhook" in answer


async def test_a_status_is_kept_away_even_where_the_rules_name_it(
    hub: PlaneApi, plane: Plane, processes: Processes
) -> None:
    """While the webhook is down, the condition for subresources admits a status that the rules name. Without
    the condition the write fails.
    """
    path = federated_hpa_path("status-passes", "default")
    await hub.apply_all([federated_hpa("status-passes", "default", low=1, high=3)])
    before = (await hub.get(VALIDATING))["webhooks"]
    wide = copy.deepcopy(before)
    wide[0]["rules"][0]["resources"] = ["federatedhpas", "federatedhpas/status"]
    unconditional = copy.deepcopy(wide)
    del unconditional[0]["matchConditions"][1]

    async def status_code() -> int:
        status, _, _ = await hub.request("PATCH", f"{path}/status", body=STATUS, content_type=MERGE)
        return status

    async def fails() -> bool:
        return await status_code() == 500

    async def passes() -> bool:
        return await status_code() == 200

    await processes.kill(WEBHOOK)
    try:
        await hub.patch(VALIDATING, {"webhooks": unconditional})
        await eventually(fails, what="without the condition the status is judged", seconds=60)
        await hub.patch(VALIDATING, {"webhooks": wide})
        await eventually(passes, what="with it it is not", seconds=60)
    finally:
        await done(lambda: hub.patch(VALIDATING, {"webhooks": before}), "the registration is as before")
        await processes.start_one(WEBHOOK)
        await processes.webhook_is_called()
        await hub.delete(path)
