"""A hub in memory with the objects of the certificates, and the manager that keeps them in virtual time."""

from __future__ import annotations

import base64
import datetime as dt
from email.utils import format_datetime
from typing import Any

from cryptography import x509
from prometheus_client import CollectorRegistry

from certs import stored
from certs.certificate_store import SERVING_SECRETS, CertificateStore
from controller.certificates import COMPONENT, CertificateManager, CertificateMetrics
from fedhpa.kube import Clock, EventRecorder
from metrics_adapter.registration import Registration, api_services
from tests.support.memory_api import MemoryApi
from tests.support.timing import EPOCH, loop_time
from webhook.registration import Endpoint, configurations

NAMESPACE = "fedhpa-system"
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
CA = f"{SECRETS}/fedhpa-ca"
WEBHOOK_TLS, ADAPTER_TLS = f"{SECRETS}/fedhpa-webhook-tls", f"{SECRETS}/fedhpa-metrics-adapter-tls"
ADMISSION, AGGREGATION = "/apis/admissionregistration.k8s.io/v1", "/apis/apiregistration.k8s.io/v1"
MUTATING = f"{ADMISSION}/mutatingwebhookconfigurations/fedhpa-webhook"
VALIDATING = f"{ADMISSION}/validatingwebhookconfigurations/fedhpa-webhook"
CUSTOM = f"{AGGREGATION}/apiservices/v1beta1.custom.metrics.k8s.io"
EXTERNAL = f"{AGGREGATION}/apiservices/v1beta1.external.metrics.k8s.io"
RESOURCE = f"{AGGREGATION}/apiservices/v1beta1.metrics.k8s.io"
EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"
LIFETIME = dt.timedelta(days=90)


class Hub(MemoryApi):
    """An API server whose clock is the loop's, unless `ahead` (seconds) is set."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = 0.0
        self.date = lambda: format_datetime(
            dt.datetime.fromtimestamp(EPOCH + loop_time() + self.ahead, dt.UTC), usegmt=True
        )

    def register(self, namespace: str = NAMESPACE) -> None:
        """Creates the registrations of webhook and adapter without CA bundles."""
        webhook = configurations(Endpoint(namespace=namespace, service="fedhpa-webhook"), b"")
        services = api_services(Registration(namespace=namespace), b"", ["custom.metrics.k8s.io"])
        for each in [*webhook, *services]:
            self.create(each)

    def create(self, found: dict[str, Any]) -> None:
        """Stores an object as another client would."""
        plural = f"{found['kind'].lower()}s"
        metadata = found["metadata"]
        if found["kind"] == "Secret":
            path = f"/api/v1/namespaces/{metadata['namespace']}/secrets"
        else:
            path = f"/apis/{found['apiVersion']}/{plural}"
        self._store(f"{path}/{metadata['name']}", found)

    @property
    def writes(self) -> list[tuple[str, str]]:
        """The writes of Secrets and registrations, in order."""
        return [call for call in self.calls if call[0] != "GET" and "/events" not in call[1]]

    def events(self) -> list[tuple[str, str]]:
        """The reason and the message of each event."""
        found = [each for path, each in self.objects.items() if path.startswith(EVENTS)]
        return [(each["reason"], each["message"]) for each in found]

    def bundles(self, path: str) -> list[tuple[x509.Certificate, ...]]:
        """The certificates of each caBundle of a registration."""
        found = self.objects[path]
        clients = [each["clientConfig"] for each in found.get("webhooks", [])] or [found["spec"]]
        return [stored.bundle_of(base64.b64decode(each.get("caBundle") or "")) for each in clients]

    def leaf(self, server: str) -> x509.Certificate:
        """The stored serving certificate, whose key must fit."""
        pair = stored.decode_pair(self.objects[f"{SECRETS}/{SERVING_SECRETS[server]}"])
        assert pair is not None
        return pair.certificate

    def trusts(self, path: str, server: str) -> bool:
        """True if each caBundle of a registration has a root of the stored certificate."""
        leaf = self.leaf(server)
        return all(any(is_signed(leaf, root) for root in bundle) for bundle in self.bundles(path))


def is_signed(leaf: x509.Certificate, root: x509.Certificate) -> bool:
    """True if the root signed the certificate."""
    try:
        leaf.verify_directly_issued_by(root)
    except Exception:  # any failure means that this root did not sign
        return False
    return True


def manager_of(
    hub: Hub,
    *,
    registry: CollectorRegistry | None = None,
    leads: Any = lambda: True,
    step: Any = lambda: 0.0,
    hosts: tuple[str, ...] = (),
) -> CertificateManager:
    """Returns a manager that begins now. `step` is the error of its wall clock in seconds."""
    clock = Clock(loop_time, lambda: EPOCH + loop_time() + step(), boot=loop_time)
    return CertificateManager(
        CertificateStore(hub, hub, NAMESPACE, hosts),
        EventRecorder(hub, COMPONENT, wall=clock.wall),
        CertificateMetrics(registry or CollectorRegistry()),
        lifetime=LIFETIME,
        leads=leads,
        clock=clock,
    )
