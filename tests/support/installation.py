"""A whole installation in this process for the doctor: hub, members, webhook, adapter, rights and Leases.

The hub and the members are embedded planes. The webhook is the product's application. A stub answers for the
adapter, because the doctor asks only for its discovery documents. No controller runs: its Leases and the
status of its objects are written as it writes them.
"""

from __future__ import annotations

import datetime as dt
import logging
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from email.utils import format_datetime
from pathlib import Path
from typing import Any, Final

import structlog
from aiohttp import web

from certs import CertificateAuthority
from controller.cluster_status import CLUSTERS_LEASE
from controller.shards import CRON, Shard
from fedhpa.api import rights
from fedhpa.doctor import Report, examine
from fedhpa.kube import SYSTEM, ApiClient, load_config
from fedhpa.serving import Health
from metrics_adapter.registration import APIS, Registration, api_services, service
from testbed.embedded.network.listener import Listener
from testbed.embedded.plane import Plane
from testbed.embedded.storage.store import Collection, Store
from testbed.stage.registrations import CLUSTER_NAMESPACE, NAMESPACE, namespace
from tests.support.plane_faults import Faults, faults_of, may_fail
from tests.support.timing import eventually
from webhook.application import build_application
from webhook.registration import Endpoint, configurations
from webhook.review_series import Telemetry
from webhook.warnings import AdmissionWarnings

Object = dict[str, Any]
FHPAS: Final[Collection] = ("autoscaling.karmada.io", "federatedhpas")
CRONS: Final[Collection] = ("autoscaling.karmada.io", "cronfederatedhpas")
DEPLOYMENTS: Final[Collection] = ("apps", "deployments")
CLUSTERS: Final[Collection] = ("cluster.karmada.io", "clusters")
SECRETS: Final[Collection] = ("", "secrets")
LEASES: Final[Collection] = ("coordination.k8s.io", "leases")
API_SERVICES: Final[Collection] = ("apiregistration.k8s.io", "apiservices")
VALIDATING: Final[Collection] = ("admissionregistration.k8s.io", "validatingwebhookconfigurations")
MUTATING: Final[Collection] = ("admissionregistration.k8s.io", "mutatingwebhookconfigurations")
CONFIG_MAPS: Final[Collection] = ("", "configmaps")
CLUSTER_ROLES: Final[Collection] = ("rbac.authorization.k8s.io", "clusterroles")
CRDS: Final[Collection] = ("apiextensions.k8s.io", "customresourcedefinitions")
SHARD_LEASES: Final = (Shard().lease, Shard(kind=CRON).lease)
CONTROLLER_LEASES: Final = (*SHARD_LEASES, CLUSTERS_LEASE)
HPAS: Final[Collection] = ("autoscaling", "horizontalpodautoscalers")

ROLES: Final[Collection] = ("rbac.authorization.k8s.io", "roles")
ROLE_BINDINGS: Final[Collection] = ("rbac.authorization.k8s.io", "rolebindings")
CLUSTER_ROLE_BINDINGS: Final[Collection] = ("rbac.authorization.k8s.io", "clusterrolebindings")

# Collections that `restore` brings back, of the hub and of members.
BREAKABLE: Final = (
    FHPAS, CRONS, DEPLOYMENTS, CLUSTERS, SECRETS, LEASES, API_SERVICES, VALIDATING, MUTATING, CONFIG_MAPS,
    CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS, CRDS, HPAS, ("", "services"), ("", "events"),
)  # fmt: skip
BREAKABLE_IN_MEMBERS: Final = (CLUSTER_ROLES, HPAS)


