"""Names of an installation, and the RBAC rights of its processes on the hub and of the hub in a member.

Roles and rules stand in charts/fedhpa/files/rights.yaml, which the Helm chart renders too. `rights.yaml`
beside this module is a link to it, and the file itself in a wheel. The functions render it for one set of
switches. No Namespace is among the manifests, because deleting them would delete all that is in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from fedhpa.api.member_sources import (
    ARGOCD,
    CLUSTER_PROFILES,
    CLUSTERS,
    ONLY_CLUSTERS,
    SERVERS_MAP,
    TAINTS_MAP,
    MemberSources,
)

NAMESPACE: Final = "fedhpa-system"
# Where Karmada keeps the credentials of its clusters.
CLUSTER_NAMESPACE: Final = "karmada-cluster"
# The namespace in which Argo CD runs and reads Placements.
ARGOCD_NAMESPACE: Final = "argocd"
# The accounts of the processes on the hub.
CONTROLLER, ADAPTER, WEBHOOK = "fedhpa-controller", "fedhpa-metrics-adapter", "fedhpa-webhook"
# The accounts of the hub's tokens in a member: the controller's, and the adapter's.
MEMBER, MEMBER_METRICS = "fedhpa-hub", "fedhpa-hub-metrics"
# The ServiceAccounts of the processes, by component.
ACCOUNTS: Final = {"controller": CONTROLLER, "metrics-adapter": ADAPTER, "webhook": WEBHOOK}

# ClusterRoles that others look for.
CONTROLLER_ROLE, ADAPTER_ROLE, WEBHOOK_ROLE = "fedhpa:controller", "fedhpa:metrics-adapter", "fedhpa:webhook"
READER_ROLE: Final = "fedhpa:aggregated-metrics-reader"

# The label of every object of this project.
PART_OF, PROJECT = "app.kubernetes.io/part-of", "fedhpa"

# With --manage-certificates: the objects that get the controller's CA.
WEBHOOK_CONFIGURATION: Final = "fedhpa-webhook"
API_SERVICES: Final = (
    "v1beta1.custom.metrics.k8s.io",
    "v1beta1.external.metrics.k8s.io",
    "v1beta1.metrics.k8s.io",
    "v1beta2.custom.metrics.k8s.io",
)

# The metrics APIs that the adapter may serve on the hub, by the names of the chart's values.
METRICS_APIS: Final = frozenset(("metrics", "custom", "external"))

Propagation = Literal["karmada", "direct"]
MetricsVia = Literal["members", "hub"]
# The API server of a role. `host` has the pods and their Secrets; it is the hub itself, or Karmada's host.
Plane = Literal["hub", "host"]
Manifest = dict[str, Any]
Subject = Mapping[str, str]
# Names of Secrets by namespace. No names mean all Secrets of the namespace.
Secrets = Mapping[str, Collection[str]]

_GROUP: Final = "rbac.authorization.k8s.io"
_HUB: Final[tuple[Plane, ...]] = ("hub",)


@dataclass(frozen=True)
class ScaleTarget:
    """Kinds of workloads that may be scaled: an API group and plurals."""

    group: str
    resources: tuple[str, ...]


APPS: Final = ScaleTarget("apps", ("deployments", "replicasets", "statefulsets"))


@dataclass(frozen=True)
class Switches:
    """The settings that decide which rules are rendered.

    `external_hub`: the pods run in another cluster. `apis` are those of METRICS_APIS that the hub has.
    `sources` are those of members.
    """

    propagation: Propagation = "direct"
    metrics_via: MetricsVia = "members"
    certificates: bool = False
    external_hub: bool = False
    cross_object_warnings: bool = True
    aggregate_to_default_roles: bool = False
    distributed: bool = False
    placements: bool = False
    publish_to_argocd: bool = False
    apis: frozenset[str] = METRICS_APIS
    scale_targets: tuple[ScaleTarget, ...] = (APPS,)
    sources: MemberSources = ONLY_CLUSTERS

    def allow(self, when: Mapping[str, str | bool]) -> bool:
        """True if every switch of a condition has the value that the condition names."""
        named: dict[str, str | bool] = {
            "propagation": self.propagation,
            "metricsVia": self.metrics_via,
            "certificates": self.certificates,
            "externalHub": self.external_hub,
            "crossObjectWarnings": self.cross_object_warnings,
            "aggregateToDefaultRoles": self.aggregate_to_default_roles,
            "distributed": self.distributed,
            "placements": self.placements,
            "publishToArgocd": self.publish_to_argocd,
            "apiMetrics": "metrics" in self.apis,
            "apiCustom": "custom" in self.apis,
            "apiExternal": "external" in self.apis,
            "fromClusters": CLUSTERS in self.sources.names,
            "fromClusterProfiles": CLUSTER_PROFILES in self.sources.names,
            "fromArgocd": ARGOCD in self.sources.names,
            "fromOthers": self.sources.has_foreign,
        }
        return all(named[name] == value for name, value in when.items())


_USUAL: Final = Switches()


class _ScaleTargets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    subresource: str
    onlyGroup: str = ""


class _Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A rule in the API's spelling. With `scaleTargets` it is repeated for each scale target."""

    verbs: list[str]
    apiGroups: list[str] = []
    resources: list[str] = []
    resourceNames: list[str] = []
    nonResourceURLs: list[str] = []
    scaleTargets: _ScaleTargets | None = None
    when: dict[str, str | bool] = {}

    def written(self, switches: Switches, names: Collection[str] = ()) -> list[Manifest]:
        """Returns the rule as manifests have it: none, one, or one for each scale target."""
        if not switches.allow(self.when):
            return []
        if wanted := self.scaleTargets:
            return [
                {
                    "apiGroups": [target.group],
                    "resources": [f"{resource}{wanted.subresource}" for resource in target.resources],
                    "verbs": list(self.verbs),
                }
                for target in switches.scale_targets
                if wanted.onlyGroup in ("", target.group)
            ]
        rule: Manifest = msgspec.to_builtins(self)
        rule.pop("when", None)
        return [rule | {"resourceNames": sorted(names)} if names else rule]


