"""The answers to requests that cannot be served."""

from __future__ import annotations

from tests.conformance.plane.registry import check
from tests.conformance.plane.talk import MERGE, Talk
from tests.conformance.plane.things import (
    configmap,
    configmaps,
    deployments,
    install_widgets,
    widgets,
)


@check()
async def nothing_there(talk: Talk) -> None:
    """404 for an absent object, kind, version, group, subresource and path."""
    await install_widgets(talk)
    space = await talk.begin()
    await talk.ask("POST", configmaps(space), configmap("one"))
    for path in (
        configmaps(space, "none"),
        deployments(space, "none"),
        widgets(space, "none"),
        "/api/v1/namespaces/none",
        f"/api/v1/namespaces/{space}/nothings",
        "/api/v1/nothings/one",
        f"/apis/apps/v1/namespaces/{space}/nothings/one",
        f"/apis/conformance.test/v9/namespaces/{space}/widgets",
        "/apis/conformance.test/v9",
        f"/apis/nowhere.test/v1/namespaces/{space}/widgets",
        "/apis/nowhere.test/v1",
        "/apis/nowhere.test",
        configmaps(space, "one") + "/status",
        configmaps(space, "one") + "/scale",
        "/nowhere",
    ):
        answer = await talk.get(path)

        assert answer.status == 404
    # A real server answers these in different ways, so only the code is compared.
    for path in (f"/apis/conformance.test/v1/namespaces/{space}/nothings", "/api/v9"):
        answer = await talk.quietly("GET", path)
        talk.note({"ask": f"GET {path}", "code": answer.status})

        assert answer.status == 404


@check()
async def methods_not_allowed(talk: Talk) -> None:
    """405 for methods that a path does not have."""
    await install_widgets(talk)
    space = await talk.begin()
    await talk.ask("POST", configmaps(space), configmap("one"))
    for method, path, body in (
        ("POST", configmaps(space, "one"), configmap("one")),
        ("PUT", configmaps(space), configmap("one")),
        ("PATCH", configmaps(space), None),
        ("POST", "/api/v1/configmaps", configmap("one")),
        ("GET", "/apis/authentication.k8s.io/v1/tokenreviews", None),
        ("GET", "/apis/authorization.k8s.io/v1/subjectaccessreviews", None),
        ("DELETE", deployments(space, "one") + "/scale", None),
    ):
        answer = await talk.ask(method, path, body, content_type=MERGE if method == "PATCH" else None)

        assert answer.status == 405


@check()
async def parameters_that_cannot_be_read(talk: Talk) -> None:
    """400 for query parameters that cannot be read."""
    space = await talk.begin()
    await talk.ask("POST", configmaps(space), configmap("one"))
    for query in (
        "limit=many",
        "resourceVersion=new",
        "labelSelector=a%20b%20c",
        "labelSelector=a%20in%20b",
        "fieldSelector=a",
        "fieldSelector=spec.nothing%3Da",
        "continue=nonsense",
        "timeoutSeconds=soon&watch=true",
    ):
        answer = await talk.quietly("GET", f"{configmaps(space)}?{query}")
        # The message comes from different parsers, so it is not compared.
        talk.note({"query": query, "code": answer.status, "reason": answer.json["reason"]})

        assert answer.status in (400, 422), query
    ignored = await talk.get(f"{configmaps(space)}?nonsense=1&pretty=true", show=("kind",))

    assert ignored.status == 200


@check()
async def paths_outside_the_api(talk: Talk) -> None:
    """Health and version need no credentials."""
    for path in ("/livez", "/readyz", "/healthz"):
        answer = await talk.get(path, user="nobody")

        assert (answer.status, answer.json) == (200, "ok")
    version = await talk.get("/version", user="nobody", show=("major",))

    assert version.json["major"] == "1"
