"""The rights of our accounts on the hub, compared with `fedhpa.api.rights`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from fedhpa.api import rights
from fedhpa.doctor.observations import Cause, Problem, Right, Rights
from fedhpa.doctor.reading.session import Account, Session
from fedhpa.kube import resource_path

RBAC: Final = "rbac.authorization.k8s.io/v1"
# The API group of the workloads that are scaled by default.
WORKLOADS: Final = "apps"
# Kubernetes' roles that our bindings name.
_DELEGATED: Final = (
    Right("create", "authentication.k8s.io", "tokenreviews"),
    Right("create", "authorization.k8s.io", "subjectaccessreviews"),
)
_TRUST: Final = Right("get", "", "configmaps", "extension-apiserver-authentication", "kube-system")


class _Subject(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""
    namespace: str = ""


class _Binding(msgspec.Struct, frozen=True):
    subjects: list[_Subject] | None = None


class _Any(msgspec.Struct, frozen=True):
    kind: str = ""


class Wanted(msgspec.Struct, frozen=True):
    """The parameters of the rights: flags of the controller, and the Secrets of the Clusters.

    `workloads` are the kinds of the targets, in lower case.
    """

    namespace: str
    lease_namespace: str
    propagation: str
    secrets: Mapping[str, tuple[str, ...]]
    workloads: frozenset[str] = frozenset()


async def read_rights(hub: Session, wanted: Wanted) -> tuple[Rights, ...]:
    """Returns the rights that the accounts of the components lack."""
    manifests = {
        rights.CONTROLLER: (rights.CONTROLLER_ROLE, _controller(wanted)),
        rights.ADAPTER: (rights.ADAPTER_ROLE, _adapter(wanted)),
        rights.WEBHOOK: (rights.WEBHOOK_ROLE, _webhook(wanted)),
    }
    found = await asyncio.gather(
        *(_component(hub, name, role, each, wanted.namespace) for name, (role, each) in manifests.items())
    )
    # The adapter has the same rights with either propagation.
    return tuple(
        one if one.component == rights.ADAPTER else replace(one, propagation=_propagation(wanted))
        for one in found
    )


def _propagation(wanted: Wanted) -> rights.Propagation:
    return "karmada" if wanted.propagation == "karmada" else "direct"


async def _component(hub: Session, name: str, role: str, needed: list[Right], namespace: str) -> Rights:
    account = await _account(hub, name, role, namespace)
    if isinstance(account, Problem):
        return Rights(name, problem=account)
    if account is None:
        return Rights(name)
    missing = await hub.lacking(needed, account)
    if isinstance(missing, Problem):
        return Rights(name, account.user, problem=missing)
    return Rights(name, account.user, missing)


async def _account(hub: Session, name: str, role: str, namespace: str) -> Account | Problem | None:
    """Returns the account that the component's binding names, else its ServiceAccount; None without both."""
    binding = await hub.get(resource_path(RBAC, "clusterrolebindings", name=role), _Binding)
    if isinstance(binding, Problem):
        if binding.cause is not Cause.ABSENT:
            return binding
    else:
        for subject in binding.subjects or ():
            if subject.kind == "User" and subject.name:
                return Account(hub.line(subject.name), ("system:authenticated",))
            if subject.kind == "ServiceAccount" and subject.name:
                return _service_account(subject.namespace, subject.name)
    if name == rights.WEBHOOK:
        return None  # it needs rights only for warnings
    found = await hub.get(resource_path("v1", "serviceaccounts", namespace, name), _Any)
    if isinstance(found, Problem):
        return None if found.cause is Cause.ABSENT else found
    return _service_account(namespace, name)


def _service_account(namespace: str, name: str) -> Account:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return Account(f"system:serviceaccount:{namespace}:{name}", groups)


def _controller(wanted: Wanted) -> list[Right]:
    nobody = rights.user("nobody")
    manifests = rights.controller_rights(
        nobody,
        lease_namespace=wanted.lease_namespace,
        propagation=_propagation(wanted),
        secrets=wanted.secrets,
    )
    return [*needed(rights_of(manifests), wanted.workloads), *_DELEGATED]


def _adapter(wanted: Wanted) -> list[Right]:
    manifests = rights.adapter_rights(rights.user("nobody"), secrets=wanted.secrets)
    mine = [each for each in manifests if each["metadata"]["name"] != rights.READER_ROLE]
    return [*rights_of(mine), *_DELEGATED, _TRUST]


def _webhook(wanted: Wanted) -> list[Right]:
    manifests = rights.webhook_rights(rights.user("nobody"), propagation=_propagation(wanted))
    return needed(rights_of(manifests), wanted.workloads)


def needed(found: Iterable[Right], workloads: Collection[str]) -> list[Right]:
    """Returns the rights without those on kinds of workloads that no object scales.

    An installation may be limited to some kinds.
    """
    return [
        right
        for right in found
        if right.group != WORKLOADS or right.resource.partition("/")[0].removesuffix("s") in workloads
    ]


def rights_of(manifests: Iterable[Mapping[str, Any]]) -> list[Right]:
    """Returns the single rights that the roles among some manifests grant."""
    found = [
        right
        for manifest in manifests
        for rule in manifest.get("rules") or ()
        for right in _rule(rule, manifest["metadata"].get("namespace", ""))
    ]
    return list(dict.fromkeys(found))


def _rule(rule: Mapping[str, Any], namespace: str) -> Iterable[Right]:
    for verb in rule["verbs"]:
        for path in rule.get("nonResourceURLs") or ():
            yield Right(verb, path=path)
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                for name in rule.get("resourceNames") or ("",):
                    yield Right(verb, group, resource, name, namespace)