class _Role(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A role of ours with its binding, or the binding of a role of Kubernetes. The file explains them."""

    name: str
    component: str
    accounts: list[str] = []
    rules: list[_Rule] = []
    granted: str = ""
    namespace: str = ""
    namespaceOf: Literal[
        "", "release", "leases", "secrets", "placements", "profiles", "argocd", "plugins"
    ] = ""
    aggregateTo: list[str] = []
    when: dict[str, str | bool] = {}
    secretsOf: list[str] = []


class _Rights(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The lists of the file."""

    hub: list[_Role]
    host: list[_Role]
    member: list[_Role]
    secretOfMember: list[_Role]


@cache
def _rights() -> _Rights:
    from fedhpa.api.yaml import read_own_yaml  # few commands need it

    (rights,) = read_own_yaml(Path(__file__).with_name("rights.yaml"))
    return msgspec.convert(rights, _Rights)


def service_account(namespace: str, name: str) -> dict[str, str]:
    """Returns the RBAC subject of a service account."""
    return {"kind": "ServiceAccount", "namespace": namespace, "name": name}


def user(name: str) -> dict[str, str]:
    """Returns the RBAC subject of a user, such as the one of a kubeconfig."""
    return {"apiGroup": _GROUP, "kind": "User", "name": name}


def hub_rights(
    namespace: str = NAMESPACE,
    *,
    lease_namespace: str = "",
    argocd_namespace: str = ARGOCD_NAMESPACE,
    user_name: str = "",
    secrets: Secrets | None = None,
    switches: Switches = _USUAL,
    planes: Collection[Plane] = ("hub", "host"),
    components: Collection[str] = tuple(ACCOUNTS),
) -> list[Manifest]:
    """Returns the ServiceAccounts of the processes and their rights.

    `lease_namespace` has the controller's Leases, by default `namespace`, and `argocd_namespace` the
    Placements for Argo CD. `user_name` is a user to whom the rights are granted instead of the
    ServiceAccounts. `secrets` are the credentials of Clusters that may be read besides those that
    `fedhpa join` has made. `planes` are the API servers whose roles are wanted; `components` are the file's.
    """
    places = {
        "release": namespace,
        "leases": lease_namespace or namespace,
        "placements": argocd_namespace,
    }
    by_account = [] if user_name else [one for one in components if one in ACCOUNTS]
    manifests = [account(namespace, ACCOUNTS[one]) for one in by_account]
    for one in components:
        subject = user(user_name) if user_name else service_account(namespace, ACCOUNTS.get(one, ""))
        if one == "controller" and switches.sources.has_foreign and "hub" in planes:
            manifests += [_config_map(namespace, name) for name in (SERVERS_MAP, TAINTS_MAP)]
        manifests += rights_of(one, subject, switches, secrets, places, planes)
    return manifests


def member_rights(
    namespace: str = NAMESPACE,
    accounts: Collection[str] = (MEMBER, MEMBER_METRICS),
    *,
    switches: Switches = _USUAL,
) -> list[Manifest]:
    """Returns ServiceAccounts whose tokens are given to the hub, and their rights in a member."""
    subjects = {name: service_account(namespace, name) for name in accounts}
    own = [role for role in _rights().member if subjects.keys() >= set(role.accounts)]
    return [
        *(account(namespace, name) for name in subjects),
        *_rendered(own, switches, subjects, {"release": namespace}),
    ]


def member_secret_rights(
    cluster: str, secrets: Mapping[str, str], namespace: str, controller: Subject, adapter: Subject
) -> list[Manifest]:
    """Returns the Roles on a member's Secrets on the hub. `secrets` has their names by account in the member.

    The controller reads and renews all, and the adapter reads its own.
    """
    subjects = {CONTROLLER: controller, ADAPTER: adapter}
    manifests: list[Manifest] = []
    for role in _rights().secretOfMember:
        own = msgspec.structs.replace(role, name=f"{role.name}:{cluster}")
        names = [secrets[account] for account in role.secretsOf]
        manifests += _of_role(own, _USUAL, subjects, namespace, names)
    return manifests


def account(namespace: str, name: str) -> Manifest:
    """Returns a ServiceAccount."""
    metadata = {"name": name, "namespace": namespace, "labels": labels(name)}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def _config_map(namespace: str, name: str) -> Manifest:
    """Returns a ConfigMap without data, so that applying it again changes nothing."""
    metadata = {"name": name, "namespace": namespace, "labels": labels("controller")}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def labels(component: str) -> dict[str, str]:
    """Returns the labels of an object of a process."""
    return {
        "app.kubernetes.io/name": PROJECT,
        "app.kubernetes.io/component": component.removeprefix("fedhpa-"),
        PART_OF: PROJECT,
    }


def rights_of(
    component: str,
    subject: Subject,
    switches: Switches = _USUAL,
    secrets: Secrets | None = None,
    places: Mapping[str, str] | None = None,
    planes: Collection[Plane] = _HUB,
) -> list[Manifest]:
    """Returns the roles and bindings of a process on the hub, and the roles of its readers.

    A webhook needs rights for its warnings only.
    """
    rights, subjects = _rights(), {ACCOUNTS.get(component, ""): subject}
    every = [*(rights.hub if "hub" in planes else ()), *(rights.host if "host" in planes else ())]
    own = [role for role in every if role.component == component]
    return list(_rendered(own, switches, subjects, places, secrets))


def _rendered(
    roles: Iterable[_Role],
    switches: Switches,
    subjects: Mapping[str, Subject],
    places: Mapping[str, str] | None = None,
    secrets: Secrets | None = None,
) -> Iterator[Manifest]:
    """Yields each role with its binding. `subjects` stand for accounts, `places` for uses of namespaces."""
    for role in roles:
        if not switches.allow(role.when):
            continue
        named = switches.sources.places(role.namespaceOf, reads_metrics=role.component == "metrics-adapter")
        if role.namespaceOf == "secrets":
            named = secrets or {}
        if named is not None:
            for namespace, names in sorted(named.items()):
                yield from _of_role(role, switches, subjects, namespace, names)
        else:
            namespace = (places or {})[role.namespaceOf] if role.namespaceOf else role.namespace
            yield from _of_role(role, switches, subjects, namespace)


def _of_role(
    role: _Role,
    switches: Switches,
    subjects: Mapping[str, Subject],
    namespace: str,
    names: Collection[str] = (),
) -> Iterator[Manifest]:
    """Yields the role and its binding in a namespace. `names` are Secrets to which its rules are narrowed."""
    kind = "Role" if namespace else "ClusterRole"
    if not role.granted:
        rules = [one for rule in role.rules for one in rule.written(switches, names)]
        manifest = _manifest(kind, role, namespace, rules=rules)
        for default in role.aggregateTo:
            manifest["metadata"]["labels"][f"{_GROUP}/aggregate-to-{default}"] = "true"
        yield manifest
    if role.accounts:
        reference = {"apiGroup": _GROUP, "kind": kind, "name": role.granted or role.name}
        bound = [dict(subjects[name]) for name in role.accounts]
        yield _manifest(f"{kind}Binding", role, namespace, roleRef=reference, subjects=bound)


def _manifest(kind: str, role: _Role, namespace: str, **body: Any) -> Manifest:
    metadata: Manifest = {"name": role.name, "labels": labels(role.component)}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": metadata, **body}
