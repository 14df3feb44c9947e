"""Who may do what: RBAC over the stored roles and bindings (k8s.io/kubernetes, auth/authorizer/rbac)."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import cast

import msgspec
import yaml

from testbed.embedded.api.types import Attributes, Object, User
from testbed.embedded.auth.authentication import SERVICE_ACCOUNT, SUPERUSERS
from testbed.embedded.storage.store import Store

GROUP = "rbac.authorization.k8s.io"
BOOTSTRAP = Path(__file__).with_name("rbac.yaml")


class Authorizer:
    """The rights that are stored, and all of them for system:masters."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def allowed(self, attributes: Attributes) -> str | None:
        """Why, in Kubernetes' words; None if not."""
        if SUPERUSERS in attributes.user.groups:
            return ""
        for source, rule in self._rules(attributes.user, attributes.namespace):
            if _allows(rule, attributes):
                return f"RBAC: allowed by {source}"
        return None

    def _rules(self, user: User, namespace: str) -> Iterator[tuple[str, Object]]:
        bindings = self._store.list((GROUP, "clusterrolebindings"))
        if namespace:
            bindings += self._store.list((GROUP, "rolebindings"), namespace)
        for binding in bindings:
            place = binding["metadata"].get("namespace", "")
            subject = next((s for s in binding.get("subjects") or () if _is(s, user, place)), None)
            reference = binding["roleRef"]
            collection, where = ("roles", place) if reference["kind"] == "Role" else ("clusterroles", "")
            role = self._store.find((GROUP, collection), where, reference["name"]) if subject else None
            if role is None or subject is None:
                continue
            source = (
                f'{"RoleBinding" if place else "ClusterRoleBinding"} "{binding["metadata"]["name"]}'
                f'{"/" + place if place else ""}" of {reference["kind"]} "{reference["name"]}" to '
                f"{_described(subject, place)}"
            )
            for rule in role.get("rules") or ():
                yield source, rule


def bootstrap() -> list[Object]:
    """The roles and bindings that every cluster begins with, as far as somebody here needs them."""
    return cast("list[Object]", msgspec.json.decode(_bootstrap()))


@lru_cache(maxsize=1)
def _bootstrap() -> bytes:
    # Reading YAML costs more than everything else that a plane begins with; a process may have many planes.
    return msgspec.json.encode(list(yaml.safe_load_all(BOOTSTRAP.read_text(encoding="utf-8"))))


def _allows(rule: Object, attributes: Attributes) -> bool:
    if not {"*", attributes.verb} & set(rule["verbs"]):
        return False
    if not attributes.resource:
        return any(_is_under(attributes.path, url) for url in rule.get("nonResourceURLs") or ())
    resource, subresource = attributes.resource, attributes.subresource
    wanted = {"*", f"{resource}/{subresource}", f"*/{subresource}"} if subresource else {"*", resource}
    names = rule.get("resourceNames") or (attributes.name,)
    return (
        bool({"*", attributes.group} & set(rule.get("apiGroups") or ()))
        and bool(wanted & set(rule.get("resources") or ()))
        and attributes.name in names
    )


def _is_under(path: str, url: str) -> bool:
    return path.startswith(url.rstrip("*")) if url.endswith("*") else path == url


def _is(subject: Object, user: User, namespace: str) -> bool:
    if subject["kind"] == "ServiceAccount":
        return user.name == f"{SERVICE_ACCOUNT}{subject.get('namespace') or namespace}:{subject['name']}"
    return subject["name"] in (user.groups if subject["kind"] == "Group" else (user.name,))


def _described(subject: Object, namespace: str) -> str:
    if subject["kind"] == "ServiceAccount":
        return f'ServiceAccount "{subject["name"]}/{subject.get("namespace") or namespace}"'
    return f'{subject["kind"]} "{subject["name"]}"'
