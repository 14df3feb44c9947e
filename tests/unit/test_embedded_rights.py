"""RBAC of the embedded API server: what bindings give, and what it says to who has no right."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from testbed.embedded.api.statuses import not_allowed
from testbed.embedded.api.types import ANONYMOUS, Attributes, User
from testbed.embedded.auth.authorization import Authorizer, bootstrap
from testbed.embedded.storage.store import Store

GROUP = "rbac.authorization.k8s.io"
JANE = User("jane", ("dev", "system:authenticated"))
ROBOT = User("system:serviceaccount:shop:robot", ("system:serviceaccounts", "system:authenticated"))
PLURALS = {
    "Role": "roles",
    "ClusterRole": "clusterroles",
    "RoleBinding": "rolebindings",
    "ClusterRoleBinding": "clusterrolebindings",
}
Put = Callable[..., None]


@pytest.fixture
def store() -> Store:
    made = Store(lambda: dt.datetime(2026, 3, 11, tzinfo=dt.UTC))
    for obj in bootstrap():
        made.create((GROUP, PLURALS[obj["kind"]]), obj)
    return made


@pytest.fixture
def put(store: Store) -> Put:
    def role(kind: str, name: str, *rules: dict[str, Any], namespace: str = "") -> None:
        metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
        store.create((GROUP, PLURALS[kind]), {"kind": kind, "metadata": metadata, "rules": list(rules)})

    return role


def bind(store: Store, role: str, subject: dict[str, Any], *, kind: str, namespace: str = "") -> None:
    binding = "RoleBinding" if namespace else "ClusterRoleBinding"
    metadata = {"name": f"to-{role}"} | ({"namespace": namespace} if namespace else {})
    reference = {"apiGroup": GROUP, "kind": kind, "name": role}
    store.create(
        (GROUP, PLURALS[binding]),
        {"kind": binding, "metadata": metadata, "roleRef": reference, "subjects": [subject]},
    )


def asks(user: User, verb: str, resource: str = "", namespace: str = "", **more: str) -> Attributes:
    return Attributes(user, verb, more.pop("path", "/x"), resource=resource, namespace=namespace, **more)


READ = {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}
USER = {"kind": "User", "name": "jane"}


def test_a_cluster_role_bound_for_the_cluster_holds_everywhere(store: Store, put: Put) -> None:
    """The reason names binding, role and subject as Kubernetes does."""
    put("ClusterRole", "reader", READ)
    bind(store, "reader", USER, kind="ClusterRole")
    allowed = Authorizer(store).allowed

    reason = 'RBAC: allowed by ClusterRoleBinding "to-reader" of ClusterRole "reader" to User "jane"'
    assert allowed(asks(JANE, "list", "pods")) == reason
    assert allowed(asks(JANE, "get", "pods", "shop", subresource="log")) == reason
    assert allowed(asks(JANE, "delete", "pods", "shop")) is None
    assert allowed(asks(JANE, "get", "pods", "shop", subresource="exec")) is None
    assert allowed(asks(JANE, "get", "pods", "shop", group="metrics.k8s.io")) is None
    assert allowed(asks(User("joe"), "list", "pods")) is None


@pytest.mark.parametrize("kind", ["Role", "ClusterRole"])
def test_a_role_binding_holds_in_its_namespace(store: Store, put: Put, kind: str) -> None:
    """Whichever kind of role it binds; to a group, here."""
    put(kind, "reader", READ, namespace="shop" if kind == "Role" else "")
    bind(store, "reader", {"kind": "Group", "name": "dev"}, kind=kind, namespace="shop")
    allowed = Authorizer(store).allowed

    assert allowed(asks(JANE, "get", "pods", "shop")) == (
        f'RBAC: allowed by RoleBinding "to-reader/shop" of {kind} "reader" to Group "dev"'
    )
    assert allowed(asks(JANE, "get", "pods", "other")) is None
    assert allowed(asks(JANE, "list", "pods")) is None


def test_a_service_account_is_meant_by_name_and_namespace(store: Store, put: Put) -> None:
    """A subject without namespace is in the binding's."""
    put("ClusterRole", "reader", READ)
    bind(store, "reader", {"kind": "ServiceAccount", "name": "robot"}, kind="ClusterRole", namespace="shop")
    allowed = Authorizer(store).allowed

    assert allowed(asks(ROBOT, "get", "pods", "shop")) == (
        'RBAC: allowed by RoleBinding "to-reader/shop" of ClusterRole "reader" to ServiceAccount "robot/shop"'
    )
    assert allowed(asks(User("system:serviceaccount:other:robot"), "get", "pods", "shop")) is None


