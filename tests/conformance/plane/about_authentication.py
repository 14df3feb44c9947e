"""Who is believed to be whom, and TokenReviews."""

from __future__ import annotations

from tests.conformance.plane.registry import check
from tests.conformance.plane.talk import Object, Talk
from tests.conformance.plane.things import configmaps, core
from tests.conformance.plane.users import robot, token_of

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


@check()
async def wrong_credentials(talk: Talk) -> None:
    """A token that nobody knows is 401 everywhere, also where nobody needs one."""
    space = await talk.begin()
    for path in ("/api", configmaps(space), "/nowhere", "/livez"):
        answer = await talk.ask("GET", path, token="nonsense", user="<nonsense>")

        assert (answer.status, answer.json["reason"]) == (401, "Unauthorized")
    empty = await talk.ask("GET", configmaps(space), headers={"Authorization": "Bearer "}, user="nobody")
    other = await talk.ask("GET", configmaps(space), headers={"Authorization": "Basic YTpi"}, user="nobody")
    three = await talk.ask("GET", configmaps(space), headers={"Authorization": "Bearer a.b.c"}, user="nobody")

    # What is no bearer token is not looked at.
    assert (empty.status, other.status, three.status) == (403, 403, 401)


@check()
async def service_accounts(talk: Talk) -> None:
    """The token of a ServiceAccount makes its user, who has discovery and nothing else."""
    space = await talk.begin()
    token = await robot(talk)
    known = await talk.ask("GET", configmaps(space), token=token, user="<robot>")
    discovery = await talk.ask("GET", "/api", token=token, user="<robot>", show=("kind", "versions"))

    assert f'User "system:serviceaccount:{space}:robot" cannot list' in known.json["message"]
    assert discovery.status == 200


@check()
async def token_reviews(talk: Talk) -> None:
    """A review says who a token is; of one that is none it says that, and 201 all the same."""
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
    """The error's words are those of the library that parsed the token."""
    status = {key: value if key != "error" else "<why>" for key, value in review["status"].items()}
    return {"kind": review["kind"], "spec": review["spec"], "status": status}


@check()
async def speaking_for_others(talk: Talk) -> None:
    """The superuser may be somebody else, as `kubectl --as` asks; others may not."""
    space = await talk.begin()
    somebody = {"Impersonate-User": "somebody"}
    limited = await talk.ask("GET", configmaps(space), headers=somebody)
    grouped = await talk.ask(
        "GET", configmaps(space), headers={**somebody, "Impersonate-Group": "system:masters"}, show=("kind",)
    )
    refused = await talk.quietly("GET", configmaps(space), headers=somebody, user="limited")
    # Kubernetes 1.36 has finer rights to impersonate, and names them in the message.
    talk.note({"as limited": refused.status, "reason": refused.json["reason"]})

    assert 'User "somebody" cannot list resource "configmaps"' in limited.json["message"]
    assert (grouped.status, refused.status) == (200, 403)
