"""Renders the roles of `grants` as manifests in the API's spelling."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from fedhpa.api.rights.grants import (
    GRANTS,
    LEASES,
    METRICS_GRANT,
    READ,
    RELEASE,
    SECRETS,
    Grant,
    MetricsVia,
    Plane,
    Propagation,
    Rule,
    Switches,
)
from fedhpa.api.rights.names import (
    ADAPTER,
    CONTROLLER,
    MEMBER,
    NAMESPACE,
    PART_OF,
    PROJECT,
    RBAC_GROUP,
    WEBHOOK,
)

Manifest = dict[str, Any]
Subject = Mapping[str, str]
# Names of Secrets by namespace. No names mean all Secrets of the namespace.
Secrets = Mapping[str, Collection[str]]

_HUB: Final[tuple[Plane, ...]] = ("hub",)
# The ServiceAccounts of the processes, by component.
ACCOUNTS: Final = {"controller": CONTROLLER, "metrics-adapter": ADAPTER, "webhook": WEBHOOK}


def service_account(namespace: str, name: str) -> dict[str, str]:
    """Returns the RBAC subject of a service account."""
    return {"kind": "ServiceAccount", "namespace": namespace, "name": name}


def user(name: str) -> dict[str, str]:
    """Returns the RBAC subject of a user, such as the one of a kubeconfig."""
    return {"apiGroup": RBAC_GROUP, "kind": "User", "name": name}


def hub_rights(
    namespace: str = NAMESPACE,
    *,
    lease_namespace: str = "",
    propagation: Propagation = "karmada",
    metrics_via: MetricsVia = "members",
    secrets: Secrets | None = None,
    switches: Switches | None = None,
    planes: Collection[Plane] = ("hub", "host"),
    components: Collection[str] = tuple(ACCOUNTS),
) -> list[Manifest]:
    """Returns the ServiceAccounts of the processes and their rights.

    `lease_namespace` has the controller's Leases, by default `namespace`. `secrets` are the credentials of
    Clusters that may be read besides those that `fedhpa join` has made. `switches` replaces `propagation` and
    `metrics_via`. `planes` are the API servers whose roles are wanted, and `components` are those of GRANTS.
    """
    found = switches or Switches(propagation, metrics_via)
    places = {RELEASE: namespace, LEASES: lease_namespace or namespace}
    manifests = [account(namespace, ACCOUNTS[one]) for one in components if one in ACCOUNTS]
    for one in components:
        subject = service_account(namespace, ACCOUNTS.get(one, ""))
        manifests += _rendered(_of(one, planes), found, subject, places, secrets)
    return manifests


def controller_rights(
    subject: Subject,
    *,
    lease_namespace: str = NAMESPACE,
    propagation: Propagation = "karmada",
    metrics_via: MetricsVia = "members",
    secrets: Secrets | None = None,
) -> list[Manifest]:
    """Returns the roles and bindings of the controller on the hub, for the values of its flags."""
    switches = Switches(propagation, metrics_via)
    return _rendered(_of("controller"), switches, subject, {LEASES: lease_namespace}, secrets)


def adapter_rights(subject: Subject, *, secrets: Secrets | None = None) -> list[Manifest]:
    """Returns the roles and bindings of the metrics adapter on the hub, and the role of its readers."""
    return _rendered(_of("metrics-adapter"), Switches(), subject, {}, secrets)


def webhook_rights(subject: Subject, *, propagation: Propagation = "karmada") -> list[Manifest]:
    """Returns the role and the binding of a webhook that reads the hub for its warnings.

    Verdicts need no rights.
    """
    return _rendered(_of("webhook"), Switches(propagation), subject)


def member_rights(
    namespace: str = NAMESPACE,
    *,
    propagation: Propagation = "direct",
    switches: Switches | None = None,
) -> list[Manifest]:
    """Returns the ServiceAccount whose token is given to the hub, and its rights in a member.

    With `direct` the controller writes scales there. `switches` replaces `propagation`.
    """
    found = switches or Switches(propagation)
    subject = service_account(namespace, MEMBER)
    grants = [grant for grant in GRANTS if grant.component == "member"]
    return [account(namespace, MEMBER), *_rendered(grants, found, subject, {RELEASE: namespace})]


def member_metrics_rights() -> list[Manifest]:
    """Returns the ClusterRole of a token with which only the metrics adapter reads a member."""
    return _rendered([METRICS_GRANT], Switches(), {})


def member_secret_rights(
    cluster: str, secret: str, namespace: str, controller: Subject, adapter: Subject
) -> list[Manifest]:
    """Returns the Roles by which controller and adapter read one Secret, and the controller renews it."""
    reading = Rule(READ, ("",), ("secrets",), (secret,))
    renewing = Rule(("update",), ("",), ("secrets",), (secret,))
    manifests = []
    for name, rule, subjects in (
        (f"fedhpa:member-secret:{cluster}", reading, (controller, adapter)),
        (f"fedhpa:member-token:{cluster}", renewing, (controller,)),
    ):
        manifests.append(_manifest("Role", name, "member", namespace, rules=_written(rule, Switches())))
        manifests.append(_binding(name, "Role", name, subjects, "member", namespace))
    return manifests


def account(namespace: str, name: str) -> Manifest:
    """Returns a ServiceAccount."""
    metadata = {"name": name, "namespace": namespace, "labels": labels(name)}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def labels(component: str) -> dict[str, str]:
    """Returns the labels of an object of a process."""
    return {
        "app.kubernetes.io/name": PROJECT,
        "app.kubernetes.io/component": component.removeprefix("fedhpa-"),
        PART_OF: PROJECT,
    }


def _of(component: str, planes: Collection[Plane] = _HUB) -> list[Grant]:
    return [grant for grant in GRANTS if grant.component == component and grant.plane in planes]


def _rendered(
    grants: Iterable[Grant],
    switches: Switches,
    subject: Subject,
    places: Mapping[str, str] | None = None,
    secrets: Secrets | None = None,
) -> list[Manifest]:
    """Returns each role with its binding. `places` are the namespaces by their placeholders."""
    found: list[Manifest] = []
    for grant in grants:
        if not switches.allow(grant.when):
            continue
        if grant.namespace == SECRETS:
            for namespace, names in sorted((secrets or {}).items()):
                found += _of_grant(grant, switches, subject, namespace, names)
        else:
            namespace = (places or {}).get(grant.namespace, grant.namespace)
            found += _of_grant(grant, switches, subject, namespace)
    return found


def _of_grant(
    grant: Grant, switches: Switches, subject: Subject, namespace: str, names: Collection[str] = ()
) -> Iterator[Manifest]:
    kind = "Role" if namespace else "ClusterRole"
    if not grant.granted:
        rules = [one for rule in grant.rules for one in _written(rule, switches, names)]
        role = _manifest(kind, grant.name, grant.component, namespace, rules=rules)
        for default in grant.aggregate_to:
            role["metadata"]["labels"][f"{RBAC_GROUP}/aggregate-to-{default}"] = "true"
        yield role
    if grant.account:
        yield _binding(grant.name, kind, grant.granted or grant.name, [subject], grant.component, namespace)


def _written(rule: Rule, switches: Switches, names: Collection[str] = ()) -> list[Manifest]:
    """Returns the rule in the API's spelling: none, one, or one for each scale target."""
    if not switches.allow(rule.when):
        return []
    if rule.paths:
        return [{"nonResourceURLs": list(rule.paths), "verbs": list(rule.verbs)}]
    if rule.scale_targets:
        return [
            {
                "apiGroups": [target.group],
                "resources": [f"{resource}{rule.subresource}" for resource in target.resources],
                "verbs": list(rule.verbs),
            }
            for target in switches.scale_targets
            if rule.only_group in ("", target.group)
        ]
    written: Manifest = {"apiGroups": list(rule.groups), "resources": list(rule.resources)}
    if wanted := sorted(names) or list(rule.names):
        written["resourceNames"] = wanted
    return [written | {"verbs": list(rule.verbs)}]


def _binding(
    name: str, kind: str, role: str, subjects: Iterable[Subject], component: str, namespace: str
) -> Manifest:
    reference = {"apiGroup": RBAC_GROUP, "kind": kind, "name": role}
    body = {"roleRef": reference, "subjects": [dict(subject) for subject in subjects]}
    return _manifest(f"{kind}Binding", name, component, namespace, **body)


def _manifest(kind: str, name: str, component: str, namespace: str = "", **body: Any) -> Manifest:
    metadata: dict[str, Any] = {"name": name, "labels": labels(component)}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": f"{RBAC_GROUP}/v1", "kind": kind, "metadata": metadata, **body}
