"""The printed rights without one of their rules, granted to users of planes in memory."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from benchmarks.world.network import Cable
from fedhpa.api.rights import Manifest, user
from fedhpa.kube import ApiClient, StaticCredentials
from testbed.embedded.api.types import Attributes, User
from testbed.embedded.auth import authorization
from testbed.embedded.auth.authorization import Authorizer
from testbed.embedded.auth.reviews import Reviews
from tests.support.federation import Federation
from tests.support.federation.planes import Plane

# A user of the hub with the printed rights of one process.
LEAST = "least"
# Default roles of Kubernetes, or another rule of the same role, have the right too.
ALSO_WITHOUT = {"fedhpa:member: apps/deployments/scale get": "apps/deployments list/watch"}


def without(manifests: list[Manifest], removed: str) -> list[Manifest]:
    """Returns the manifests without the rule `ROLE: RESOURCE or path`, or without the binding of a name."""
    role, _, resource = removed.partition(": ")
    found = copy.deepcopy(manifests)
    if removed and not resource:
        kept = [one for one in found if "roleRef" not in one or one["metadata"]["name"] != removed]
        assert len(kept) == len(found) - 1, removed
        return kept
    count = 0
    for one in found:
        if one["metadata"]["name"] == role and "rules" in one:
            names = (resource, ALSO_WITHOUT.get(removed, resource))
            kept = [rule for rule in one["rules"] if first_of(rule) not in names]
            count += len(one["rules"]) - len(kept)
            one["rules"] = kept
    assert count == (len({resource, ALSO_WITHOUT.get(removed, resource)}) if removed else 0), removed
    return found


def first_of(rule: dict[str, Any]) -> str:
    """Returns the name of a rule: the first of its resources or paths, with the API group."""
    named = (rule.get("nonResourceURLs") or rule["resources"])[0]
    # The rules of APIServices differ in their names only.
    objects = f" {rule['resourceNames'][0]}" if named == "apiservices" else ""
    return f"{rule.get('apiGroups', [''])[0]}/{named} {'/'.join(rule['verbs'])}{objects}"


def names_of(manifests: Iterable[Manifest]) -> list[str]:
    """Returns the names of all rules, as `ROLE: RULE`."""
    return [
        f"{one['metadata']['name']}: {first_of(rule)}" for one in manifests for rule in one.get("rules", ())
    ]


def grant(plane: Plane, manifests: list[Manifest], refused: list[str]) -> None:
    """Stores the roles and lets the plane ask them."""
    store, kinds = plane.server.store, plane.server.kinds
    for one in (*authorization.bootstrap(), *manifests):
        if one["apiVersion"].startswith("rbac."):
            kind = kinds.of(one["apiVersion"], one["kind"])
            assert kind is not None
            store.create(kind.collection, less_about_health(one))
    authorizer = Authorizer(store)

    def allowed(attributes: Attributes) -> bool:
        answer = authorizer.allowed(attributes)
        if not answer:
            where = attributes.path or f"{attributes.group}/{attributes.resource}/{attributes.subresource}"
            refused.append(f"{plane.name} {attributes.verb} {where}")
        return answer

    plane.server.allowed = allowed


def less_about_health(role: Manifest) -> Manifest:
    """Returns a default role of Kubernetes without /readyz, which hardened clusters do not grant."""
    if not role["metadata"]["name"].startswith("system:") or "rules" not in role:
        return role
    rules = [
        {**rule, "nonResourceURLs": [path for path in rule["nonResourceURLs"] if path != "/readyz"]}
        if "nonResourceURLs" in rule
        else rule
        for rule in role["rules"]
    ]
    return {**role, "rules": rules}


def client_of_least(f: Federation, plane: Plane, manifests: list[Manifest], refused: list[str]) -> ApiClient:
    """Returns a client of a plane with these rights. Refused requests are noted."""
    own = copy.deepcopy(manifests)
    for one in own:
        if any(each["kind"] == "ServiceAccount" for each in one.get("subjects", ())):
            one["subjects"] = [user(LEAST)]
    plane.authenticator.tokens[LEAST] = User(LEAST, ("system:authenticated",))
    grant(plane, own, refused)
    return ApiClient(plane.config(StaticCredentials(f"Bearer {LEAST}"), Cable(f.network)))


def serve_reviews(f: Federation) -> None:
    """Lets the hub review tokens and access."""
    server = f.hub.server
    for review, handler in Reviews(f.hub.authenticator, Authorizer(server.store), f.date).handlers():
        server.add_review(review, handler)
