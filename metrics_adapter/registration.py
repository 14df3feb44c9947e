"""Manifests that register the adapter on a hub: account, rights, Service and APIServices.

They are plain dictionaries in the API's spelling, which the CLI, the testbed and tests share. The rights
themselves are in `fedhpa.api.rights`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedhpa.api import rights
from fedhpa.members.metrics import CUSTOM, EXTERNAL
from metrics_adapter.apis import GROUP, SERVED_VERSIONS

Manifest = dict[str, Any]
SecretKey = tuple[str, str]

NAME = "fedhpa-metrics-adapter"
# The value of Karmada's charts: above a stray metrics-server, below the built-in groups.
GROUP_PRIORITY = 100
VERSION_PRIORITY = 200
# For a group's older versions, because the hub prefers the version with the highest priority.
OLDER_PRIORITY = 100

# API groups by their names in `fedhpa apiservice --api`.
APIS = {"metrics": GROUP, "custom": CUSTOM, "external": EXTERNAL}


@dataclass(frozen=True)
class Registration:
    """The adapter's Service and ServiceAccount on the hub, and the Secrets that it may read.

    With `external_name` the Service is an alias of that DNS name, for an adapter that runs outside the hub:
    in Karmada's host cluster, or on localhost. Without it, the Service selects the adapter's pods.
    `secrets` are the credentials of the Clusters, as (namespace, name).
    """

    namespace: str = "fedhpa-system"
    service: str = NAME
    port: int = 443
    external_name: str = ""
    service_account: str = NAME
    secrets: frozenset[SecretKey] = frozenset()


def api_services(
    registration: Registration, ca_bundle_pem: bytes, groups: Sequence[str] = tuple(APIS.values())
) -> list[Manifest]:
    """Returns one APIService a version. The hub verifies SERVICE.NAMESPACE.svc with the CA bundle."""
    return [
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{version}.{group}", "labels": _labels()},
            "spec": {
                "group": group,
                "version": version,
                "groupPriorityMinimum": GROUP_PRIORITY,
                "versionPriority": OLDER_PRIORITY if position else VERSION_PRIORITY,
                "caBundle": base64.b64encode(ca_bundle_pem).decode(),
                "service": {
                    "namespace": registration.namespace,
                    "name": registration.service,
                    "port": registration.port,
                },
            },
        }
        for group in groups
        for position, version in enumerate(SERVED_VERSIONS[group])
    ]


def owner(stored: Mapping[str, Any], registration: Registration) -> str | None:
    """Returns the owner of a stored APIService, or None if it belongs to this adapter."""
    service = (stored.get("spec") or {}).get("service") or {}
    given = (service.get("namespace"), service.get("name"))
    if given == (registration.namespace, registration.service):
        return None
    return f"the Service {given[0]}/{given[1]}" if service else "the API server itself"


def service(registration: Registration) -> Manifest:
    """Returns the Service that the APIServices name."""
    spec: dict[str, Any] = {"ports": [{"name": "https", "port": registration.port, "protocol": "TCP"}]}
    if registration.external_name:
        spec |= {"type": "ExternalName", "externalName": registration.external_name}
    else:
        spec["ports"][0]["targetPort"] = "https"
        spec["selector"] = _labels()
    return _namespaced("v1", "Service", registration.service, registration.namespace, spec=spec)


def hub_rights(registration: Registration) -> list[Manifest]:
    """Returns the ServiceAccount and its rights: read Clusters and the named Secrets, delegate reviews."""
    secrets: dict[str, list[str]] = {}
    for namespace, name in sorted(registration.secrets):
        secrets.setdefault(namespace, []).append(name)
    place = registration.namespace, registration.service_account
    return [
        rights.account(*place),
        *rights.rights_of("metrics-adapter", rights.service_account(*place), secrets=secrets),
    ]


def manifests(
    registration: Registration, ca_bundle_pem: bytes, groups: Sequence[str] = tuple(APIS.values())
) -> list[Manifest]:
    """Returns all manifests for a hub, in the order in which to apply them."""
    return [
        *hub_rights(registration),
        service(registration),
        *api_services(registration, ca_bundle_pem, groups),
    ]


def _namespaced(api_version: str, kind: str, name: str, namespace: str, **rest: Any) -> Manifest:
    metadata = {"name": name, "namespace": namespace, "labels": _labels()}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def _labels() -> dict[str, str]:
    return {"app.kubernetes.io/name": "fedhpa", "app.kubernetes.io/component": "metrics-adapter"}
