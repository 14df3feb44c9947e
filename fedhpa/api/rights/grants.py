"""The table of all roles: what each component may do, where, and which switch each rule needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from fedhpa.api.cluster import GROUP as CLUSTER_GROUP
from fedhpa.api.federatedhpa import GROUP
from fedhpa.api.rights.names import (
    ADAPTER,
    ADAPTER_ROLE,
    API_SERVICES,
    CERTIFICATE_SECRETS,
    CONTROLLER,
    CONTROLLER_ROLE,
    CUSTOM,
    EDIT_ROLE,
    EXTERNAL,
    MEMBER,
    MEMBER_METRICS_ROLE,
    MEMBER_ROLE,
    READER_ROLE,
    USAGE,
    VIEW_ROLE,
    WEBHOOK,
    WEBHOOK_CONFIGURATION,
    WEBHOOK_ROLE,
)

Propagation = Literal["karmada", "direct"]
MetricsVia = Literal["members", "hub"]
# The API server of a role. `host` has the pods and their Secrets; it is the hub itself, or Karmada's host.
Plane = Literal["hub", "host", "member"]
# The namespace of a Role: of the ServiceAccounts, of the Leases, or each of the Clusters' Secrets.
RELEASE, LEASES, SECRETS = "release", "leases", "secrets"
# Switches by their names in the chart's file.
When = Mapping[str, str | bool]

READ: Final = ("get", "list", "watch")
CHANGE: Final = ("create", "delete", "deletecollection", "patch", "update")


@dataclass(frozen=True)
class ScaleTarget:
    """Kinds of workloads that may be scaled: an API group and plurals."""

    group: str
    resources: tuple[str, ...]


APPS: Final = ScaleTarget("apps", ("deployments", "replicasets", "statefulsets"))


@dataclass(frozen=True)
class Switches:
    """The settings that decide which rules are rendered. `external_hub`: the pods run in another cluster."""

    propagation: Propagation = "karmada"
    metrics_via: MetricsVia = "members"
    certificates: bool = False
    external_hub: bool = False
    cross_object_warnings: bool = True
    aggregate_to_default_roles: bool = False
    distributed: bool = False
    scale_targets: tuple[ScaleTarget, ...] = (APPS,)

    def named(self) -> dict[str, str | bool]:
        """Returns the switches that conditions may name."""
        return {
            "propagation": self.propagation,
            "metricsVia": self.metrics_via,
            "certificates": self.certificates,
            "externalHub": self.external_hub,
            "crossObjectWarnings": self.cross_object_warnings,
            "aggregateToDefaultRoles": self.aggregate_to_default_roles,
            "distributed": self.distributed,
        }

    def allow(self, when: When) -> bool:
        """True if every switch of a condition has the value that the condition names."""
        named = self.named()
        return all(named[name] == value for name, value in when.items())


@dataclass(frozen=True)
class Rule:
    """One rule of a role, rendered if the switches have the values in `when`.

    A rule has resources, or paths, or is repeated for each scale target. `subresource` is appended to the
    plurals of scale targets, and `only_group` leaves out those of other API groups.
    """

    verbs: Sequence[str]
    groups: Sequence[str] = ()
    resources: Sequence[str] = ()
    names: Sequence[str] = ()
    paths: Sequence[str] = ()
    scale_targets: bool = False
    subresource: str = ""
    only_group: str = ""
    when: When = field(default_factory=dict)


@dataclass(frozen=True)
class Grant:
    """A role of ours with its binding, or the binding of a role of Kubernetes.

    `component` and `account` are empty for roles that no process has. `namespace` is "" for a ClusterRole,
    RELEASE, LEASES, SECRETS, or the name of a namespace. `granted` names the role of Kubernetes. People get a
    role by the default roles in `aggregate_to`.
    """

    name: str
    component: str
    plane: Plane
    account: str = ""
    namespace: str = ""
    rules: tuple[Rule, ...] = ()
    granted: str = ""
    aggregate_to: tuple[str, ...] = ()
    when: When = field(default_factory=dict)


def _rule(
    group: str,
    resources: Sequence[str],
    verbs: Sequence[str],
    *,
    names: Sequence[str] = (),
    when: When | None = None,
) -> Rule:
    return Rule(tuple(verbs), (group,), tuple(resources), tuple(names), when=when or {})


def _targets(
    verbs: Sequence[str], subresource: str = "", *, only_group: str = "", when: When | None = None
) -> Rule:
    return Rule(verbs, scale_targets=True, subresource=subresource, only_group=only_group, when=when or {})


_KARMADA: Final = {"propagation": "karmada"}
_DIRECT: Final = {"propagation": "direct"}
_BY_WORKS: Final[When] = {"propagation": "karmada", "distributed": True}
_VIA_HUB: Final = {"metricsVia": "hub"}
_CERTIFICATES: Final = {"certificates": True}
_REGISTRATIONS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_OUR_KINDS: Final = ("cronfederatedhpas", "federatedhpas")

_CONTROLLER: Final = (
    # Rules of CronFederatedHPAs set the bounds of FederatedHPAs. Their own objects have a finalizer.
    _rule(GROUP, ["federatedhpas", "cronfederatedhpas"], [*READ, "patch"]),
    _rule(GROUP, ["federatedhpas/status", "cronfederatedhpas/status"], ["update", "patch"]),
    _rule(CLUSTER_GROUP, ["clusters"], READ),
    _rule(CLUSTER_GROUP, ["clusters/status"], ["update"]),
    _rule("", ["events"], ["create", "patch"]),
    # The condition HubCompatible. Without these rights the controller scales all the same.
    _rule(
        "apiextensions.k8s.io",
        ["customresourcedefinitions"],
        ["get"],
        names=[f"cronfederatedhpas.{GROUP}", f"federatedhpas.{GROUP}"],
    ),
    _rule("admissionregistration.k8s.io", _REGISTRATIONS, ["list"]),
    # The template, its size, other autoscalers of it, and the clusters to which Karmada gives it.
    _targets(["get"], when=_KARMADA),
    _targets(["get", "update"], "/scale", when=_KARMADA),
    _rule("autoscaling", ["horizontalpodautoscalers"], ["list"], when=_KARMADA),
    _rule("work.karmada.io", ["resourcebindings"], ["list"], when=_KARMADA),
    # Mode Distributed: member HPAs as Works, and a binding and a template that Karmada leaves alone.
    _rule("work.karmada.io", ["works"], ["create", "delete", "get", "list", "update"], when=_BY_WORKS),
    _rule("work.karmada.io", ["resourcebindings"], ["patch"], when=_BY_WORKS),
    _rule("apps", ["deployments"], ["patch"], when=_BY_WORKS),
    _rule(USAGE, ["pods"], ["list"], when=_VIA_HUB),
    # The name of the metric is part of the resource name.
    _rule(CUSTOM, ["*"], ["get"], when=_VIA_HUB),
    _rule(EXTERNAL, ["*"], ["list"], when=_VIA_HUB),
    # The CA bundle in the objects with which webhook and adapter are registered.
    _rule(
        "admissionregistration.k8s.io",
        _REGISTRATIONS,
        ["get", "update"],
        names=[WEBHOOK_CONFIGURATION],
        when=_CERTIFICATES,
    ),
    _rule(
        "apiregistration.k8s.io",
        ["apiservices"],
        ["get", "update"],
        names=API_SERVICES,
        when=_CERTIFICATES,
    ),
)

_ON_HOST: Final = (
    # A request to create has no name that a rule could compare.
    _rule("", ["secrets"], ["create"]),
    _rule("", ["secrets"], ["get", "update"], names=CERTIFICATE_SECRETS),
    # The ClusterRole of the hub has this right where the hub runs the pods.
    _rule("", ["events"], ["create", "patch"], when={"externalHub": True}),
)

_WEBHOOK: Final = (
    _rule(GROUP, ["federatedhpas", "cronfederatedhpas"], ["list", "watch"]),
    _rule("autoscaling", ["horizontalpodautoscalers"], ["list", "watch"]),
    _rule(CLUSTER_GROUP, ["clusters"], ["list", "watch"]),
    _targets(["get"], "/scale", when=_KARMADA),
)

_MEMBER_METRICS: Final = (
    _rule(USAGE, ["pods", "nodes"], ["get", "list"]),
    # The name of the metric is part of the resource name.
    _rule(CUSTOM, ["*"], ["get"]),
    _rule(EXTERNAL, ["*"], ["list"]),
)

_MEMBER: Final = (
    Rule(("get",), paths=("/readyz", "/version")),
    _rule("", ["pods"], ["list", "watch"]),
    # The capacity of the cluster.
    _rule("", ["nodes"], ["list"]),
    *_MEMBER_METRICS,
    # Scales of these kinds are watched, and those of other kinds are read one by one.
    _targets(["list", "watch"], only_group=APPS.group),
    _targets(["get"], "/scale"),
    _targets(["update"], "/scale", when=_DIRECT),
    # Mode Distributed writes first replicas and zero.
    _targets(["update"], "/scale", when=_BY_WORKS),
    # The condition SoleOwner.
    _rule("autoscaling", ["horizontalpodautoscalers"], ["list"]),
    _rule(
        "autoscaling",
        ["horizontalpodautoscalers"],
        ["create", "delete", "get", "update", "watch"],
        when={**_DIRECT, "distributed": True},
    ),
    # Karmada writes them.
    _rule("autoscaling", ["horizontalpodautoscalers"], ["get", "watch"], when=_BY_WORKS),
)

GRANTS: Final = (
    Grant(CONTROLLER_ROLE, "controller", "hub", CONTROLLER, rules=_CONTROLLER),
    # TokenReview and SubjectAccessReview, for callers of /decisions.
    Grant(
        f"{CONTROLLER_ROLE}:auth-delegator", "controller", "hub", CONTROLLER, granted="system:auth-delegator"
    ),
    Grant(
        f"{CONTROLLER_ROLE}:leases",
        "controller",
        "hub",
        CONTROLLER,
        LEASES,
        (_rule("coordination.k8s.io", ["leases"], ["get", "list", "create", "update"]),),
    ),
    # The processes list and watch each Secret by its name, so that resourceNames suffice.
    Grant(
        f"{CONTROLLER_ROLE}:secrets",
        "controller",
        "hub",
        CONTROLLER,
        SECRETS,
        (_rule("", ["secrets"], READ),),
    ),
    Grant(
        f"{CONTROLLER_ROLE}:certificates",
        "controller",
        "host",
        CONTROLLER,
        RELEASE,
        _ON_HOST,
        when=_CERTIFICATES,
    ),
    Grant(
        ADAPTER_ROLE,
        "metrics-adapter",
        "hub",
        ADAPTER,
        rules=(_rule(CLUSTER_GROUP, ["clusters"], ["list", "watch"]),),
    ),
    Grant(
        f"{ADAPTER_ROLE}:secrets",
        "metrics-adapter",
        "hub",
        ADAPTER,
        SECRETS,
        (_rule("", ["secrets"], READ),),
    ),
    # TokenReview and SubjectAccessReview.
    Grant(
        f"{ADAPTER_ROLE}:auth-delegator", "metrics-adapter", "hub", ADAPTER, granted="system:auth-delegator"
    ),
    # The ConfigMap with the CA and the names of trusted front proxies.
    Grant(
        f"{ADAPTER_ROLE}:authentication-reader",
        "metrics-adapter",
        "hub",
        ADAPTER,
        "kube-system",
        granted="extension-apiserver-authentication-reader",
    ),
    # A hub has no metrics-server, whose manifests have such a role. Without it, `view` and `admin` cannot
    # read usage.
    Grant(
        READER_ROLE,
        "metrics-adapter",
        "hub",
        rules=(_rule(USAGE, ["pods", "nodes"], ["get", "list"]),),
        aggregate_to=("view", "edit", "admin"),
    ),
    Grant(
        WEBHOOK_ROLE,
        "webhook",
        "hub",
        WEBHOOK,
        rules=_WEBHOOK,
        when={"crossObjectWarnings": True},
    ),
    Grant(
        VIEW_ROLE,
        "users",
        "hub",
        rules=(_rule(GROUP, _OUR_KINDS, READ),),
        aggregate_to=("view", "edit", "admin"),
        when={"aggregateToDefaultRoles": True},
    ),
    Grant(
        EDIT_ROLE,
        "users",
        "hub",
        rules=(_rule(GROUP, _OUR_KINDS, CHANGE),),
        aggregate_to=("edit", "admin"),
        when={"aggregateToDefaultRoles": True},
    ),
    Grant(MEMBER_ROLE, "member", "member", MEMBER, rules=_MEMBER),
    # The controller renews the token with the token itself.
    Grant(
        f"{MEMBER_ROLE}:token",
        "member",
        "member",
        MEMBER,
        RELEASE,
        (_rule("", ["serviceaccounts/token"], ["create"], names=[MEMBER]),),
    ),
)
# A token with which only the metrics adapter reads a member.
METRICS_GRANT: Final = Grant(MEMBER_METRICS_ROLE, "member", "member", rules=_MEMBER_METRICS)
