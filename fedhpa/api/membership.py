"""The objects that register a member: its part, with account and rights, and the hub's part.

They are plain manifests in the API's spelling. `fedhpa join` creates them and prints them, and `fedhpa
unjoin` removes them.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fedhpa.api.known_cluster import API_VERSION, KIND
from fedhpa.api.member_sources import METRICS_ENDING
from fedhpa.api.names import dns_label
from fedhpa.api.rights import (
    ADAPTER,
    CONTROLLER,
    MEMBER,
    MEMBER_METRICS,
    Manifest,
    Subject,
    Switches,
    labels,
    member_rights,
    member_secret_rights,
    service_account,
)

# The label of every object on the hub that belongs to one member. Its value is the Cluster's name.
CLUSTER_LABEL: Final = "fedhpa.io/cluster"
# The controller renews the tokens of Secrets with this label, and of no others.
RENEWED, RENEWED_VALUE = "fedhpa.io/renew-token", "true"
# On a Cluster of another owner, such as Karmada's: NAMESPACE/NAME of the Secret that is used instead of its
# secretRef.
SECRET_ANNOTATION: Final = "fedhpa.io/secret"  # noqa: S105  # the name of an annotation
# On a Cluster: NAMESPACE/NAME of the Secret with which the metrics adapter reads the member. By default it
# has the other Secret's name with this ending.
METRICS_ANNOTATION: Final = "fedhpa.io/metrics-secret"
# The accounts in a member, each with the ending of its Secret on the hub.
ACCOUNTS: Final = {MEMBER: "", MEMBER_METRICS: METRICS_ENDING}


@dataclass(frozen=True)
class Address:
    """How the hub's processes reach a member. `ca_bundle` is PEM; without it nothing is verified."""

    endpoint: str
    ca_bundle: bytes = b""
    proxy: str = ""
    # The UID of the namespace kube-system, by which clusters are told apart.
    uid: str = ""


def name_problem(name: str) -> str:
    """Returns why a text is no name of a member; empty if it is one."""
    problems = dns_label(name)
    return problems[0] if problems else ""


def secret_name(cluster: str, account: str = MEMBER) -> str:
    """Returns the name of the Secret with the token of an account in a member."""
    return f"fedhpa-member-{cluster}{ACCOUNTS[account]}"


def member_part(namespace: str, switches: Switches) -> list[Manifest]:
    """Returns namespace, account and rights in the member."""
    return [namespace_of(namespace), *member_rights(namespace, switches=switches)]


def token_secret(account: str) -> str:
    """Returns the name of a lasting token's Secret in the member."""
    return f"{account}-token"


def lasting_tokens(namespace: str) -> list[Manifest]:
    """Returns the Secrets into which the member writes tokens of the accounts that do not expire."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/service-account-token",
            "metadata": {
                "name": token_secret(account),
                "namespace": namespace,
                "labels": labels("member"),
                "annotations": {"kubernetes.io/service-account.name": account},
            },
        }
        for account in ACCOUNTS
    ]


def credentials(
    cluster: str,
    namespace: str,
    address: Address,
    token: str = "",
    annotations: Mapping[str, str] | None = None,
    account: str = MEMBER,
) -> Manifest:
    """Returns the Secret with the credentials of an account. With annotations its token is renewed."""
    values = {"token": token.encode(), "caBundle": address.ca_bundle}
    metadata: dict[str, Any] = {
        "name": secret_name(cluster, account),
        "namespace": namespace,
        "labels": hub_labels(cluster),
    }
    if annotations:
        metadata["annotations"] = dict(annotations)
        metadata["labels"][RENEWED] = RENEWED_VALUE
    data = {key: base64.b64encode(value).decode() for key, value in values.items() if value}
    return {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "data": data}


def cluster(name: str, namespace: str, address: Address) -> Manifest:
    """Returns the Cluster, which names the Secret of `credentials`."""
    spec: dict[str, Any] = {
        "syncMode": "Push",
        "apiEndpoint": address.endpoint,
        "secretRef": {"namespace": namespace, "name": secret_name(name)},
    }
    if address.uid:
        spec["id"] = address.uid
    if not address.ca_bundle:
        spec["insecureSkipTLSVerification"] = True
    if address.proxy:
        spec["proxyURL"] = address.proxy
    metadata = {"name": name, "labels": hub_labels(name)}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def secret_rights(
    name: str, namespace: str, controller: Subject | None = None, adapter: Subject | None = None
) -> list[Manifest]:
    """Returns the Roles on the member's Secrets. The subjects are by default the ServiceAccounts."""
    manifests = member_secret_rights(
        name,
        {account: secret_name(name, account) for account in ACCOUNTS},
        namespace,
        controller or service_account(namespace, CONTROLLER),
        adapter or service_account(namespace, ADAPTER),
    )
    for one in manifests:
        one["metadata"]["labels"] = hub_labels(name)
    return manifests


def hub_labels(cluster: str) -> dict[str, str]:
    """Returns the labels of the hub's objects of one member."""
    return labels("member") | {CLUSTER_LABEL: cluster}


def namespace_of(name: str) -> Manifest:
    """Returns a namespace, as a manifest."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
