"""Writes the CA bundle into webhook configurations and APIServices, where the API server reads it.

A rotation publishes the bundle first. Once every client trusts the new root, leaves can be issued again.
"""

from __future__ import annotations

import base64
from collections.abc import Collection
from typing import Any

from fedhpa.kube import ApiClient, resource_path, update_with_retry

MUTATING = "mutatingwebhookconfigurations"
VALIDATING = "validatingwebhookconfigurations"


async def publish_to_webhooks(
    client: ApiClient, kind: str, name: str, webhooks: Collection[str], bundle_pem: bytes
) -> bool:
    """Sets the caBundle of the named webhooks of one configuration. Returns True if anything changed.

    `kind` is MUTATING or VALIDATING. Other webhooks of the configuration stay as they are, because on a
    Karmada hub they belong to Karmada. Raises ApiError, also if the configuration does not exist.
    """
    bundle = base64.b64encode(bundle_pem).decode()
    changed = False

    def publish(configuration: dict[str, Any]) -> dict[str, Any] | None:
        nonlocal changed
        stale = [
            webhook["clientConfig"]
            for webhook in configuration.get("webhooks") or []
            if webhook.get("name") in webhooks and webhook["clientConfig"].get("caBundle") != bundle
        ]
        for client_config in stale:
            client_config["caBundle"] = bundle
        changed = bool(stale)
        return configuration if stale else None

    path = resource_path("admissionregistration.k8s.io/v1", kind, name=name)
    await update_with_retry(client, path, publish)
    return changed


async def publish_to_api_service(client: ApiClient, name: str, bundle_pem: bytes) -> bool:
    """Sets the caBundle of an APIService ("v1beta1.metrics.k8s.io"). Returns True if it changed.

    Raises ApiError.
    """
    bundle = base64.b64encode(bundle_pem).decode()
    changed = False

    def publish(service: dict[str, Any]) -> dict[str, Any] | None:
        nonlocal changed
        changed = service["spec"].get("caBundle") != bundle
        service["spec"]["caBundle"] = bundle
        return service if changed else None

    path = resource_path("apiregistration.k8s.io/v1", "apiservices", name=name)
    await update_with_retry(client, path, publish)
    return changed
