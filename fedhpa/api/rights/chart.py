"""Writes the table of `grants` as charts/fedhpa/files/rights.yaml, which the chart's templates render."""

from __future__ import annotations

from typing import Any, Final

from fedhpa.api.rights.grants import GRANTS, LEASES, RELEASE, SECRETS, Grant, Rule
from fedhpa.api.yaml import print_yaml

HEAD: Final = """\
# Written by `make crds` from fedhpa/api/rights. The chart's templates render roles and bindings from it.
#
# A role or rule is rendered if every switch in its `when` has this value: propagation (karmada, direct),
# metricsVia (members, hub), and true or false of certificates, externalHub, crossObjectWarnings,
# aggregateToDefaultRoles and distributed. externalHub: the pods run in another cluster than the hub.
# plane: the API server that gets the role: hub, host (where the pods run) or member.
# kind: ClusterRole or Role. `account` is the ServiceAccount of its binding; without it there is no binding.
# granted: a role of Kubernetes. Only the binding is rendered.
# namespace: the name of a namespace. namespaceOf: release (of the ServiceAccounts), leases, or secrets (each
# namespace whose Secrets of Clusters may be read).
# aggregateTo: default roles of Kubernetes, each by a label rbac.authorization.k8s.io/aggregate-to-NAME.
# A rule with scaleTargets is repeated for each of rbac.scaleTargets: with its group, its resources, each
# followed by `subresource`, and the verbs of the rule. `onlyGroup` leaves out targets of other groups.
"""


def chart_file() -> str:
    """Returns the text of the file."""
    roles = [_role(grant) for grant in GRANTS]
    return HEAD + print_yaml([{"roles": roles}], sort_keys=False).removeprefix("---\n")


def _role(grant: Grant) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": grant.name,
        "component": grant.component,
        "plane": grant.plane,
        "kind": "Role" if grant.namespace else "ClusterRole",
    }
    if grant.namespace in (RELEASE, LEASES, SECRETS):
        found["namespaceOf"] = grant.namespace
    elif grant.namespace:
        found["namespace"] = grant.namespace
    if grant.account:
        found["account"] = grant.account
    if grant.granted:
        found["granted"] = grant.granted
    if grant.aggregate_to:
        found["aggregateTo"] = list(grant.aggregate_to)
    if grant.when:
        found["when"] = dict(grant.when)
    if grant.rules:
        found["rules"] = [_rule(rule) for rule in grant.rules]
    return found


def _rule(rule: Rule) -> dict[str, Any]:
    found: dict[str, Any] = {"when": dict(rule.when)} if rule.when else {}
    if rule.scale_targets:
        targets: dict[str, Any] = {"verbs": list(rule.verbs), "subresource": rule.subresource}
        if rule.only_group:
            targets["onlyGroup"] = rule.only_group
        return found | {"scaleTargets": targets}
    if rule.paths:
        return found | {"rule": {"nonResourceURLs": list(rule.paths), "verbs": list(rule.verbs)}}
    written: dict[str, Any] = {"apiGroups": list(rule.groups), "resources": list(rule.resources)}
    if rule.names:
        written["resourceNames"] = list(rule.names)
    return found | {"rule": written | {"verbs": list(rule.verbs)}}