class Installation:
    """An installation in which nothing is broken, until a test breaks it."""

    administrator: ApiClient

    def __init__(self, plane: Plane, folder: Path) -> None:
        self.plane = plane
        self.hub = plane.hub
        self.store = plane.hub.store
        self.folder = folder
        self.authority = CertificateAuthority.create("installation")
        self.webhook_app = build_application(Health(), Telemetry(), AdmissionWarnings(SYSTEM.date), SYSTEM)
        self.webhook = Listener(self.webhook_app, self.serving("fedhpa-webhook", ["localhost"]))
        self.webhook_faults = Faults(self.webhook_app, self.webhook, None)
        self.adapter_status = 200
        # Seconds that the clock of a server is ahead, by name; the hub's is "hub".
        self.ahead: dict[str, float] = {}
        # The hub's objects, then those of each member.
        self._saved: list[tuple[Store, dict[Collection, list[Object]]]] = []
        self.adapter = Listener(self._adapter_app(), self.adapter_serving())

    def serving(
        self,
        name: str,
        dns: Sequence[str],
        *,
        authority: CertificateAuthority | None = None,
        days: float = 365,
    ) -> ssl.SSLContext:
        """Returns a server context whose certificate ends in `days` days."""
        leaf = (authority or self.authority).issue_server(
            name,
            dns=dns,
            ips=["127.0.0.1"],
            validity=dt.timedelta(days=365),
            now=dt.datetime.now(dt.UTC) - dt.timedelta(days=365 - days),
        )
        leaf.save(self.folder / name)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / name / "tls.crt", self.folder / name / "tls.key")
        return context

    def adapter_serving(self, **options: Any) -> ssl.SSLContext:
        """Returns the context of the adapter's port."""
        return self.serving(rights.ADAPTER, ["localhost", f"{rights.ADAPTER}.{NAMESPACE}.svc"], **options)

    def edit(self, collection: Collection, name: str, space: str = "", **changes: Any) -> Object:
        """Merges changes into a stored object of the hub."""
        return merge(self.store, collection, name, space, **changes)

    def delete(self, collection: Collection, name: str, space: str = "") -> None:
        """Deletes an object of the hub."""
        self.store.delete(collection, space, name)

    def registrations(self) -> list[Object]:
        """Returns the webhook configurations."""
        return configurations(Endpoint(url=self.webhook.server), self.authority.bundle_pem)

    def services(self) -> list[Object]:
        """Returns the adapter's Service and APIServices."""
        placement = Registration(port=self.adapter.port, external_name="localhost")
        return [service(placement), *api_services(placement, self.authority.bundle_pem, [*APIS.values()])]

    async def diagnosis(self, *, seconds: float = 3.0) -> Report:
        """Returns the report of the administrator of the hub. The connections to the hub stay open."""
        return await examine(self.administrator, seconds=seconds, clock=SYSTEM)

    async def apis_are(self, available: bool) -> None:
        """Waits until the hub has noticed whether the adapter works."""
        status = "True" if available else "False"
        await eventually(
            lambda: all(
                each["status"]["conditions"][0]["status"] == status
                for each in self.store.list(API_SERVICES)
                if each["spec"].get("service") and each.get("status")
            )
        )

    async def begin(self) -> None:
        """Stores everything that an installation has."""
        async with self.hub.api() as api:
            await api.apply_all(
                [
                    *map(namespace, (NAMESPACE, CLUSTER_NAMESPACE, "shop")),
                    *rights.hub_rights(NAMESPACE, secrets={CLUSTER_NAMESPACE: ()}),
                    *self.registrations(),
                    *self.services(),
                    federated_hpa(),
                    cron(),
                ]
            )
        for name in self.plane.members:
            secret = self.store.get(SECRETS, CLUSTER_NAMESPACE, name)
            metadata = {"namespace": CLUSTER_NAMESPACE, "name": f"{name}-metrics"}
            self.store.create(SECRETS, {**secret, "metadata": metadata})
        for name in CONTROLLER_LEASES:
            self.renew(name)
        ready = {"conditions": [{"type": "Ready", "status": "True", "reason": "Reconciled"}]}
        summary = {"summary": {"propagation": "direct"}}
        self.edit(FHPAS, "web", "shop", status={"desiredReplicas": 2, **summary, **ready})
        self.edit(CRONS, "night", "shop", status=ready)
        for member in self.plane.members.values():
            member.store.create(DEPLOYMENTS, deployment())
        await eventually(
            lambda: all(each.get("status") for each in self.store.list(API_SERVICES)), within=60.0
        )
        await self.apis_are(True)
        self._saved = [
            (store, {collection: store.list(collection) for collection in collections})
            for store, collections in (
                (self.store, BREAKABLE),
                *((member.store, BREAKABLE_IN_MEMBERS) for member in self.plane.members.values()),
            )
        ]

    async def restore(self) -> None:
        """Undoes everything that a test broke, except the workloads of members."""
        for store, collections in self._saved:
            for collection, saved in collections.items():
                bring_back(store, collection, saved)
        for name in CONTROLLER_LEASES:
            self.renew(name)
        self.ahead.clear()
        self.adapter_status = 200
        await self.webhook.start(self.serving("fedhpa-webhook", ["localhost"]))
        await self.adapter.start(self.adapter_serving())
        for member in self.plane.members.values():
            await faults_of(member).clear()
            member.apiserver.route = member.route
        await self.webhook_faults.clear()
        self.recheck()
        await self.apis_are(True)

    def recheck(self) -> None:
        """Makes the hub check its APIServices now instead of in a second."""
        now = dt.datetime.now(dt.UTC).isoformat()
        for each in self.store.list(API_SERVICES):
            if each["spec"].get("service"):
                self.edit(API_SERVICES, each["metadata"]["name"], metadata={"annotations": {"checked": now}})

    def clock(self, name: str) -> Any:
        """Returns a signal handler that writes the Date of a server whose clock is ahead."""

        async def write(_: web.Request, response: web.StreamResponse) -> None:
            seconds = self.ahead.get(name, 0.0)
            moment = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)
            response.headers["Date"] = format_datetime(moment, usegmt=True)

        return write

    def renew(self, name: str, *, age: float = 1.0, holder: str = "controller-1") -> None:
        """Writes a Lease as its holder does."""
        renewed = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=age)
        spec = {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "renewTime": f"{renewed:%Y-%m-%dT%H:%M:%S.%fZ}",
        }
        metadata = {"namespace": NAMESPACE, "name": name}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        if self.store.find(LEASES, NAMESPACE, name) is None:
            self.store.create(LEASES, lease)
        else:
            self.edit(LEASES, name, NAMESPACE, spec=spec)

    def _adapter_app(self) -> web.Application:
        async def discover(request: web.Request) -> web.Response:
            if self.adapter_status != 200:
                return web.Response(status=self.adapter_status)
            version = request.match_info["version"]
            body = {"kind": "APIResourceList", "groupVersion": version, "resources": []}
            return web.json_response(body)

        application = web.Application()
        application.router.add_get("/apis/{group}/{version}", discover)
        return application


