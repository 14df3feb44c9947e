"""Webhooks behind the embedded API server: our own process, and others that answer badly."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from certs import CertificateAuthority
from fedhpa.admission import crd
from fedhpa.api.errors import ApiError
from testbed.embedded.controlplane import ControlPlane
from testbed.embedded.network.listener import Listener
from testbed.embedded.network.pki import Pki
from testbed.stage.api import PlaneApi
from testbed.stage.registrations import never_comes
from tests.support.admission_world import Client, running
from tests.support.fakeapi import PATIENCE
from tests.support.patient_plane import WEBHOOK_SECONDS, have_patience, patient
from webhook.registration import Endpoint, configurations

FHPAS = "/apis/autoscaling.karmada.io/v1alpha1/namespaces/default/federatedhpas"
CRONS = "/apis/autoscaling.karmada.io/v1alpha1/namespaces/default/cronfederatedhpas"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
Object = dict[str, Any]


def federated_hpa(name: str, **spec: Any) -> Object:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "FederatedHPA",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 3, **spec},
    }


def config_map(name: str, **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": labels}, "data": {"a": "b"}}


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    have_patience(monkeypatch)


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    made = ControlPlane(tmp_path / "hub", "hub")
    await made.start()
    try:
        yield made
    finally:
        await made.end()


@pytest.fixture
async def hub(plane: ControlPlane) -> AsyncIterator[PlaneApi]:
    async with plane.api() as api:
        yield api


# -- the product's webhook ------------------------------------------------------------------------------


@pytest.fixture
async def webhook(hub: PlaneApi, tmp_path: Path) -> AsyncIterator[Client]:
    kinds = (crd.FEDERATED_HPA, crd.CRON_FEDERATED_HPA)
    await hub.apply_all([crd.custom_resource_definition(kind) for kind in kinds])
    authority = CertificateAuthority.create("admission tests")
    async with running(tmp_path / "webhook", authority) as client:
        await hub.apply_all(patient(configurations(Endpoint(url=client.url), authority.bundle_pem)))
        yield client


async def test_our_webhook_refuses_what_no_schema_can_know(hub: PlaneApi, webhook: Client) -> None:
    """With its name in front of its message, and nothing is stored."""
    with pytest.raises(ApiError) as refused:
        await hub.ask("POST", CRONS, body=never_comes("never"))

    assert refused.value.status == 403
    assert refused.value.reason == "Forbidden"
    assert 'admission webhook "cronfederatedhpa.karmada.io" denied the request: ' in str(refused.value)
    assert "0 0 31 2 *" in str(refused.value)
    assert await hub.find(f"{CRONS}/never") is None


async def test_our_webhook_writes_its_defaults(hub: PlaneApi, webhook: Client) -> None:
    """minReplicas is none of the schema's."""
    stored = await hub.ask("POST", FHPAS, body=federated_hpa("web"))

    assert stored["spec"]["minReplicas"] == 1


async def test_our_webhook_is_asked_about_every_kind_of_change(hub: PlaneApi, webhook: Client) -> None:
    """PUT and patches too; the object stays as it was."""
    stored = await hub.ask("POST", FHPAS, body=federated_hpa("web"))
    wrong = {**stored, "spec": {**stored["spec"], "minReplicas": 7}}
    for method, content_type, body in (
        ("PUT", "application/json", wrong),
        ("PATCH", "application/merge-patch+json", {"spec": {"minReplicas": 7}}),
        (
            "PATCH",
            "application/json-patch+json",
            [{"op": "replace", "path": "/spec/minReplicas", "value": 7}],
        ),
    ):
        with pytest.raises(ApiError, match="must be greater than or equal to `minReplicas`"):
            await hub.ask(method, f"{FHPAS}/web", body=body, content_type=content_type)

    assert await hub.get(f"{FHPAS}/web") == stored


async def test_a_warning_of_our_webhook_reaches_the_client(hub: PlaneApi, webhook: Client) -> None:
    """As a header, also with a dry run."""
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


