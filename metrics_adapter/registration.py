"""Manifests that register the adapter on a hub: APIServices, Service, and the least RBAC rights it needs.

They are plain dictionaries in the API's spelling, which the CLI, the testbed and tests share.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

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
    """Returns the ServiceAccount's roles: read Clusters and named Secrets, delegate authentication."""
    account = {
        "kind": "ServiceAccount",
        "name": registration.service_account,
        "namespace": registration.namespace,
    }
    read = ["get", "list", "watch"]
    clusters = [{"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"], "verbs": read}]
    return [
        _namespaced("v1", "ServiceAccount", registration.service_account, registration.namespace),
        _cluster_role(NAME, clusters),
        _binding("ClusterRoleBinding", NAME, "ClusterRole", NAME, account),
        *_secret_roles(registration.secrets, account),
        # TokenReview and SubjectAccessReview.
        _binding(
            "ClusterRoleBinding", f"{NAME}:auth-delegator", "ClusterRole", "system:auth-delegator", account
        ),
        # The ConfigMap with the CA and the names of trusted front proxies.
        _binding(
            "RoleBinding",
            f"{NAME}:authentication-reader",
            "Role",
            "extension-apiserver-authentication-reader",
            account,
            "kube-system",
        ),
        _reader_role(),
    ]


def _secret_roles(secrets: Iterable[SecretKey], account: dict[str, str]) -> list[Manifest]:
    """Returns a Role and a RoleBinding for each namespace, for exactly these Secrets."""
    found: list[Manifest] = []
    for namespace, keys in groupby(sorted(secrets), key=itemgetter(0)):
        rule = {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": [name for _, name in keys],
            # resourceNames suffice, because the adapter lists and watches each Secret by its name.
            "verbs": ["get", "list", "watch"],
        }
        found.append(_namespaced("rbac.authorization.k8s.io/v1", "Role", NAME, namespace, rules=[rule]))
        found.append(_binding("RoleBinding", NAME, "Role", NAME, account, namespace))
    return found


def member_rights() -> list[Manifest]:
    """Returns the ClusterRole that the adapter's credentials need on each member."""
    read = ["get", "list"]
    metrics = [
        {"apiGroups": [GROUP], "resources": ["pods", "nodes"], "verbs": read},
        # The name of the metric is part of the resource name.
        {"apiGroups": [CUSTOM, EXTERNAL], "resources": ["*"], "verbs": read},
    ]
    return [_cluster_role(f"{NAME}-member", metrics)]


def manifests(
    registration: Registration, ca_bundle_pem: bytes, groups: Sequence[str] = tuple(APIS.values())
) -> list[Manifest]:
    """Returns all manifests for a hub, in the order in which to apply them."""
    return [
        *hub_rights(registration),
        service(registration),
        *api_services(registration, ca_bundle_pem, groups),
    ]


def _reader_role() -> Manifest:
    # metrics-server ships this role, and a hub has no metrics-server. Without the role, `view` and `admin`
    # cannot read metrics.
    role = _cluster_role(
        "system:aggregated-metrics-reader",
        [{"apiGroups": [GROUP], "resources": ["pods", "nodes"], "verbs": ["get", "list"]}],
    )
    for name in ("view", "edit", "admin"):
        role["metadata"]["labels"][f"rbac.authorization.k8s.io/aggregate-to-{name}"] = "true"
    return role


def _cluster_role(name: str, rules: list[dict[str, Any]]) -> Manifest:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": _labels()},
        "rules": rules,
    }


def _binding(
    kind: str, name: str, role_kind: str, role: str, subject: dict[str, str], namespace: str = ""
) -> Manifest:
    metadata: dict[str, Any] = {"name": name, "labels": _labels()}
    if namespace:
        metadata["namespace"] = namespace
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role},
        "subjects": [subject],
    }


def _namespaced(api_version: str, kind: str, name: str, namespace: str, **rest: Any) -> Manifest:
    metadata = {"name": name, "namespace": namespace, "labels": _labels()}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def _labels() -> dict[str, str]:
    return {"app.kubernetes.io/name": "fedhpa", "app.kubernetes.io/component": "metrics-adapter"}
