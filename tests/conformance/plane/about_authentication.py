"""Credentials, impersonation and TokenReviews."""

from __future__ import annotations

from tests.conformance.plane.registry import check
from tests.conformance.plane.talk import Object, Talk
from tests.conformance.plane.things import configmaps, core
from tests.conformance.plane.users import robot, token_of

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


@check()
async def token_reviews(talk: Talk) -> None:
    """A review names the user of a token; the review of an unknown token is also 201."""
    space = await talk.begin()
    await talk.make(core("serviceaccounts", space), {"metadata": {"name": "robot"}})
    token = await token_of(talk, "robot")
    talk.names.literal(token, "<token>")
    review: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
    good = await talk.ask(
        "POST", REVIEWS, {**review, "spec": {"token": token}}, show=("kind", "spec", "status")
    )
    bad = await talk.ask("POST", REVIEWS, {**review, "spec": {"token": "nonsense"}}, show=_without_words)
    empty = await talk.ask("POST", REVIEWS, {**review, "spec": {}})
    refused = await talk.ask("POST", REVIEWS, {**review, "spec": {"token": token}}, user="limited")

    assert good.json["status"]["authenticated"] is True
    assert good.json["status"]["user"]["username"] == f"system:serviceaccount:{space}:robot"
    assert good.json["status"]["user"]["groups"] == [
        "system:serviceaccounts",
        f"system:serviceaccounts:{space}",
        "system:authenticated",
    ]
    assert (bad.status, "authenticated" in bad.json["status"]) == (201, False)
    assert (empty.status, refused.status) == (400, 403)


def _without_words(review: Object) -> Object:
    """Replaces the error, whose text comes from the library that parses the token."""
    status = {key: value if key != "error" else "<why>" for key, value in review["status"].items()}
    return {"kind": review["kind"], "spec": review["spec"], "status": status}


@check()
async def speaking_for_others(talk: Talk) -> None:
    """A superuser may impersonate, as `kubectl --as` does; other users may not."""
    space = await talk.begin()
    somebody = {"Impersonate-User": "somebody"}
    limited = await talk.ask("GET", configmaps(space), headers=somebody)
    grouped = await talk.ask(
        "GET", configmaps(space), headers={**somebody, "Impersonate-Group": "system:masters"}, show=("kind",)
    )
    refused = await talk.quietly("GET", configmaps(space), headers=somebody, user="limited")
    # Kubernetes 1.36 names the finer impersonation rights in the message, so it is not compared.
    talk.note({"as limited": refused.status, "reason": refused.json["reason"]})

    assert 'User "somebody" cannot list resource "configmaps"' in limited.json["message"]
    assert (grouped.status, refused.status) == (200, 403)