async def test_a_webhook_that_is_away_refuses_new_objects(hub: PlaneApi, webhook: Client) -> None:
    """Validation fails closed, in Kubernetes' words; without a registration it is not asked."""
    webhook.signals.stop.set()
    asked = f"{webhook.url}/validate-federatedhpa?timeout={WEBHOOK_SECONDS}s"

    async def refused() -> str:
        try:
            await hub.ask("POST", FHPAS, body=federated_hpa("web"), params={"dryRun": "All"})
        except ApiError as error:
            return str(error) if error.status == 500 else ""
        return ""

    # While it ends, it may cut a request off in the middle: other words for the same.
    async with asyncio.timeout(PATIENCE):
        while not (text := await refused()).endswith("connect: connection refused"):  # noqa: ASYNC110 - asks a server
            await asyncio.sleep(0.02)

    assert (
        'Internal error occurred: failed calling webhook "federatedhpa.karmada.io": '
        f'failed to call webhook: Post "{asked}": dial tcp 127.0.0.1:'
    ) in text

    await hub.delete("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/fedhpa-webhook")

    assert (await hub.ask("POST", FHPAS, body=federated_hpa("web")))["metadata"]["name"] == "web"


# -- other webhooks -------------------------------------------------------------------------------------


class Hook:
    """A webhook that answers what it is told to, and remembers what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[Object] = []
        self.paths: list[str] = []
        self.response: Object | None = {"allowed": True}
        self.uid: str | None = None
        self.status = 200
        self.hangs = False
        app = web.Application()
        app.router.add_post("/{path:.*}", self._review)
        self.pki = Pki(folder, "webhook")
        self.serving = self.pki.serving()
        self.listener = Listener(app, self.serving)

    async def _review(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.asked.append(review["request"])
        self.paths.append(request.path_qs)
        if self.hangs:
            await asyncio.Event().wait()
        if self.status != 200:
            return web.Response(status=self.status, text="out of order\n")
        if self.response is None:
            return web.json_response({"kind": "AdmissionReview"})
        answer = {"uid": self.uid or review["request"]["uid"], **self.response}
        return web.json_response({**review, "request": None, "response": answer})

    def registration(self, kind: str = "Validating", **fields: Any) -> Object:
        everything = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
        webhook = {
            "name": "test.example.com",
            "clientConfig": {"url": f"https://localhost:{self.listener.port}/hook", "caBundle": self.bundle},
            "rules": [everything | {"resources": ["configmaps"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": WEBHOOK_SECONDS,
            **fields,
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": webhook["name"]},
            "webhooks": [webhook],
        }

    @property
    def bundle(self) -> str:
        return base64.b64encode(self.pki.ca.bundle_pem).decode()

    def patch(self, *operations: Object) -> Object:
        encoded = base64.b64encode(json.dumps(operations).encode()).decode()
        return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


@pytest.fixture
async def hook(tmp_path: Path) -> AsyncIterator[Hook]:
    made = Hook(tmp_path / "hook")
    async with made.listener:
        yield made


async def create(hub: PlaneApi, name: str = "a", **labels: str) -> ApiError | Object:
    try:
        found: Object = await hub.ask("POST", CONFIG_MAPS, body=config_map(name, **labels))
    except ApiError as error:
        return error
    return found


async def test_a_review_says_what_kubernetes_says(hub: PlaneApi, hook: Hook) -> None:
    """Who, what, how, before and after."""
    await hub.apply(hook.registration())
    made = await create(hub)
    await hub.patch(f"{CONFIG_MAPS}/a", {"data": {"a": "c"}})
    await hub.delete(f"{CONFIG_MAPS}/a")
    created, updated, deleted = hook.asked
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    resource = {"group": "", "version": "v1", "resource": "configmaps"}

    assert isinstance(made, dict)
    assert hook.paths == ["/hook?timeout=30s"] * 3
    assert {key: created[key] for key in created if key not in ("uid", "object")} == {
        "kind": kind,
        "requestKind": kind,
        "resource": resource,
        "requestResource": resource,
        "name": "a",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": created["userInfo"],
        "oldObject": None,
        "dryRun": False,
        "options": created["options"],
    }
    assert created["userInfo"]["username"] == "system:admin"
    assert created["userInfo"]["groups"] == ["system:masters", "system:authenticated"]
    assert created["options"]["kind"] == "CreateOptions"
    assert created["options"]["apiVersion"] == "meta.k8s.io/v1"
    assert created["object"]["data"] == {"a": "b"}
    assert created["object"]["kind"] == "ConfigMap"
    assert [r["operation"] for r in hook.asked] == ["CREATE", "UPDATE", "DELETE"]
    assert (updated["oldObject"]["data"], updated["object"]["data"]) == ({"a": "b"}, {"a": "c"})
    assert (deleted["oldObject"]["data"], deleted["object"]) == ({"a": "c"}, None)
    assert len({review["uid"] for review in hook.asked}) == 3


async def test_a_webhook_that_says_no_time_has_ten_seconds(hub: PlaneApi, hook: Hook) -> None:
    """As in Kubernetes; the webhook is told."""
    registration = hook.registration()
    del registration["webhooks"][0]["timeoutSeconds"]
    await hub.apply(registration)
    await create(hub)

    assert hook.paths == ["/hook?timeout=10s"]


async def test_a_dry_run_is_said(hub: PlaneApi, hook: Hook) -> None:
    """To the webhook, so that it leaves no trace either."""
    await hub.apply(hook.registration())
    await hub.ask("POST", CONFIG_MAPS, body=config_map("a"), params={"dryRun": "All"})

    assert hook.asked[0]["dryRun"] is True
    assert hook.asked[0]["options"]["dryRun"] == ["All"]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"sideEffects": "Some"},
            'webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"',
        ),
        ({"name": "bare"}, 'webhooks[0].name: Invalid value: "bare": should be a domain with at least three'),
        ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be"),
        (
            {"clientConfig": {"url": "http://localhost"}},
            "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme",
        ),
    ],
)
async def test_a_wrong_registration_is_refused(
    hub: PlaneApi, hook: Hook, fields: Object, problem: str
) -> None:
    """422, before anybody is asked by it."""
    with pytest.raises(ApiError) as refused:
        await hub.apply(hook.registration(**fields))

    assert refused.value.status == 422
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("status", "code", "reason", "text"),
    [
        ({"code": 403, "reason": "Forbidden", "message": "no"}, 403, "Forbidden", ": no"),
        ({"code": 200, "message": "no"}, 400, "", ": no"),
        ({"reason": "Conflict"}, 400, "Conflict", ": Conflict"),
        (None, 400, "", " without explanation"),
    ],
)
async def test_a_denial_is_the_webhooks_status(
    hub: PlaneApi, hook: Hook, status: Object | None, code: int, reason: str, text: str
) -> None:
    """With the name in front and a code that is an error; warnings come with it."""
    hook.response = {"allowed": False, "warnings": ['mind the "gap"']} | (
        {"status": status} if status else {}
    )
    await hub.apply(hook.registration())
    found, headers, raw = await hub.request("POST", CONFIG_MAPS, body=config_map("a"))
    body = json.loads(raw)

    assert (found, body["code"], body.get("reason", "")) == (code, code, reason)
    assert body["message"] == f'admission webhook "test.example.com" denied the request{text}'
    assert headers["Warning"] == '299 - "mind the \\"gap\\""'


async def test_mutations_come_one_after_the_other_and_before_validation(
    hub: PlaneApi, hook: Hook, tmp_path: Path
) -> None:
    """In the order of the configurations' names; who validates sees what was made of the object."""
    hook.response = hook.patch({"op": "add", "path": "/data/first", "value": "1"})
    second = Hook(tmp_path / "second")
    second.response = second.patch({"op": "copy", "from": "/data/first", "path": "/data/second"})
    third = Hook(tmp_path / "third")
    async with second.listener, third.listener:
        await hub.apply(third.registration())
        await hub.apply(second.registration("Mutating", name="b.example.com"))
        await hub.apply(hook.registration("Mutating", name="a.example.com"))
        made = await create(hub)

    assert isinstance(made, dict)
    assert made["data"] == {"a": "b", "first": "1", "second": "1"}
    assert second.asked[0]["object"]["data"] == {"a": "b", "first": "1"}
    assert third.asked[0]["object"]["data"] == made["data"]


