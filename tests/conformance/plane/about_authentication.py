"""Credentials, impersonation and TokenReviews."""

from __future__ import annotations

from tests.conformance.plane.registry import check
from tests.conformance.plane.talk import Object, Talk
from tests.conformance.plane.things import configmaps
from tests.conformance.plane.users import robot

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


@check()
async def wrong_credentials(talk: Talk) -> None:
    """An unknown token is 401 on every path, even on public ones."""
    space = await talk.begin()
    for path in ("/api", configmaps(space), "/nowhere", "/livez"):
        answer = await talk.ask("GET", path, token="nonsense", user="<nonsense>")

        assert (answer.status, answer.json["reason"]) == (401, "Unauthorized")
    empty = await talk.ask("GET", configmaps(space), headers={"Authorization": "Bearer "}, user="nobody")
    other = await talk.ask("GET", configmaps(space), headers={"Authorization": "Basic YTpi"}, user="nobody")
    three = await talk.ask("GET", configmaps(space), headers={"Authorization": "Bearer a.b.c"}, user="nobody")

    # A header without a bearer token is ignored.
    assert (empty.status, other.status, three.status) == (403, 403, 401)


@check()
async def service_accounts(talk: Talk) -> None:
    """The token of a ServiceAccount identifies its user, whose only right is discovery."""
    space = await talk.begin()
    token = await robot(talk)
    known = await talk.ask("GET", configmaps(space), token=token, user="<robot>")
    discovery = await talk.ask("GET", "/api", token=token, user="<robot>", show=("kind", "versions"))

    assert f'User "system:serviceaccount:{space}:robot" cannot list' in known.json["message"]
    assert discovery.status == 200


def _without_words(review: Object) -> Object:
    """Replaces the error, whose text comes from the library that parses the token."""
    status = {key: value if key != "error" else "<why>" for key, value in review["status"].items()}
    return {"kind": review["kind"], "spec": review["spec"], "status": status}
