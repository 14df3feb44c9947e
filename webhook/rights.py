"""The rights that the webhook needs on the hub for warnings about other objects; for verdicts it needs none.

It reads the autoscalers and the clusters, and looks at the scale of targets. Targets of other kinds need a
rule of their own; without it nothing is said about them.
"""

from __future__ import annotations

from typing import Any, Final

from fedhpa.api.cluster import GROUP as CLUSTER_GROUP
from fedhpa.api.federatedhpa import GROUP

NAME: Final = "fedhpa-webhook"

_LABELS: Final = {"app.kubernetes.io/name": "fedhpa", "app.kubernetes.io/component": "webhook"}
_RULES: Final = (
    {
        "apiGroups": [GROUP],
        "resources": ["federatedhpas", "cronfederatedhpas"],
        "verbs": ["list", "watch"],
    },
    {
        "apiGroups": ["autoscaling"],
        "resources": ["horizontalpodautoscalers"],
        "verbs": ["list", "watch"],
    },
    {
        "apiGroups": [CLUSTER_GROUP],
        "resources": ["clusters"],
        "verbs": ["list", "watch"],
    },
    {
        "apiGroups": ["apps"],
        "resources": ["deployments/scale", "replicasets/scale", "statefulsets/scale"],
        "verbs": ["get"],
    },
)


def user(name: str) -> dict[str, str]:
    """Somebody whom a kubeconfig names, as the subject of a binding."""
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}


def service_account(namespace: str, name: str) -> dict[str, str]:
    """A pod's own account, as the subject of a binding."""
    return {"kind": "ServiceAccount", "namespace": namespace, "name": name}


def reading_rights(subject: dict[str, str]) -> list[dict[str, Any]]:
    """The ClusterRole and its ClusterRoleBinding to `subject`."""
    rules = [{key: list(values) for key, values in rule.items()} for rule in _RULES]
    role = _object("ClusterRole", rules=rules)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME}
    return [role, _object("ClusterRoleBinding", roleRef=reference, subjects=[dict(subject)])]


def _object(kind: str, **body: Any) -> dict[str, Any]:
    metadata = {"name": NAME, "labels": dict(_LABELS)}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, **body}
