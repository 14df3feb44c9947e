"""The CA bundle is published to our webhooks and our APIService, and to no others."""

from __future__ import annotations

import base64

from certs.publish import VALIDATING, publish_to_api_service, publish_to_webhooks
from fedhpa.kube.client import ApiClient
from tests.support.fakeapi import Collection, fake_api

WEBHOOKS: Collection = ("admissionregistration.k8s.io/v1", VALIDATING)
API_SERVICES: Collection = ("apiregistration.k8s.io/v1", "apiservices")
OURS = base64.b64encode(b"ours").decode()


async def test_only_the_named_webhooks_get_the_bundle() -> None:
    """On a Karmada hub, the other webhooks of the configuration belong to Karmada."""
    names = ("federatedhpa.karmada.io", "works.karmada.io")
    webhooks = [{"name": name, "clientConfig": {"url": "https://x", "caBundle": "b2xk"}} for name in names]
    async with fake_api() as hub, ApiClient(hub.config()) as client:
        hub.put(WEBHOOKS, {"metadata": {"name": "validating-config"}, "webhooks": webhooks})

        first = await publish_to_webhooks(client, VALIDATING, "validating-config", names[:1], b"ours")
        again = await publish_to_webhooks(client, VALIDATING, "validating-config", names[:1], b"ours")

        stored = hub.find(WEBHOOKS, "validating-config")
        assert stored is not None
        bundles = [webhook["clientConfig"]["caBundle"] for webhook in stored["webhooks"]]
        assert (first, again) == (True, False)
        assert bundles == [OURS, "b2xk"]


async def test_the_api_service_gets_the_bundle() -> None:
    """The second call finds the bundle and writes nothing."""
    async with fake_api() as hub, ApiClient(hub.config()) as client:
        hub.put(API_SERVICES, {"metadata": {"name": "v1beta1.metrics.k8s.io"}, "spec": {"group": "g"}})

        first = await publish_to_api_service(client, "v1beta1.metrics.k8s.io", b"ours")
        again = await publish_to_api_service(client, "v1beta1.metrics.k8s.io", b"ours")

        stored = hub.find(API_SERVICES, "v1beta1.metrics.k8s.io")
        assert stored is not None
        assert (first, again) == (True, False)
        assert stored["spec"] == {"group": "g", "caBundle": OURS}
