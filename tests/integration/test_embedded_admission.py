"""The product's webhook behind the embedded API server."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from certs import CertificateAuthority
from fedhpa.admission import crd
from fedhpa.api.errors import ApiError
from testbed.embedded.controlplane import ControlPlane
from testbed.stage.api import PlaneApi
from testbed.stage.registrations import cron_that_never_fires
from tests.support.admission import Client, running
from tests.support.embedded_plane import WEBHOOK_SECONDS, have_patience, with_timeout
from tests.support.fakeapi import PATIENCE
from tests.support.refusals import REFUSALS
from webhook.registration import Endpoint, configurations

FHPAS = "/apis/autoscaling.karmada.io/v1alpha1/namespaces/default/federatedhpas"
CRONS = "/apis/autoscaling.karmada.io/v1alpha1/namespaces/default/cronfederatedhpas"
Object = dict[str, Any]
EXAMPLES = Path(__file__).parents[2] / "examples"


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


async def test_the_webhook_refuses_an_object_that_the_schema_allows(hub: PlaneApi, webhook: Client) -> None:
    """The message begins with the webhook's name, and nothing is stored."""
    with pytest.raises(ApiError) as refused:
        await hub.send("POST", CRONS, body=cron_that_never_fires("never"))

    assert refused.value.status == 403
    assert refused.value.reason == "Forbidden"
    assert 'admission webhook "cronfederatedhpa.karmada.io" denied the request: ' in str(refused.value)
    assert "0 0 31 2 *" in str(refused.value)
    assert await hub.find(f"{CRONS}/never") is None


async def test_the_webhook_writes_its_defaults(hub: PlaneApi, webhook: Client) -> None:
    """The schema has no default for minReplicas."""
    stored = await hub.send("POST", FHPAS, body=federated_hpa("web"))

    assert stored["spec"]["minReplicas"] == 1


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


async def test_a_warning_of_the_webhook_reaches_the_client(hub: PlaneApi, webhook: Client) -> None:
    """A dry run gets the warning as a header, too."""
    doubled = [
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", **target}}}
        for target in ({"averageUtilization": 50}, {"averageUtilization": 60})
    ]
    status, headers, _ = await hub.request(
        "POST", FHPAS, body=federated_hpa("web", metrics=doubled), params={"dryRun": "All"}
    )

    assert status == 201
    assert headers.getall("Warning")[0].startswith('299 - "')  # type: ignore[attr-defined]  # a multidict
    assert await hub.find(f"{FHPAS}/web") is None


async def test_sound_objects_get_no_warning(hub: PlaneApi, webhook: Client) -> None:
    """So `kubectl apply --warnings-as-errors` applies them."""
    rules = [
        {"schedule": "0 8 * * MON-FRI", "targetMinReplicas": 2, "duration": "9h"},
        {"schedule": "0 20 * * *", "targetMaxReplicas": 3, "excludeDates": ["2026-12-25"]},
    ]
    calendar = {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "CronFederatedHPA",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "scaleTargetRef": {
                "apiVersion": "autoscaling.karmada.io/v1alpha1",
                "kind": "FederatedHPA",
                "name": "web",
            },
            "rules": [
                {"name": f"r{index}", "timeZone": "Europe/Berlin", **rule} for index, rule in enumerate(rules)
            ],
        },
    }
    for path, manifest in ((FHPAS, federated_hpa("web")), (CRONS, calendar)):
        status, headers, _ = await hub.request("POST", path, body=manifest)

        assert status == 201
        assert "Warning" not in headers


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


async def test_objects_are_refused_while_the_webhook_is_unavailable(hub: PlaneApi, webhook: Client) -> None:
    """Validation fails closed; without a registration the object is stored."""
    webhook.signals.stop.set()
    url = f"{webhook.url}/validate-federatedhpa?timeout={WEBHOOK_SECONDS}s"

    async def refused() -> str:
        try:
            await hub.send("POST", FHPAS, body=federated_hpa("web"), params={"dryRun": "All"})
        except ApiError as error:
            return str(error) if error.status == 500 else ""
        return ""

    # While the webhook shuts down it may cut a request off, which gives another message.
    async with asyncio.timeout(PATIENCE):
        while not (text := await refused()).endswith("connect: connection refused"):  # noqa: ASYNC110 - polls a server
            await asyncio.sleep(0.02)

    assert (
        'Internal error occurred: failed calling webhook "federatedhpa.karmada.io": '
        f'failed to call webhook: Post "{url}": dial tcp 127.0.0.1:'
    ) in text

    await hub.delete("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/fedhpa-webhook")

    assert (await hub.send("POST", FHPAS, body=federated_hpa("web")))["metadata"]["name"] == "web"


async def test_every_example_is_applied_as_it_is(hub: PlaneApi, webhook: Client) -> None:
    """Several examples are alternatives for one object, so a later one changes it."""
    await hub.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})

    for path in sorted(EXAMPLES.glob("*.yaml")):
        example = yaml.safe_load(path.read_text(encoding="utf-8"))
        stored = await hub.apply(example)

        assert stored["spec"]["scaleTargetRef"] == example["spec"]["scaleTargetRef"]
