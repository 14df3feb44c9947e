"""Objects that register members, webhook and adapter with a hub, and grant their permissions."""

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import yaml

from fedhpa.api import rights

NAMESPACE, CLUSTER_NAMESPACE = rights.NAMESPACE, rights.CLUSTER_NAMESPACE
ADAPTER = rights.ADAPTER
MEMBER_USER = rights.MEMBER  # in NAMESPACE of each member
ADAPTER_SERVICE = ADAPTER
# As Karmada has them, the Secrets of all Clusters are in this namespace.
SECRETS: dict[str, tuple[str, ...]] = {CLUSTER_NAMESPACE: ()}
# Outside a pod the controller keeps its Leases here.
LEASE_NAMESPACE = "kube-system"


def hub_rights() -> list[dict[str, Any]]:
    """Returns the namespaces of the hub, and the rights of adapter and controller, which are users there.

    The tests run the controller with either propagation and either source of metrics. The webhook has no
    rights, except in the tests of its warnings.
    """
    return [
        *map(namespace, (NAMESPACE, CLUSTER_NAMESPACE)),
        *rights.rights_of("metrics-adapter", rights.user(ADAPTER), secrets=SECRETS),
        *_controller_rights(),
    ]


def _controller_rights() -> list[dict[str, Any]]:
    """Returns the rights of the controller with either propagation: each role has the rules of both."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for propagation in get_args(rights.Propagation):
        for manifest in rights.hub_rights(
            lease_namespace=LEASE_NAMESPACE,
            user_name=rights.CONTROLLER,
            switches=rights.Switches(propagation, "hub"),
            secrets=SECRETS,
            components=["controller"],
        ):
            metadata = manifest["metadata"]
            known = found.setdefault(
                (manifest["kind"], metadata.get("namespace", ""), metadata["name"]), manifest
            )
            for rule in manifest.get("rules", ()):
                if rule not in known["rules"]:
                    known["rules"].append(rule)
    return list(found.values())


def member_rights() -> list[dict[str, Any]]:
    """Returns the namespace, account and rights of the hub's token on a member, for either mode."""
    switches = rights.Switches("direct", distributed=True)
    return [namespace(NAMESPACE), *rights.member_rights(NAMESPACE, switches=switches)]


def namespace(name: str) -> dict[str, Any]:
    """Returns a Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def documents(path: Path) -> list[dict[str, Any]]:
    """Returns the objects of a YAML file."""
    return [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]


def cron_that_never_fires(name: str, namespace: str = "default") -> dict[str, Any]:
    """Returns a CronFederatedHPA for 31 February, which the schema accepts and only the webhook denies."""
    return {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "CronFederatedHPA",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "rules": [{"name": "never", "schedule": "0 0 31 2 *", "targetReplicas": 1}],
        },
    }


@dataclass(frozen=True)
class Credentials:
    """A bearer token for a member, and the PEM bundle that verifies its server."""

    token: str
    ca_bundle: bytes


def cluster_objects(name: str, server: str, credentials: Credentials) -> list[dict[str, Any]]:
    """Returns Namespace, Secret and Cluster, laid out as Karmada does."""
    encoded = {
        "token": base64.b64encode(credentials.token.encode()).decode(),
        "caBundle": base64.b64encode(credentials.ca_bundle).decode(),
    }
    return [
        namespace(CLUSTER_NAMESPACE),
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": CLUSTER_NAMESPACE},
            "data": encoded,
        },
        {
            "apiVersion": "cluster.karmada.io/v1alpha1",
            "kind": "Cluster",
            "metadata": {"name": name},
            "spec": {
                "syncMode": "Push",
                "apiEndpoint": server,
                "secretRef": {"namespace": CLUSTER_NAMESPACE, "name": name},
            },
        },
    ]


def aggregated_api(
    *, group: str, version: str, service: str, namespace: str, port: int, ca_bundle: bytes
) -> list[dict[str, Any]]:
    """Returns a Service for a port of this machine, and the APIService that refers to it."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": service, "namespace": namespace},
            "spec": {
                "type": "ExternalName",
                "externalName": "localhost",
                "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
            },
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{version}.{group}"},
            "spec": {
                "group": group,
                "version": version,
                "groupPriorityMinimum": 100,
                "versionPriority": 200,
                "service": {"name": service, "namespace": namespace, "port": port},
                "caBundle": base64.b64encode(ca_bundle).decode(),
            },
        },
    ]
