"""The RBAC rights of each process on the hub, and of the hub's token on a member: the one source of them.

The rights are plain manifests in the API's spelling. `fedhpa rbac` prints them, and the testbed runs the
processes with exactly these rights. All ClusterRoles and bindings are called `fedhpa:...`, so that they never
replace an object of another project. No Namespace is among the manifests, because deleting them would delete
all that is in it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal

from fedhpa.api.cluster import GROUP as CLUSTER_GROUP
from fedhpa.api.federatedhpa import GROUP

Manifest = dict[str, Any]
Subject = Mapping[str, str]
# Names of Secrets by namespace. No names mean all Secrets of the namespace.
Secrets = Mapping[str, Collection[str]]
Propagation = Literal["karmada", "direct"]
MetricsVia = Literal["members", "hub"]

NAMESPACE: Final = "fedhpa-system"
# Where Karmada keeps the credentials of its clusters.
CLUSTER_NAMESPACE: Final = "karmada-cluster"
# The accounts of the processes on the hub, and of the hub's token on a member.
CONTROLLER, ADAPTER, WEBHOOK = "fedhpa-controller", "fedhpa-metrics-adapter", "fedhpa-webhook"
MEMBER: Final = "fedhpa-hub"

# The names of ClusterRoles.
CONTROLLER_ROLE, ADAPTER_ROLE, WEBHOOK_ROLE = "fedhpa:controller", "fedhpa:metrics-adapter", "fedhpa:webhook"
MEMBER_ROLE, MEMBER_METRICS_ROLE = "fedhpa:member", "fedhpa:member-metrics"
READER_ROLE: Final = "fedhpa:aggregated-metrics-reader"

READ: Final = ("get", "list", "watch")
WORKLOADS: Final = ("deployments", "replicasets", "statefulsets")
SCALES: Final = tuple(f"{workload}/scale" for workload in WORKLOADS)
USAGE: Final = "metrics.k8s.io"
VALUES: Final = ("custom.metrics.k8s.io", "external.metrics.k8s.io")
RBAC_GROUP: Final = "rbac.authorization.k8s.io"


def service_account(namespace: str, name: str) -> dict[str, str]:
    """Returns the RBAC subject of a service account."""
    return {"kind": "ServiceAccount", "namespace": namespace, "name": name}


def user(name: str) -> dict[str, str]:
    """Returns the RBAC subject of a user, such as the one of a kubeconfig."""
    return {"apiGroup": RBAC_GROUP, "kind": "User", "name": name}


def controller_rights(
    subject: Subject,
    *,
    lease_namespace: str = NAMESPACE,
    propagation: Propagation = "karmada",
    metrics_via: MetricsVia = "members",
    secrets: Secrets | None = None,
) -> list[Manifest]:
    """Returns the roles and bindings of the controller on the hub, for the values of its flags.

    `lease_namespace` is where it keeps its Leases. `secrets` defaults to all of `karmada-cluster`.
    """
    rules = [
        # Rules of CronFederatedHPAs set the bounds of FederatedHPAs. Their own objects have a finalizer.
        _rule(GROUP, ["federatedhpas", "cronfederatedhpas"], [*READ, "patch"]),
        _rule(GROUP, ["federatedhpas/status", "cronfederatedhpas/status"], ["update", "patch"]),
        _rule(CLUSTER_GROUP, ["clusters"], READ),
        _rule(CLUSTER_GROUP, ["clusters/status"], ["update"]),
        _rule("", ["events"], ["create", "patch"]),
        # The conditions SoleOwner and HubCompatible. Without these rights the controller scales all the same.
        _rule("autoscaling", ["horizontalpodautoscalers"], ["list"]),
        _rule(
            "apiextensions.k8s.io",
            ["customresourcedefinitions"],
            ["get"],
            names=[f"cronfederatedhpas.{GROUP}", f"federatedhpas.{GROUP}"],
        ),
        _rule(
            "admissionregistration.k8s.io",
            ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
            ["list"],
        ),
    ]
    if propagation == "karmada":
        rules += [
            _rule("apps", WORKLOADS, ["get"]),
            _rule("apps", SCALES, ["get", "update"]),
            _rule("work.karmada.io", ["resourcebindings"], ["list"]),
        ]
    if metrics_via == "hub":
        rules += [
            _rule(USAGE, ["pods"], ["get", "list"]),
            _rule(VALUES, ["*"], ["get", "list"]),
        ]
    leases = [_rule("coordination.k8s.io", ["leases"], ["get", "list", "create", "update"])]
    return [
        _cluster_role(CONTROLLER_ROLE, rules, CONTROLLER),
        _binding(CONTROLLER_ROLE, subject, CONTROLLER),
        # TokenReview and SubjectAccessReview, for callers of /decisions.
        _binding(CONTROLLER_ROLE, subject, CONTROLLER, delegated="auth-delegator"),
        *_role(f"{CONTROLLER_ROLE}:leases", leases, subject, lease_namespace, CONTROLLER),
        *_secret_roles(CONTROLLER_ROLE, _or_all(secrets), subject, CONTROLLER),
    ]


def adapter_rights(subject: Subject, *, secrets: Secrets | None = None) -> list[Manifest]:
    """Returns the roles and bindings of the metrics adapter on the hub, and the role of its readers.

    `secrets` defaults to all of `karmada-cluster`.
    """
    return [
        _cluster_role(ADAPTER_ROLE, [_rule(CLUSTER_GROUP, ["clusters"], READ)], ADAPTER),
        _binding(ADAPTER_ROLE, subject, ADAPTER),
        *_secret_roles(ADAPTER_ROLE, _or_all(secrets), subject, ADAPTER),
        # TokenReview and SubjectAccessReview.
        _binding(ADAPTER_ROLE, subject, ADAPTER, delegated="auth-delegator"),
        # The ConfigMap with the CA and the names of trusted front proxies.
        _namespaced_binding(
            f"{ADAPTER_ROLE}:authentication-reader",
            "extension-apiserver-authentication-reader",
            subject,
            "kube-system",
            ADAPTER,
        ),
        _reader_role(),
    ]


def webhook_rights(subject: Subject, *, propagation: Propagation = "karmada") -> list[Manifest]:
    """Returns the role and the binding of a webhook that reads the hub for its warnings.

    Verdicts need no rights. Targets of other kinds need a rule of their own.
    """
    rules = [
        _rule(GROUP, ["federatedhpas", "cronfederatedhpas"], ["list", "watch"]),
        _rule("autoscaling", ["horizontalpodautoscalers"], ["list", "watch"]),
        _rule(CLUSTER_GROUP, ["clusters"], ["list", "watch"]),
    ]
    if propagation == "karmada":
        rules.append(_rule("apps", SCALES, ["get"]))
    return [_cluster_role(WEBHOOK_ROLE, rules, WEBHOOK), _binding(WEBHOOK_ROLE, subject, WEBHOOK)]


def hub_rights(
    namespace: str = NAMESPACE,
    *,
    lease_namespace: str = "",
    propagation: Propagation = "karmada",
    metrics_via: MetricsVia = "members",
    secrets: Secrets | None = None,
) -> list[Manifest]:
    """Returns the ServiceAccounts of all three processes and their rights on the hub."""
    accounts = {name: service_account(namespace, name) for name in (CONTROLLER, ADAPTER, WEBHOOK)}
    return [
        *(account(namespace, name) for name in accounts),
        *controller_rights(
            accounts[CONTROLLER],
            lease_namespace=lease_namespace or namespace,
            propagation=propagation,
            metrics_via=metrics_via,
            secrets=secrets,
        ),
        *adapter_rights(accounts[ADAPTER], secrets=secrets),
        *webhook_rights(accounts[WEBHOOK], propagation=propagation),
    ]


def member_rights(namespace: str = NAMESPACE, *, propagation: Propagation = "direct") -> list[Manifest]:
    """Returns the ServiceAccount whose token is given to the hub, and its rights in a member.

    With `direct` the controller writes scales there.
    """
    rules = [
        _rule("", ["pods", "nodes"], READ),
        *_metrics_rules(),
        _rule("apps", WORKLOADS, ["list", "watch"]),
        _rule("apps", SCALES, ["get", "update"] if propagation == "direct" else ["get"]),
        _rule("autoscaling", ["horizontalpodautoscalers"], ["list"]),
        {"nonResourceURLs": ["/readyz", "/version"], "verbs": ["get"]},
    ]
    return [
        account(namespace, MEMBER),
        _cluster_role(MEMBER_ROLE, rules, "member"),
        _binding(MEMBER_ROLE, service_account(namespace, MEMBER), "member"),
    ]


def member_metrics_rights() -> list[Manifest]:
    """Returns the ClusterRole of a token with which only the metrics adapter reads a member."""
    return [_cluster_role(MEMBER_METRICS_ROLE, _metrics_rules(), "member")]


def account(namespace: str, name: str) -> Manifest:
    """Returns a ServiceAccount."""
    metadata = {"name": name, "namespace": namespace, "labels": labels(name)}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def labels(component: str) -> dict[str, str]:
    """Returns the labels of an object of a process."""
    return {
        "app.kubernetes.io/name": "fedhpa",
        "app.kubernetes.io/component": component.removeprefix("fedhpa-"),
    }


def _or_all(secrets: Secrets | None) -> Secrets:
    return {CLUSTER_NAMESPACE: ()} if secrets is None else secrets


def _metrics_rules() -> list[dict[str, Any]]:
    return [
        _rule(USAGE, ["pods", "nodes"], ["get", "list"]),
        # The name of the metric is part of the resource name.
        _rule(VALUES, ["*"], ["get", "list"]),
    ]


def _reader_role() -> Manifest:
    # A hub has no metrics-server, whose manifests have such a role. Without it, `view` and `admin` cannot
    # read usage.
    role = _cluster_role(READER_ROLE, [_rule(USAGE, ["pods", "nodes"], ["get", "list"])], ADAPTER)
    for name in ("view", "edit", "admin"):
        role["metadata"]["labels"][f"{RBAC_GROUP}/aggregate-to-{name}"] = "true"
    return role


def _secret_roles(role: str, secrets: Secrets, subject: Subject, component: str) -> list[Manifest]:
    """Returns a Role and a RoleBinding for each namespace.

    The processes list and watch each Secret by its name, so that resourceNames suffice.
    """
    return [
        manifest
        for namespace, names in sorted(secrets.items())
        for manifest in _role(
            f"{role}:secrets",
            [_rule("", ["secrets"], READ, names=sorted(names))],
            subject,
            namespace,
            component,
        )
    ]


def _rule(
    groups: str | Sequence[str], resources: Sequence[str], verbs: Sequence[str], *, names: Sequence[str] = ()
) -> dict[str, Any]:
    rule: dict[str, Any] = {"apiGroups": [groups] if isinstance(groups, str) else list(groups)}
    rule["resources"] = list(resources)
    if names:
        rule["resourceNames"] = list(names)
    return rule | {"verbs": list(verbs)}


def _cluster_role(name: str, rules: list[dict[str, Any]], component: str) -> Manifest:
    return _manifest("ClusterRole", name, component, rules=rules)


def _binding(role: str, subject: Subject, component: str, *, delegated: str = "") -> Manifest:
    """Returns the binding of a ClusterRole of ours, or of Kubernetes' role `system:` + `delegated`."""
    name, granted = (f"{role}:{delegated}", f"system:{delegated}") if delegated else (role, role)
    reference = {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": granted}
    return _manifest("ClusterRoleBinding", name, component, roleRef=reference, subjects=[dict(subject)])


def _role(
    name: str, rules: list[dict[str, Any]], subject: Subject, namespace: str, component: str
) -> list[Manifest]:
    return [
        _manifest("Role", name, component, namespace, rules=rules),
        _namespaced_binding(name, name, subject, namespace, component),
    ]


def _namespaced_binding(name: str, role: str, subject: Subject, namespace: str, component: str) -> Manifest:
    reference = {"apiGroup": RBAC_GROUP, "kind": "Role", "name": role}
    return _manifest("RoleBinding", name, component, namespace, roleRef=reference, subjects=[dict(subject)])


def _manifest(kind: str, name: str, component: str, namespace: str = "", **body: Any) -> Manifest:
    metadata: dict[str, Any] = {"name": name, "labels": labels(component)}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": f"{RBAC_GROUP}/v1", "kind": kind, "metadata": metadata, **body}
