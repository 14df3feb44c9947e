"""The webhook behind the real API server."""

import json
from typing import Any

import pytest

from testbed.real.plane import Plane
from testbed.stage.processes import Processes
from testbed.stage.registrations import cron_that_never_fires
from testbed.stage.waiting import eventually
from tests.real.settling import kubectl, settled
from tests.real.workloads import federated_hpa, federated_hpa_path

CALENDAR = {
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
    "rules": [{"name": "morning", "schedule": "0 8 * * *", "targetReplicas": 2}],
}


@pytest.mark.parametrize(
    ("kind", "spec", "code", "words"),
    [
        ("FederatedHPA", {}, 0, "created (server dry run)"),
        ("CronFederatedHPA", {}, 0, "created (server dry run)"),
        (
            "FederatedHPA",
            {"clusterHPAPreference": [{"clusterName": "m1", "maxResourceUsage": 0.5}] * 2},
            1,
            (
                'admission webhook "federatedhpa.karmada.io" denied the request: '
                'spec.clusterHPAPreference[1].clusterName: Duplicate value: "m1"'
            ),
        ),
        (
            "CronFederatedHPA",
            {"rules": [{"name": "never", "schedule": "0 0 31 2 *", "targetReplicas": 1}]},
            1,
            (
                'admission webhook "cronfederatedhpa.karmada.io" denied the request: '
                'spec.rules[0].schedule: Invalid value: "0 0 31 2 *": invalid cron format'
            ),
        ),
        (
            "FederatedHPA",
            {"maxReplicas": "3"},
            1,
            (
                'admission webhook "autoscaling.karmada.io" denied the request: json: cannot unmarshal '
                "string into Go struct field FederatedHPASpec.spec.maxReplicas of type int32"
            ),
        ),
        ("CronFederatedHPA", {"rules": "none"}, 1, "must be of type array"),
    ],
    ids=[
        "good FederatedHPA",
        "good CronFederatedHPA",
        "denied FederatedHPA",
        "denied CronFederatedHPA",
        "FederatedHPA of wrong types: the webhook that mutates",
        "CronFederatedHPA of wrong types: the schema",
    ],
)
async def test_each_verdict_reaches_the_person(
    plane: Plane, processes: Processes, kind: str, spec: dict[str, Any], code: int, words: str
) -> None:
    """kubectl shows each kind's verdict, admitted, denied or unreadable, in the words of the webhook or the
    API server.
    """
    good = federated_hpa("judged", "default", low=1, high=3)["spec"] if kind == "FederatedHPA" else CALENDAR
    manifest = {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "judged", "namespace": "default"},
        "spec": {**good, **spec},
    }

    answer = await kubectl(
        plane.hub,
        *("create", "--dry-run=server", "-f", "-"),
        stdin=json.dumps(manifest),
        code=code,
        words=words,
    )

    assert answer.code == code, answer.err
    assert words in answer.out + answer.err


async def test_audit_log_proves_that_admission_was_asked(plane: Plane, processes: Processes) -> None:
    """The hub's audit log names the webhook that mutated an object and the webhook that refused one."""
    manifest = federated_hpa("audited", "default", low=1, high=3)
    del manifest["spec"]["minReplicas"]
    async with plane.hub.api() as api:

        async def defaulted() -> Any:
            # The hub admits it unchanged if the webhook does not answer in time.
            await api.delete(federated_hpa_path("audited", "default"))
            return await api.apply(manifest)

        await settled(defaulted, lambda found: "minReplicas" in found["spec"])
        await api.delete(federated_hpa_path("audited", "default"))
    stdin = json.dumps(cron_that_never_fires("audited"))
    await kubectl(plane.hub, "create", "-f", "-", stdin=stdin, code=1, words="denied the request")

    async def poll() -> dict[str, Any] | None:
        found: dict[str, Any] = {}
        for event in plane.hub.audit_events():
            resource = (event.get("objectRef") or {}).get("resource")
            outcome = event.get("responseStatus") or {}
            if resource == "federatedhpas" and event["objectRef"].get("name") == "audited":
                said = " ".join((event.get("annotations") or {}).values())
                if '"mutated":true' in said:
                    found["mutated"] = said
            if resource == "cronfederatedhpas" and "denied the request" in outcome.get("message", ""):
                found["denied"] = outcome["code"]
        return found if len(found) == 2 else None

    found = await eventually(poll, what="both requests in the audit log", seconds=60, every=1)

    assert '"webhook":"autoscaling.karmada.io"' in found["mutated"]
    assert '"mutated":true' in found["mutated"]
    assert found["denied"] in (400, 403)
