"""The product's webhook behind the embedded API server."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from certs import CertificateAuthority
from fedhpa.admission import crd
from fedhpa.api.errors import ApiError
from testbed.embedded.controlplane import ControlPlane
from testbed.stage.api import PlaneApi
from tests.support.admission import Client, running
from tests.support.embedded_plane import have_patience, with_timeout
from tests.support.refusals import REFUSALS
from webhook.registration import Endpoint, configurations

FHPAS = "/apis/autoscaling.karmada.io/v1alpha1/namespaces/default/federatedhpas"
CRONS = "/apis/autoscaling.karmada.io/v1alpha1/namespaces/default/cronfederatedhpas"
Object = dict[str, Any]


def federated_hpa(name: str, **spec: Any) -> Object:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "FederatedHPA",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 3, **spec},
    }


@pytest.fixture
async def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PlaneApi]:
    have_patience(monkeypatch)
    plane = ControlPlane(tmp_path / "hub", "hub")
    await plane.start()
    try:
        async with plane.api() as api:
            yield api
    finally:
        await plane.end()


@pytest.fixture
async def webhook(hub: PlaneApi, tmp_path: Path) -> AsyncIterator[Client]:
    kinds = (crd.FEDERATED_HPA, crd.CRON_FEDERATED_HPA)
    await hub.apply_all([crd.custom_resource_definition(kind) for kind in kinds])
    authority = CertificateAuthority.create("admission tests")
    async with running(tmp_path / "webhook", authority) as client:
        await hub.apply_all(with_timeout(configurations(Endpoint(url=client.url), authority.bundle_pem)))
        yield client


async def test_the_webhook_checks_every_kind_of_change(hub: PlaneApi, webhook: Client) -> None:
    """A wrong PUT, merge patch or JSON patch is refused, and the object stays as it was."""
    stored = await hub.send("POST", FHPAS, body=federated_hpa("web"))
    wrong = {**stored, "spec": {**stored["spec"], "minReplicas": 7}}
    operation = {"op": "replace", "path": "/spec/minReplicas", "value": 7}
    for method, content_type, body in (
        ("PUT", "application/json", wrong),
        ("PATCH", "application/merge-patch+json", {"spec": {"minReplicas": 7}}),
        ("PATCH", "application/json-patch+json", [operation]),
    ):
        with pytest.raises(ApiError, match="must be greater than or equal to `minReplicas`"):
            await hub.send(method, f"{FHPAS}/web", body=body, content_type=content_type)

    assert await hub.get(f"{FHPAS}/web") == stored


async def test_every_refusal_says_what_to_write(hub: PlaneApi, webhook: Client) -> None:
    """The message or a warning beside it names the field and the remedy, as on a real API server."""
    unread = {}
    for refusal in REFUSALS:
        path = CRONS if refusal.manifest["kind"] == "CronFederatedHPA" else FHPAS
        status, headers, body = await hub.request("POST", path, body=refusal.manifest)
        warnings = headers.getall("Warning", [])  # type: ignore[attr-defined]  # a multidict
        text = "\n".join((json.loads(body)["message"], *(json.loads(each[6:]) for each in warnings)))
        if status < 400 or refusal.unread(text):
            unread[refusal.name] = text

    assert unread == {}
