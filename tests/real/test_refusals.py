"""The schema and the webhook refuse wrong objects with readable messages."""

import json
from typing import Any

import pytest

from testbed.real.plane import Plane
from testbed.stage.processes import WEBHOOK, Processes
from testbed.stage.waiting import eventually
from tests.real.settling import done, kubectl, settled
from tests.real.workloads import federated_hpa, federated_hpa_path

WEBHOOK_SAYS = 'admission webhook "federatedhpa.karmada.io" denied the request: '
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/fedhpa-webhook"
MERGE = "application/merge-patch+json"


def changed(**spec: Any) -> dict[str, Any]:
    """Returns a good object with other spec fields; None removes a field."""
    manifest = federated_hpa("wrong", "default", low=1, high=3)
    manifest["spec"] = {
        key: value for key, value in {**manifest["spec"], **spec}.items() if value is not None
    }
    return manifest


def average_value(quantity: str) -> dict[str, Any]:
    """Returns a metric with that target."""
    target = {"type": "AverageValue", "averageValue": quantity}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"mode": "Elsewhere"}, 'Unsupported value: "Elsewhere"'),
        ({"metrics": [{"type": "Resource"}] * 65}, "must have at most 64 items"),
        ({"maxReplicas": 0}, "spec.maxReplicas in body should be greater than or equal to 1"),
    ],
    ids=["unknown mode", "65 metrics", "no replicas"],
)
async def test_schema_refuses_and_names_the_field(
    plane: Plane, processes: Processes, spec: dict[str, Any], words: str
) -> None:
    """The schema refuses wrong values of single fields, so a hub without the webhook refuses them too."""
    answer = await settled(
        lambda: plane.hub.kubectl("create", "-f", "-", stdin=json.dumps(changed(**spec))),
        lambda answer: answer.code == 1 and words in answer.err,
    )

    assert answer.code == 1
    assert words in answer.err
    assert WEBHOOK_SAYS not in answer.err


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"maxReplicas": None}, "[spec.maxReplicas: Invalid value: 0: must be greater than 0"),
        (
            {"minReplicas": 5},
            "spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`",
        ),
        (
            {"federatedMaxReplicas": 9},
            (
                "spec.federatedMaxReplicas: Invalid value: 9: "
                "is another name of maxReplicas, which is 3: give one of them"
            ),
        ),
        (
            {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a/b"}},
            "spec.scaleTargetRef.name: Invalid value: \"a/b\": may not contain '/'",
        ),
        (
            {"metrics": [average_value("0m")]},
            'spec.metrics[0].resource.target.averageValue: Invalid value: "0": must be positive',
        ),
        (
            {"clusterHPAPreference": {"clusterName": "member1", "maxResourceUsage": 2}},
            (
                "spec.clusterHPAPreference[0].maxResourceUsage: Invalid value: 2: "
                "must be greater than 0 and less than or equal to 1"
            ),
        ),
    ],
    ids=[
        "no maximum",
        "minimum above maximum",
        "aliases differ",
        "name that is a path",
        "zero in thousandths",
        "more than the whole cluster",
    ],
)
async def test_webhook_refuses_in_karmadas_words(
    plane: Plane, processes: Processes, spec: dict[str, Any], message: str
) -> None:
    """The webhook refuses the other faults with Karmada's messages."""
    answer = await kubectl(
        plane.hub, "create", "-f", "-", stdin=json.dumps(changed(**spec)), code=1, words=WEBHOOK_SAYS
    )

    assert answer.code == 1
    assert WEBHOOK_SAYS + message in answer.err


async def test_warnings_reach_the_person(plane: Plane, processes: Processes) -> None:
    """kubectl shows the warning about an admitted object."""
    odd = changed(scaleTargetRef={"kind": "Deployment", "name": "web"})

    answer = await kubectl(
        plane.hub, "create", "--dry-run=server", "-f", "-", stdin=json.dumps(odd), words="Warning: "
    )

    assert answer.code == 0, answer.err
    assert "Warning: " in answer.err
    assert "apiVersion" in answer.err


async def test_running_objects_go_on_without_the_webhook(plane: Plane, processes: Processes) -> None:
    """While the webhook is down the controller writes statuses with all our fields."""
    path = federated_hpa_path("goes-on", "default")
    status = {
        "desiredReplicas": 2,
        "currentMetrics": None,
        "clusters": [{"name": "member1", "state": "Answered", "currentReplicas": 2}],
        "summary": {"reason": "kept as it is"},
    }
    async with plane.hub.api() as api:
        await api.apply_all([federated_hpa("goes-on", "default", low=1, high=3)])
        await processes.kill(WEBHOOK)
        try:
            written = await api.send("PATCH", f"{path}/status", body={"status": status}, content_type=MERGE)
        finally:
            await processes.start_one(WEBHOOK)
            await processes.webhook_is_called()
            await api.delete(path)

    assert written["status"]["clusters"] == status["clusters"]
    assert written["status"]["summary"]["reason"] == "kept as it is"


async def _is_created(plane: Plane, manifest: dict[str, Any]) -> bool:
    answer = await plane.hub.kubectl("create", "-f", "-", stdin=json.dumps(manifest))
    # An earlier attempt may have stored the object although its answer did not arrive.
    return answer.code == 0 or "AlreadyExists" in answer.err


async def test_invalid_object_that_is_deleted_loses_its_finalizer(plane: Plane, processes: Processes) -> None:
    """An invalid stored object can be deleted."""
    stuck = changed(metrics=[average_value("0m")])
    stuck["metadata"] |= {"name": "stuck", "finalizers": ["example.com/hold"]}
    path = federated_hpa_path("stuck", "default")
    async with plane.hub.api() as api:
        before = await api.get(VALIDATING)
        unwatched = {"webhooks": [{**hook, "failurePolicy": "Ignore"} for hook in before["webhooks"]]}
        await processes.kill(WEBHOOK)
        try:
            await api.send("PATCH", VALIDATING, body=unwatched, content_type=MERGE)
            # The API server learns of the change a moment later.
            await eventually(lambda: _is_created(plane, stuck), what="the object is stored", seconds=60)
        finally:
            await done(
                lambda: api.patch(VALIDATING, {"webhooks": before["webhooks"]}),
                "the registration is as before",
            )
            await processes.start_one(WEBHOOK)
        await processes.webhook_is_called()
        deleted = await kubectl(plane.hub, "delete", "fhpa", "stuck", "--wait=false")

        assert deleted.code == 0, deleted.err

        await api.patch(path, {"metadata": {"finalizers": None}})

        assert await api.find(path) is None