def bring_back(store: Store, collection: Collection, saved: Sequence[Object]) -> None:
    """Makes a collection what it was when it was saved."""
    kept = {(each["metadata"].get("namespace", ""), each["metadata"]["name"]) for each in saved}
    for each in store.list(collection):
        key = each["metadata"].get("namespace", ""), each["metadata"]["name"]
        if key not in kept:
            store.remove(collection, *key)
    for each in saved:
        metadata = {key: value for key, value in each["metadata"].items() if key != "resourceVersion"}
        known = store.find(collection, metadata.get("namespace", ""), metadata["name"])
        write = store.create if known is None else store.update
        write(collection, {**each, "metadata": metadata})


def merge(store: Any, collection: Collection, name: str, space: str = "", **changes: Any) -> Object:
    """Merges changes into a stored object: mappings are merged, other values replaced, None removes."""
    found: Object = store.get(collection, space, name)
    return store.update(collection, _merged(found, changes))  # type: ignore[no-any-return]


def _merged(old: Any, new: Any) -> Any:
    if not isinstance(new, dict) or not isinstance(old, dict):
        return new
    merged = {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}
    return {key: value for key, value in merged.items() if value is not None}


def federated_hpa(name: str = "web", **spec: Any) -> Object:
    """Returns a FederatedHPA of the Deployment shop/web."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "FederatedHPA",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 4, **spec},
    }


def cron(**target: Any) -> Object:
    """Returns a CronFederatedHPA of the FederatedHPA shop/web, or of another target."""
    own = {"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "name": "web"}
    rule = {"name": "night", "schedule": "0 22 * * *", "targetMaxReplicas": 2}
    return {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "CronFederatedHPA",
        "metadata": {"name": "night", "namespace": "shop"},
        "spec": {"scaleTargetRef": target or own, "rules": [rule]},
    }


def deployment() -> Object:
    """Returns the Deployment shop/web with one pod."""
    container = {"name": "web", "image": "web", "resources": {"requests": {"cpu": "100m"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }


def encoded(text: str) -> str:
    """Returns a text as a value of a Secret."""
    return b64encode(text.encode()).decode()


@asynccontextmanager
async def installation(folder: Path, members: Sequence[str] = ("m1",)) -> AsyncIterator[Installation]:
    """Runs an installation in which nothing is broken. Its servers log errors only.

    A command that runs in a thread shares standard output with them.
    """
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    plane = Plane(members)
    may_fail(plane.hub, *plane.members.values())
    made = Installation(plane, folder)
    for name, each in (("hub", plane.hub), *plane.members.items()):
        each.apiserver.app.on_response_prepare.append(made.clock(name))
    await plane.start()
    async with AsyncExitStack() as stack:
        stack.callback(structlog.configure, **before)
        stack.push_async_callback(plane.end)
        await stack.enter_async_context(made.webhook)
        await stack.enter_async_context(made.adapter)
        config = await load_config(str(plane.hub.kubeconfig), clock=SYSTEM)
        made.administrator = await stack.enter_async_context(ApiClient(config))
        await made.begin()
        yield made
