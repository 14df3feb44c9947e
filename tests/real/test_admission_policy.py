"""The chart's admission policy: the controller changes nothing of a registration but its caBundle."""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fedhpa.api.errors import ApiError
from fedhpa.api.rights import CONTROLLER
from testbed.real.controlplane import ControlPlane
from testbed.stage import eventually
from testbed.stage.api import PlaneApi
from tests.real.bare_server import server_with_our_crds
from tests.real.workloads import namespace
from tests.support.chart import NAMESPACE, render

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
WEBHOOKS = tuple(
    f"{ADMISSION}/{kind}webhookconfigurations/fedhpa-webhook" for kind in ("mutating", "validating")
)
API = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.external.metrics.k8s.io"
GROUPS = ("admissionregistration.k8s.io", "apiregistration.k8s.io", "rbac.authorization.k8s.io")
# The hub's user of the controller, as part host has it.
VALUES = {"part": "hub", "controller": {"hubUsers": [CONTROLLER]}}
BUNDLE = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()
SECONDS = 60.0

Change = Callable[[dict[str, Any]], Any]


def entry(**fields: Any) -> Change:
    """Changes fields of the first webhook."""
    return lambda one: one["webhooks"][0].update(fields)


def client(**fields: Any) -> Change:
    """Changes whom the first webhook calls."""
    return lambda one: one["webhooks"][0]["clientConfig"].update(fields)


def owned(one: dict[str, Any]) -> None:
    """Names an owner that does not exist, so that the garbage collector deletes the object."""
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": "gone", "uid": "0-0"}
    one["metadata"]["ownerReferences"] = [owner]


EVERYTHING = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
FORBIDDEN: dict[str, tuple[str, Change]] = {
    **{
        f"{name} {path.rpartition('/')[0].rpartition('/')[2]}": (path, change)
        for path in WEBHOOKS
        for name, change in {
            "all objects are sent": entry(rules=[EVERYTHING]),
            "all namespaces are sent": entry(namespaceSelector={"matchLabels": {"a": "b"}}),
            "a condition is dropped": entry(matchConditions=[]),
            "requests wait longer": entry(timeoutSeconds=30),
            "another server is called": client(url="https://thief.example/"),
            "an owner deletes it": owned,
            "a label is changed": lambda one: one["metadata"]["labels"].update(team="thief"),
            "a webhook is added": lambda one: one["webhooks"].append({**one["webhooks"][0], "name": "a.b.c"}),
            "a webhook is removed": lambda one: one["webhooks"].pop(),
        }.items()
    },
    "the API is another server's": (API, lambda one: one["spec"]["service"].update(name="thief")),
    "the API comes first": (API, lambda one: one["spec"].update(groupPriorityMinimum=20_000)),
}


@pytest.fixture(scope="module")
def hub(assets: Path) -> Iterator[ControlPlane]:
    """Yields a hub with the chart's registrations, the rights of the controller and the policy."""
    with server_with_our_crds(assets, "admission-policy") as plane:
        yield plane


async def prepare(hub: ControlPlane, assets: Path) -> None:
    """Applies the objects of the chart, and waits until the policy is in force."""
    objects = [
        one
        for one in render(assets / "helm", VALUES).values()
        if one["apiVersion"].startswith(GROUPS) and "namespace" not in one["metadata"]
    ]
    async with hub.api() as api, thief(hub) as stolen:
        await api.apply_all([namespace(NAMESPACE), *objects])

        async def denied() -> bool:
            return "caBundle" in await refusal(stolen, WEBHOOKS[0], entry(timeoutSeconds=29))

        await eventually(denied, what="the policy is in force", seconds=SECONDS)


def thief(hub: ControlPlane) -> PlaneApi:
    """Returns a client with the controller's credentials."""
    hub.pki.client(CONTROLLER, CONTROLLER)
    return PlaneApi(hub.server, hub.pki.client_context(CONTROLLER))


async def refusal(api: PlaneApi, path: str, change: Change) -> str:
    """Returns why an update is refused; an empty text if it is not."""
    changed = copy.deepcopy(await api.get(path))
    change(changed)
    try:
        await api.send("PUT", path, body=changed, params={"dryRun": "All"})
    except ApiError as error:
        return str(error)
    return ""


async def test_the_controller_changes_nothing_but_the_bundle(hub: ControlPlane, assets: Path) -> None:
    """Each other change is refused by the policy, and the administrator may still make all of them."""
    await prepare(hub, assets)
    published = client(caBundle=BUNDLE)
    bundles = (published, published, lambda one: one["spec"].update(caBundle=BUNDLE))
    async with hub.api() as administrator, thief(hub) as stolen:
        refused = {name: await refusal(stolen, *attempt) for name, attempt in FORBIDDEN.items()}
        allowed = [await refusal(stolen, *one) for one in zip((*WEBHOOKS, API), bundles, strict=True)]
        upgraded = [await refusal(administrator, *FORBIDDEN[name]) for name in FORBIDDEN if "server" in name]

    assert [
        name for name, text in refused.items() if "ValidatingAdmissionPolicy 'fedhpa-controller'" not in text
    ] == []
    assert allowed == ["", "", ""]
    assert set(upgraded) == {""}