async def test_what_a_webhook_makes_of_an_object_must_be_valid(hub: PlaneApi, hook: Hook) -> None:
    """A patch that cannot be applied is the server's failure; one that spoils the object is refused."""
    await hub.apply(hook.registration("Mutating"))
    hook.response = hook.patch({"op": "remove", "path": "/nothing"})
    failed = await create(hub)
    hook.response = hook.patch({"op": "add", "path": "/data", "value": 1})
    spoiled = await create(hub)
    hook.response = {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(b"x").decode()}
    unread = await create(hub)

    assert isinstance(failed, ApiError)
    assert failed.status == 500
    assert isinstance(spoiled, ApiError)
    assert "received undecodable patch in webhook response: " in str(unread)
    assert await hub.find(f"{CONFIG_MAPS}/a") is None


async def test_a_deletion_cannot_be_changed(hub: PlaneApi, hook: Hook) -> None:
    """There is no object to patch; a patch without operations is none."""
    await create(hub)
    await hub.apply(hook.registration("Mutating"))
    hook.response = hook.patch({"op": "add", "path": "/data/x", "value": "y"})
    with pytest.raises(ApiError) as refused:
        await hub.delete(f"{CONFIG_MAPS}/a")
    hook.response = hook.patch()
    await hub.delete(f"{CONFIG_MAPS}/a")

    assert str(refused.value).endswith(
        '500 Internal error occurred: admission webhook "test.example.com" attempted to modify the object,'
        " which is not supported for this operation"
    )
    assert await hub.find(f"{CONFIG_MAPS}/a") is None


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"response": None}, "received invalid webhook response: webhook response was absent"),
        ({"uid": "other"}, 'received invalid webhook response: expected response.uid="'),
        (
            {"response": {"allowed": True, "patchType": "JSONPatch", "patch": "W10="}},
            "received invalid webhook response: validating webhook may not return response.patch",
        ),
        ({"status": 404}, "failed to call webhook: the server could not find the requested resource"),
        ({"status": 500}, 'failed to call webhook: an error on the server ("out of order") has prevented'),
        ({"status": 503}, "failed to call webhook: the server is currently unable to handle the request"),
        ({"status": 418}, "failed to call webhook: the server responded with the status code 418 but did"),
        ({"hangs": True}, "context deadline exceeded"),
    ],
)
async def test_an_answer_that_is_none_is_a_failure(
    hub: PlaneApi, hook: Hook, change: Object, text: str
) -> None:
    """Refused with failurePolicy Fail, which is the default, and let pass with Ignore."""
    hook.__dict__.update(change)
    # Only who never answers is given up soon.
    seconds = 1 if hook.hangs else WEBHOOK_SECONDS
    await hub.apply(hook.registration(timeoutSeconds=seconds))
    refused = await create(hub)

    assert isinstance(refused, ApiError)
    assert (refused.status, refused.reason) == (500, "InternalError")
    assert f'Internal error occurred: failed calling webhook "test.example.com": {text}' in str(refused) or (
        f": {text}" in str(refused) and hook.hangs
    )

    await hub.apply(hook.registration(timeoutSeconds=seconds, failurePolicy="Ignore"))

    assert isinstance(await create(hub), dict)


