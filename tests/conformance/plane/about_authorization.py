"""RBAC: messages of refusals, and roles."""

from __future__ import annotations

from tests.conformance.plane.registry import check
from tests.conformance.plane.talk import Talk
from tests.conformance.plane.things import configmap, configmaps, deployments, widget
from tests.conformance.plane.under_test import LIMITED
from tests.conformance.plane.users import RBAC, until_allowed

USER = {"kind": "User", "name": LIMITED}


@check()
async def refusals(talk: Talk) -> None:
    """403 names user, verb, resource, group and scope, whether or not the object exists."""
    space = await talk.begin()
    for method, path, body in (
        ("GET", configmaps(space), None),
        ("GET", configmaps(space, "one"), None),
        ("GET", f"{configmaps(space)}?watch=true", None),
        ("GET", "/api/v1/configmaps", None),
        ("GET", "/api/v1/nodes/one", None),
        ("GET", deployments(space, "web") + "/scale", None),
        ("PUT", deployments(space, "web") + "/scale", {}),
        ("POST", configmaps(space), configmap("one")),
        ("PUT", configmaps(space, "one"), configmap("one")),
        ("PATCH", configmaps(space, "one"), {}),
        ("DELETE", configmaps(space, "one"), None),
        ("DELETE", configmaps(space), None),
        ("GET", f"/apis/nowhere.test/v1/namespaces/{space}/things/one", None),
        ("POST", "/apis/conformance.test/v1/namespaces/none/widgets", widget("one")),
        ("GET", f"/api/v1/namespaces/{space}", None),
        ("GET", "/nowhere", None),
        ("POST", "/nowhere", {}),
    ):
        content_type = "application/merge-patch+json" if method == "PATCH" else None
        answer = await talk.ask(method, path, body, user="limited", content_type=content_type)

        assert (answer.status, answer.json["reason"]) == (403, "Forbidden")


@check()
async def roles_of_a_namespace(talk: Talk) -> None:
    """A Role holds in its namespace only; resourceNames restrict it to objects."""
    space = await talk.begin()
    roles = f"{RBAC}/namespaces/{space}"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"], "verbs": ["*"]}
    await talk.make(f"{roles}/roles", {"metadata": {"name": "own"}, "rules": [rule]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "own"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", **USER}
    await talk.make(
        f"{roles}/rolebindings", {"metadata": {"name": "own"}, "roleRef": reference, "subjects": [subject]}
    )
    await talk.make(configmaps(space), configmap("mine"), keep=True)
    await until_allowed(talk, {"user": LIMITED}, rule, namespace=space, name="mine")
    statuses = [
        (await talk.ask(method, path, body, user="limited", show=())).status
        for method, path, body in (
            ("GET", configmaps(space, "mine"), None),
            ("GET", configmaps(space, "other"), None),
            ("GET", configmaps(space), None),
            ("GET", configmaps("default", "mine"), None),
            ("POST", configmaps(space), configmap("mine")),
            ("GET", f"{configmaps(space)}?fieldSelector=metadata.name%3Dmine", None),
        )
    ]

    assert statuses == [200, 403, 403, 403, 403, 200]
