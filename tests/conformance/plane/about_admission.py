"""Admission webhooks: what they are told, and what their verdicts do."""

from __future__ import annotations

import base64
import json
from typing import Any

from aiohttp import web

from tests.conformance.plane.registry import check
from tests.conformance.plane.servers import Handler, Heard, review
from tests.conformance.plane.talk import Talk
from tests.conformance.plane.things import GROUP, install_widgets, widget, widgets
from tests.conformance.plane.webhooks import note_heard, register, webhook_server


def json_patch(*operations: Any) -> dict[str, str]:
    """The part of a verdict that changes the object."""
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


@check()
async def what_a_webhook_is_told(talk: Talk) -> None:
    """The whole review of a creation, an update, a patch and a deletion, and the headers with it."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    server = await webhook_server(talk)
    await register(talk, server)
    made = (await talk.ask("POST", path, widget("one", name="a"))).json
    await talk.ask("PUT", f"{path}/one", {**made, "spec": {**made["spec"], "name": "b"}})
    await talk.patch(f"{path}/one", {"spec": {"name": "c"}})
    await talk.ask("DELETE", f"{path}/one")
    heard = note_heard(talk, server)

    requests = [one.json["request"] for one in heard]
    assert [request["operation"] for request in requests] == ["CREATE", "UPDATE", "UPDATE", "DELETE"]
    assert [request["object"] is None for request in requests] == [False, False, False, True]
    assert [request["oldObject"] is None for request in requests] == [True, False, False, False]
    assert requests[0]["object"]["spec"] == {"name": "a", "size": 3}
    assert requests[0]["userInfo"]["username"] == "system:admin"


@check()
async def only_what_the_rules_say(talk: Talk) -> None:
    """Operations, sub-resources and the object's labels decide who is asked."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    server = await webhook_server(talk)
    rule = {"apiGroups": [GROUP], "apiVersions": ["v1"], "resources": ["widgets"], "scope": "Namespaced"}
    await register(talk, server, name="creations", rules=[{**rule, "operations": ["CREATE"]}])
    every = {**rule, "operations": ["*"], "resources": ["widgets/status", "widgets/scale"]}
    await register(talk, server, name="parts", called=False, rules=[every])
    labelled = {"matchLabels": {"ask": "me"}}
    await register(
        talk,
        server,
        name="labelled",
        called=False,
        rules=[{**rule, "operations": ["UPDATE"]}],
        objectSelector=labelled,
    )
    await talk.make(path, widget("first", name="a"), keep=True)

    async def registered() -> bool:
        await talk.quietly(
            "PATCH",
            f"{path}/first",
            {"metadata": {"labels": {"ask": "me", "n": "1"}}},
            content_type="application/merge-patch+json",
        )
        await talk.quietly(
            "PATCH",
            f"{path}/first",
            {"metadata": {"labels": None}},
            content_type="application/merge-patch+json",
        )
        return any(one.request.path == "/labelled" for one in server.heard)

    await talk.eventually(registered)  # the last of the three, so the others are, too
    server.heard.clear()
    await talk.ask("POST", path, widget("one", name="a", replicas=1))
    await talk.patch(f"{path}/one", {"spec": {"name": "b"}})
    await talk.patch(f"{path}/one", {"metadata": {"labels": {"ask": "me"}}})
    await talk.patch(f"{path}/one/status", {"status": {"phase": "New"}})
    await talk.patch(f"{path}/one/scale", {"spec": {"replicas": 2}})
    await talk.ask("DELETE", f"{path}/one")
    heard = note_heard(talk, server)

    assert [(one.request.path, one.json["request"]["operation"]) for one in heard] == [
        ("/creations", "CREATE"),
        ("/labelled", "UPDATE"),
        ("/parts", "UPDATE"),
        ("/parts", "UPDATE"),
    ]


@check()
async def denied(talk: Talk) -> None:
    """The message is the webhook's after its name; code and reason are its own. Without a code it is 400."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    server = await webhook_server(talk)
    await register(talk, server)
    for status in (
        {"message": "not today"},
        {"message": "not today", "code": 400},
        {"message": "not today", "code": 422, "reason": "Invalid", "details": {"name": "x"}},
        {"reason": "OnlyAReason"},
        {"code": 201, "message": "odd"},
        None,
    ):
        server.answer = review(allowed=False, **({"status": status} if status is not None else {}))
        answer = await talk.ask("POST", path, widget("one", name="a"))

        assert 'admission webhook "widgets.conformance.test" denied the request' in answer.json["message"]
        assert answer.status >= 400
    absent = await talk.get(f"{path}/one")

    assert absent.status == 404


@check()
async def warnings(talk: Talk) -> None:
    """Warnings reach the client, with a permission and with a denial."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    server = await webhook_server(talk)
    await register(talk, server)
    for allowed in (True, False):
        server.answer = review(allowed=allowed, warnings=["mind the gap", 'with "quotes" and ünïcode'])
        answer = await talk.ask("POST", path, widget("one", name="a"))

        assert len(answer.headers.getall("Warning")) == 2


@check()
async def mutated(talk: Talk) -> None:
    """A patch is applied before the schema defaults and judges, and validation sees what came out."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    server = await webhook_server(talk)
    await register(talk, server, mutating=True, name="mutate")
    await register(talk, server, name="validate")
    for operations in (
        [{"op": "add", "path": "/spec/colour", "value": "red"}],
        [{"op": "remove", "path": "/spec/size"}],
        [{"op": "add", "path": "/metadata/labels", "value": {"by": "webhook"}}],
        [{"op": "replace", "path": "/spec/size", "value": 99}],
        [],
    ):
        server.answer = _by_path({"/mutate": review(**json_patch(*operations)), "/validate": review()})
        await talk.ask("POST", path, widget("one", name="a"))
        note_heard(talk, server)
        server.answer = review()
        await talk.quietly("DELETE", f"{path}/one")
        server.heard.clear()
    await talk.ask("POST", path, widget("one", name="a"))
    note_heard(talk, server)
    server.answer = _by_path(
        {
            "/mutate": review(**json_patch({"op": "add", "path": "/spec/colour", "value": "green"})),
            "/validate": review(),
        }
    )
    updated = await talk.patch(f"{path}/one", {"spec": {"name": "b"}})

    assert updated.json["spec"] == {"name": "b", "size": 3, "colour": "green"}


@check()
async def in_order(talk: Talk) -> None:
    """Mutating configurations are asked by name, each with what the one before made."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    server = await webhook_server(talk)
    for name in ("b-second", "a-first"):
        await register(talk, server, mutating=True, name=name, reinvocationPolicy="Never")

    async def answer(heard: Heard) -> web.StreamResponse:
        tags = heard.json["request"]["object"]["spec"].get("tags", [])
        operation = {"op": "add", "path": "/spec/tags", "value": [*tags, heard.request.path.strip("/")]}
        return await review(**json_patch(operation))(heard)

    server.answer = answer
    made = await talk.ask("POST", path, widget("one", name="a"))

    assert made.json["spec"]["tags"] == ["a-first", "b-second"]


def _by_path(answers: dict[str, Handler]) -> Handler:
    async def answer(heard: Heard) -> web.StreamResponse:
        return await answers[heard.request.path](heard)

    return answer
