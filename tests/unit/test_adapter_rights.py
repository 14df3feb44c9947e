"""The adapter's RBAC rules are exactly those that it needs."""

from __future__ import annotations

from typing import Any

from fedhpa.api.rights import member_metrics_rights
from metrics_adapter.registration import Registration, hub_rights, manifests

PLACEMENT = Registration(secrets=frozenset({("karmada-cluster", "member2"), ("karmada-cluster", "member1")}))
READ = ["get", "list", "watch"]
METRICS = ["metrics.k8s.io"]
Rule = dict[str, Any]


def rules(documents: list[dict[str, Any]]) -> dict[str, list[Rule]]:
    """Returns the rules by kind, namespace and name."""
    return {
        f"{found['kind']} {found['metadata'].get('namespace', '')}/{found['metadata']['name']}": found[
            "rules"
        ]
        for found in documents
        if "rules" in found
    }


def test_on_the_hub_it_reads_clusters_and_named_secrets() -> None:
    """It may write nothing. The reader role of metrics is for people."""
    clusters = {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"], "verbs": ["list", "watch"]}
    names = ["member1", "member2"]
    secrets = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": names, "verbs": READ}
    metrics = {"apiGroups": METRICS, "resources": ["pods", "nodes"], "verbs": ["get", "list"]}

    assert rules(manifests(PLACEMENT, b"ca")) == {
        "ClusterRole /fedhpa:metrics-adapter": [clusters],
        "Role karmada-cluster/fedhpa:metrics-adapter:secrets": [secrets],
        "ClusterRole /fedhpa:aggregated-metrics-reader": [metrics],
    }


def test_on_the_hub_it_delegates_who_calls_and_what_they_may() -> None:
    """Kubernetes' own roles are bound to the adapter's ServiceAccount alone."""
    bindings = [found for found in hub_rights(PLACEMENT) if "roleRef" in found]
    account = {"kind": "ServiceAccount", "name": "fedhpa-metrics-adapter", "namespace": "fedhpa-system"}

    assert [(found["metadata"].get("namespace", ""), found["roleRef"]["name"]) for found in bindings] == [
        ("", "fedhpa:metrics-adapter"),
        ("karmada-cluster", "fedhpa:metrics-adapter:secrets"),
        ("", "system:auth-delegator"),
        ("kube-system", "extension-apiserver-authentication-reader"),
    ]
    assert all(found["subjects"] == [account] for found in bindings)


def test_without_secrets_there_is_no_right_to_any() -> None:
    """An empty list of resourceNames would allow all Secrets."""
    assert "secrets" not in str(hub_rights(Registration()))


def test_on_members_it_reads_metrics() -> None:
    """It may not read pods or anything else but the namespace whose UID tells clusters apart."""
    found = rules(member_metrics_rights())

    assert found.pop("ServiceAccount fedhpa-system/fedhpa-hub-metrics", []) == []
    assert found == {
        "ClusterRole /fedhpa:member-metrics": [
            {
                "apiGroups": [""],
                "resources": ["namespaces"],
                "resourceNames": ["kube-system"],
                "verbs": ["get"],
            },
            {"apiGroups": METRICS, "resources": ["pods", "nodes"], "verbs": ["get", "list"]},
            {"apiGroups": ["custom.metrics.k8s.io"], "resources": ["*"], "verbs": ["get"]},
            {"apiGroups": ["external.metrics.k8s.io"], "resources": ["*"], "verbs": ["list"]},
        ]
    }
