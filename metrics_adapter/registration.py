"""What a hub needs to ask the adapter: APIService, Service, and the least rights that the adapter needs.

Plain dictionaries in the API's spelling, so that a chart, a CLI and a test can all use them.
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
# As Karmada's charts: above whatever a stray metrics-server registered, below the built-in groups.
GROUP_PRIORITY = 100
VERSION_PRIORITY = 200
# A group's other versions: the hub prefers the highest.
OLDER_PRIORITY = 100

# What `fedhpa apiservice --api` calls the groups.
APIS = {"metrics": GROUP, "custom": CUSTOM, "external": EXTERNAL}


@dataclass(frozen=True)
class Placement:
    """Where the hub finds the adapter, and as whom the adapter finds the hub.

    With `external_name` the Service is an alias of that DNS name (a hub whose pods run elsewhere, such as
    Karmada's, or a process on localhost); without it, the Service selects the adapter's pods.
    `secrets` are the Clusters' credentials that the adapter may read, as (namespace, name).
    """

    namespace: str = "fedhpa-system"
    service: str = NAME
    port: int = 443
    external_name: str = ""
    service_account: str = NAME
    secrets: frozenset[SecretKey] = frozenset()


def api_services(
    placement: Placement, ca_bundle_pem: bytes, groups: Sequence[str] = tuple(APIS.values())
) -> list[Manifest]:
    """One for each version of the groups; the hub verifies SERVICE.NAMESPACE.svc against the CA bundle."""
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
                    "namespace": placement.namespace,
                    "name": placement.service,
                    "port": placement.port,
                },
            },
        }
        for group in groups
        for position, version in enumerate(SERVED_VERSIONS[group])
    ]


def owner(stored: Mapping[str, Any], placement: Placement) -> str | None:
    """Whose a stored APIService is, if it is not this adapter's."""
    service = (stored.get("spec") or {}).get("service") or {}
    given = (service.get("namespace"), service.get("name"))
    if given == (placement.namespace, placement.service):
        return None
    return f"the Service {given[0]}/{given[1]}" if service else "the API server itself"


def service(placement: Placement) -> Manifest:
    """The Service that the APIService names."""
    spec: dict[str, Any] = {"ports": [{"name": "https", "port": placement.port, "protocol": "TCP"}]}
    if placement.external_name:
        spec |= {"type": "ExternalName", "externalName": placement.external_name}
    else:
        spec["ports"][0]["targetPort"] = "https"
        spec["selector"] = _labels()
    return _namespaced("v1", "Service", placement.service, placement.namespace, spec=spec)


def hub_rights(placement: Placement) -> list[Manifest]:
    """Roles and bindings of the adapter's account on the hub: read Clusters and named Secrets, delegate."""
    account = {
        "kind": "ServiceAccount",
        "name": placement.service_account,
        "namespace": placement.namespace,
    }
    read = ["get", "list", "watch"]
    clusters = [{"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"], "verbs": read}]
    return [
        _namespaced("v1", "ServiceAccount", placement.service_account, placement.namespace),
        _cluster_role(NAME, clusters),
        _binding("ClusterRoleBinding", NAME, "ClusterRole", NAME, account),
        *_secret_roles(placement.secrets, account),
        # TokenReview and SubjectAccessReview.
        _binding(
            "ClusterRoleBinding", f"{NAME}:auth-delegator", "ClusterRole", "system:auth-delegator", account
        ),
        # Whom to believe as a front proxy.
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
    """A role and its binding in each namespace, for exactly these Secrets."""
    found: list[Manifest] = []
    for namespace, keys in groupby(sorted(secrets), key=itemgetter(0)):
        rule = {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": [name for _, name in keys],
            # A Secret is followed by a list and a watch of its name alone, for which this is enough.
            "verbs": ["get", "list", "watch"],
        }
        found.append(_namespaced("rbac.authorization.k8s.io/v1", "Role", NAME, namespace, rules=[rule]))
        found.append(_binding("RoleBinding", NAME, "Role", NAME, account, namespace))
    return found


def member_rights() -> list[Manifest]:
    """The role that the adapter's credentials need on each member."""
    read = ["get", "list"]
    metrics = [
        {"apiGroups": [GROUP], "resources": ["pods", "nodes"], "verbs": read},
        # What a metric is called is part of the resource.
        {"apiGroups": [CUSTOM, EXTERNAL], "resources": ["*"], "verbs": read},
    ]
    return [_cluster_role(f"{NAME}-member", metrics)]


def manifests(
    placement: Placement, ca_bundle_pem: bytes, groups: Sequence[str] = tuple(APIS.values())
) -> list[Manifest]:
    """Everything to apply on a hub, in order."""
    return [
        *hub_rights(placement),
        service(placement),
        *api_services(placement, ca_bundle_pem, groups),
    ]


def _reader_role() -> Manifest:
    # metrics-server ships it, and a hub has none: without it `view` and `admin` cannot read metrics.
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
