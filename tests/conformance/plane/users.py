"""ServiceAccounts with tokens and rights."""

from __future__ import annotations

from typing import Any

from tests.conformance.plane.talk import Object, Talk
from tests.conformance.plane.things import core

RBAC = "/apis/rbac.authorization.k8s.io/v1"
SUBJECTS = {"User": "rbac.authorization.k8s.io", "Group": "rbac.authorization.k8s.io", "ServiceAccount": ""}


async def robot(talk: Talk, *, rules: list[Object] | None = None) -> str:
    """Returns the token of a new ServiceAccount; `rules` are its rights in all namespaces."""
    space = talk.namespace
    await talk.make(core("serviceaccounts", space), {"metadata": {"name": "robot"}})
    if rules is not None:
        subject = {"kind": "ServiceAccount", "name": "robot", "namespace": space}
        await grant(talk, "robot", rules, subject)
    token = await token_of(talk, "robot")
    if rules is not None:
        await until_allowed(talk, {"user": f"system:serviceaccount:{space}:robot"}, rules[0])
    return token


async def token_of(talk: Talk, name: str, **spec: Any) -> str:
    """Returns a token of a ServiceAccount in the check's namespace."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = await talk.quietly("POST", f"{core('serviceaccounts', talk.namespace, name)}/token", request)
    assert answer.status == 201, answer.json
    token: str = answer.json["status"]["token"]
    return token


async def grant(talk: Talk, name: str, rules: list[Object], subject: Object) -> str:
    """Create a ClusterRole and its ClusterRoleBinding; returns their name."""
    full = f"{talk.namespace}-{name}"
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": full}
    await talk.make(f"{RBAC}/clusterroles", {"metadata": {"name": full}, "rules": rules})
    subject = {"apiGroup": SUBJECTS[subject["kind"]], **subject}
    binding = {"metadata": {"name": full}, "roleRef": reference, "subjects": [subject]}
    await talk.make(f"{RBAC}/clusterrolebindings", binding)
    return full


async def until_allowed(talk: Talk, user: Object, rule: Object, *, allowed: bool = True, **more: str) -> None:
    """Wait until an access review of a rule's first verb and resource has the result `allowed`."""
    if "resources" in rule:
        resource = {"group": rule["apiGroups"][0], "resource": rule["resources"][0], "verb": rule["verbs"][0]}
        spec = {"resourceAttributes": {**resource, **more}}
    else:
        spec = {"nonResourceAttributes": {"path": rule["nonResourceURLs"][0], "verb": rule["verbs"][0]}}

    async def reviewed() -> bool:
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {**spec, **user},
        }
        answer = await talk.quietly("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
        return answer.status == 201 and bool(answer.json["status"]["allowed"] is allowed)

    await talk.eventually(reviewed)