@pytest.mark.parametrize(
    ("rule", "attributes", "expected"),
    [
        ({"resources": ["*"]}, {"resource": "pods", "subresource": "log"}, True),
        ({"resources": ["*/scale"]}, {"resource": "deployments", "subresource": "scale"}, True),
        ({"resources": ["*/scale"]}, {"resource": "deployments"}, False),
        ({"resources": ["deployments"]}, {"resource": "deployments", "subresource": "scale"}, False),
        ({"resources": ["pods"], "resourceNames": ["a"]}, {"resource": "pods", "name": "a"}, True),
        ({"resources": ["pods"], "resourceNames": ["a"]}, {"resource": "pods", "name": "b"}, False),
        ({"resources": ["pods"], "resourceNames": ["a"]}, {"resource": "pods"}, False),
        ({"nonResourceURLs": ["/metrics/*"]}, {"path": "/metrics/x"}, True),
        ({"nonResourceURLs": ["/metrics"]}, {"path": "/metrics/x"}, False),
        ({"nonResourceURLs": ["*"]}, {"path": "/anything"}, True),
        ({"nonResourceURLs": ["*"]}, {"resource": "pods", "path": "/api/v1/pods"}, False),
    ],
)
def test_rules_match_as_kubernetes_rules(
    store: Store, put: Put, rule: dict[str, Any], attributes: dict[str, str], expected: bool
) -> None:
    """Wildcards of resources and paths, sub-resources, and names that only a named request can have."""
    put("ClusterRole", "some", {"apiGroups": ["*"], "verbs": ["*"], **rule})
    bind(store, "some", USER, kind="ClusterRole")

    assert (Authorizer(store).allowed(asks(JANE, "get", **attributes)) is not None) is expected


def test_every_cluster_begins_with_a_few_rights(store: Store) -> None:
    """system:masters everything, whoever is known discovery, anybody health; nobody objects."""
    allowed = Authorizer(store).allowed

    assert allowed(asks(User("root", ("system:masters",)), "delete", "nodes")) == ""
    assert allowed(asks(JANE, "get", path="/apis/apps/v1")) is not None
    assert allowed(asks(JANE, "get", path="/openapi/v3")) is not None
    assert allowed(asks(ANONYMOUS, "get", path="/readyz")) is not None
    assert allowed(asks(ANONYMOUS, "get", path="/apis/apps/v1")) is None
    assert allowed(asks(JANE, "list", "pods", "shop")) is None


def test_a_binding_to_a_role_that_is_not_there_gives_nothing(store: Store) -> None:
    """Until there is one."""
    bind(store, "later", USER, kind="ClusterRole")

    assert Authorizer(store).allowed(asks(JANE, "list", "pods")) is None


@pytest.mark.parametrize(
    ("attributes", "message", "details"),
    [
        (
            asks(JANE, "list", "pods", "y"),
            'pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "y"',
            {"kind": "pods"},
        ),
        (
            asks(JANE, "update", "deployments", "y", name="web", group="apps", subresource="scale"),
            (
                'deployments.apps "web" is forbidden: User "jane" cannot update resource "deployments/scale"'
                ' in API group "apps" in the namespace "y"'
            ),
            {"group": "apps", "kind": "deployments", "name": "web"},
        ),
        (
            asks(ANONYMOUS, "list", "nodes"),
            (
                'nodes is forbidden: User "system:anonymous" cannot list resource "nodes" in API group ""'
                " at the cluster scope"
            ),
            {"kind": "nodes"},
        ),
        (asks(JANE, "get", path="/metrics"), 'forbidden: User "jane" cannot get path "/metrics"', {}),
    ],
)
def test_refusals_are_in_kubernetes_words(
    attributes: Attributes, message: str, details: dict[str, str]
) -> None:
    """403, with group, plural and name in the details."""
    found = not_allowed(attributes)

    assert (found.code, found.reason, str(found)) == (403, "Forbidden", message)
    assert found.details == details
