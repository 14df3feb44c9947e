"""RBAC over the stored roles and bindings (k8s.io/kubernetes, auth/authorizer/rbac)."""

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
_BOOTSTRAP = Path(__file__).with_name("rbac.yaml")


class Authorizer:
    """Allows system:masters everything, and other users what the stored bindings grant."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def allowed(self, attributes: Attributes) -> bool:
        """True if the user is a superuser or a binding grants the request."""
        if SUPERUSERS in attributes.user.groups:
            return True
        return any(_allows(rule, attributes) for rule in self._rules(attributes.user, attributes.namespace))

    def _rules(self, user: User, namespace: str) -> Iterator[Object]:
        """Yields the rules of the user's roles."""
        bindings = self._store.list((GROUP, "clusterrolebindings"))
        if namespace:
            bindings += self._store.list((GROUP, "rolebindings"), namespace)
        for binding in bindings:
            scope = binding["metadata"].get("namespace", "")
            if any(_matches(subject, user, scope) for subject in binding.get("subjects") or ()):
                kind, name = binding["roleRef"]["kind"], binding["roleRef"]["name"]
                collection, where = ("roles", scope) if kind == "Role" else ("clusterroles", "")
                role = self._store.find((GROUP, collection), where, name) or {}
                yield from role.get("rules") or ()


def bootstrap() -> list[Object]:
    """Returns the roles and bindings of a new cluster, as far as the product and kubectl need them."""
    return cast("list[Object]", msgspec.json.decode(_bootstrap()))


@lru_cache(maxsize=1)
def _bootstrap() -> bytes:
    # Reading YAML is the slowest step of a plane's start, and a process may start many planes.
    return msgspec.json.encode(list(yaml.safe_load_all(_BOOTSTRAP.read_text(encoding="utf-8"))))


def _allows(rule: Object, attributes: Attributes) -> bool:
    if not {"*", attributes.verb} & set(rule.get("verbs") or ()):
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


def _matches(subject: Object, user: User, namespace: str) -> bool:
    if subject["kind"] == "ServiceAccount":
        return user.name == f"{SERVICE_ACCOUNT}{subject.get('namespace') or namespace}:{subject['name']}"
    return subject["name"] in (user.groups if subject["kind"] == "Group" else (user.name,))