async def test_half_a_patch_is_a_failure(hub: PlaneApi, hook: Hook) -> None:
    """A patch needs its type and a type its patch."""
    await hub.apply(hook.registration("Mutating"))
    texts = []
    for given in ({"patch": "W10="}, {"patchType": "JSONPatch"}):
        hook.response = {"allowed": True, **given}
        texts.append(str(await create(hub)).partition("webhook response: ")[2])

    assert texts == [
        "webhook returned response.patch but not response.patchType",
        "webhook returned response.patchType but not response.patch",
    ]


@pytest.mark.parametrize(
    ("serving", "text"),
    [
        ({"stranger": True}, "x509: certificate signed by unknown authority"),
        ({"expired": True}, "x509: certificate has expired or is not yet valid"),
    ],
)
async def test_a_webhook_must_prove_itself(
    hub: PlaneApi, hook: Hook, serving: dict[str, bool], text: str
) -> None:
    """Against its caBundle."""
    await hub.apply(hook.registration())
    await hook.listener.start(hook.pki.serving(**serving))

    assert f"tls: failed to verify certificate: {text}" in str(await create(hub))


async def test_a_service_leads_to_a_webhook_that_has_its_name(hub: PlaneApi, hook: Hook) -> None:
    """By an ExternalName Service, verified as NAME.NAMESPACE.svc."""
    service = {"namespace": "default", "name": "hook", "path": "/by-service", "port": hook.listener.port}
    await hub.apply(hook.registration(clientConfig={"service": service, "caBundle": hook.bundle}))
    missing = await create(hub)
    spec = {"type": "ExternalName", "externalName": "localhost"}
    await hub.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"}, "spec": spec})
    misnamed = await create(hub)
    leaf = hook.pki.ca.issue_server("hook", dns=["hook.default.svc"])
    leaf.save(hook.pki.folder / "named")
    hook.serving.load_cert_chain(hook.pki.folder / "named" / "tls.crt", hook.pki.folder / "named" / "tls.key")
    called = await create(hub)

    assert str(missing).endswith(
        f'Post "https://hook.default.svc:{hook.listener.port}/by-service?timeout=30s": '
        'service "hook" not found'
    )
    assert "x509: certificate is " in str(misnamed)
    assert isinstance(called, dict)
    assert hook.paths == ["/by-service?timeout=30s"]


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({"rules": [{"resources": ["*"]}]}, True),
        ({"rules": [{"resources": ["*/*"]}]}, True),
        ({"rules": [{"resources": ["configmaps/status"]}]}, False),
        ({"rules": [{"resources": ["secrets"]}, {"resources": ["configmaps"]}]}, True),
        ({"rules": [{"resources": ["configmaps"], "operations": ["UPDATE", "DELETE"]}]}, False),
        ({"rules": [{"resources": ["configmaps"], "apiGroups": ["apps"]}]}, False),
        ({"rules": [{"resources": ["configmaps"], "apiVersions": ["v2"]}]}, False),
        ({"rules": [{"resources": ["configmaps"], "scope": "Cluster"}]}, False),
        ({"rules": [{"resources": ["configmaps"], "scope": "Namespaced"}]}, True),
        ({"objectSelector": {"matchLabels": {"app": "web"}}}, True),
        ({"objectSelector": {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "shop"}}}, False),
        ({"matchConditions": [{"name": "never", "expression": "false"}]}, True),  # CEL is not evaluated
    ],
)
async def test_only_webhooks_that_are_concerned_are_asked(
    hub: PlaneApi, hook: Hook, fields: Object, asked: bool
) -> None:
    """By resource, operation, scope, and the labels of object and namespace."""
    defaults = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "scope": "*"}
    if "rules" in fields:
        fields = {**fields, "rules": [defaults | rule for rule in fields["rules"]]}
    await hub.apply(hook.registration(**fields))
    await create(hub, app="web")

    assert bool(hook.asked) is asked


async def test_registrations_themselves_are_not_asked_about(hub: PlaneApi, hook: Hook) -> None:
    """Or nobody could remove a webhook that is broken."""
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
    hook.response = {"allowed": False}
    await hub.apply(hook.registration(rules=[everything]))
    await hub.patch(
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/test.example.com",
        {"metadata": {"labels": {"a": "b"}}},
    )

    assert hook.asked == []
    assert isinstance(await create(hub), ApiError)
