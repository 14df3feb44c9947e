"""What a hub needs to ask the adapter: APIService, Service, and the least rights that the adapter needs.

Plain dictionaries in the API's spelling, so that a chart, a CLI and a test can all use them.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from metrics_adapter.kinds import GROUP, VERSION

Manifest = dict[str, Any]

NAME = "fedhpa-metrics-adapter"
# As Karmada's charts: above whatever a stray metrics-server registered, below the built-in groups.
GROUP_PRIORITY = 100
VERSION_PRIORITY = 200


@dataclass(frozen=True)
class Placement:
    """Where the hub finds the adapter, and as whom the adapter finds the hub.

    With `external_name` the Service is an alias of that DNS name (a hub whose pods run elsewhere, such as
    Karmada's, or a process on localhost); without it, the Service selects the adapter's pods.
    `secrets_namespace` is where the Clusters' credentials are.
    """

    namespace: str = "fedhpa-system"
    service: str = NAME
    port: int = 443
    external_name: str = ""
    service_account: str = NAME
    secrets_namespace: str = "karmada-cluster"


def api_service(placement: Placement, ca_bundle_pem: bytes) -> Manifest:
    """v1beta1.metrics.k8s.io; the hub verifies SERVICE.NAMESPACE.svc against the CA bundle."""
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{VERSION}.{GROUP}", "labels": _labels()},
        "spec": {
            "group": GROUP,
            "version": VERSION,
            "groupPriorityMinimum": GROUP_PRIORITY,
            "versionPriority": VERSION_PRIORITY,
            "caBundle": base64.b64encode(ca_bundle_pem).decode(),
            "service": {
                "namespace": placement.namespace,
                "name": placement.service,
                "port": placement.port,
            },
        },
    }


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
    """Roles and bindings of the adapter's account on the hub: read Clusters and their Secrets, delegate."""
    account = {
        "kind": "ServiceAccount",
        "name": placement.service_account,
        "namespace": placement.namespace,
    }
    read = ["get", "list", "watch"]
    clusters = [{"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"], "verbs": read}]
    secrets = [{"apiGroups": [""], "resources": ["secrets"], "verbs": read}]
    return [
        _namespaced("v1", "ServiceAccount", placement.service_account, placement.namespace),
        _cluster_role(NAME, clusters),
        _binding("ClusterRoleBinding", NAME, "ClusterRole", NAME, account),
        _namespaced("rbac.authorization.k8s.io/v1", "Role", NAME, placement.secrets_namespace, rules=secrets),
        _binding("RoleBinding", NAME, "Role", NAME, account, placement.secrets_namespace),
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


def member_rights() -> list[Manifest]:
    """The role that the adapter's credentials need on each member."""
    metrics = [{"apiGroups": [GROUP], "resources": ["pods", "nodes"], "verbs": ["get", "list"]}]
    return [_cluster_role(f"{NAME}-member", metrics)]


def manifests(placement: Placement, ca_bundle_pem: bytes) -> list[Manifest]:
    """Everything to apply on a hub, in order."""
    return [*hub_rights(placement), service(placement), api_service(placement, ca_bundle_pem)]


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
