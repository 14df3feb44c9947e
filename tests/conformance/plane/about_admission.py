"""Admission webhooks: the reviews that they get, and the effects of their answers."""

from __future__ import annotations

import base64
import json
from typing import Any

from aiohttp import web

from tests.conformance.plane.registry import check
from tests.conformance.plane.servers import Handler, Received, hang, raw, review
from tests.conformance.plane.talk import Talk
from tests.conformance.plane.things import GROUP, install_widgets, widget, widgets
from tests.conformance.plane.webhooks import note_received, register, until_refused, webhook_server

# Port 1 is reserved, so nothing listens on it.
UNREACHABLE = "https://127.0.0.1:1/widgets"


def json_patch(*operations: Any) -> dict[str, str]:
    """Returns the fields of a response that change the object."""
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


@check()
async def what_a_webhook_is_told(talk: Talk) -> None:
    """The complete review of a creation, an update, a patch and a deletion, with its headers."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    server = await webhook_server(talk)
    await register(talk, server)
    made = (await talk.ask("POST", path, widget("one", name="a"))).json
    await talk.ask("PUT", f"{path}/one", {**made, "spec": {**made["spec"], "name": "b"}})
    await talk.patch(f"{path}/one", {"spec": {"name": "c"}})
    await talk.ask("DELETE", f"{path}/one")
    received = note_received(talk, server)

    requests = [one.json["request"] for one in received]
    assert [request["operation"] for request in requests] == ["CREATE", "UPDATE", "UPDATE", "DELETE"]
    assert [request["object"] is None for request in requests] == [False, False, False, True]
    assert [request["oldObject"] is None for request in requests] == [True, False, False, False]
    assert requests[0]["object"]["spec"] == {"name": "a", "size": 3}
    assert requests[0]["userInfo"]["username"] == "system:admin"


@check()
async def only_what_the_rules_say(talk: Talk) -> None:
    """Operations, subresources and object labels select the webhooks."""
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
        return any(one.request.path == "/labelled" for one in server.received)

    await talk.eventually(registered)  # this webhook is the last of the three
    server.received.clear()
    await talk.ask("POST", path, widget("one", name="a", replicas=1))
    await talk.patch(f"{path}/one", {"spec": {"name": "b"}})
    await talk.patch(f"{path}/one", {"metadata": {"labels": {"ask": "me"}}})
    await talk.patch(f"{path}/one/status", {"status": {"phase": "New"}})
    await talk.patch(f"{path}/one/scale", {"spec": {"replicas": 2}})
    await talk.ask("DELETE", f"{path}/one")
    received = note_received(talk, server)

    assert [(one.request.path, one.json["request"]["operation"]) for one in received] == [
        ("/creations", "CREATE"),
        ("/labelled", "UPDATE"),
        ("/parts", "UPDATE"),
        ("/parts", "UPDATE"),
    ]


@check()
async def denied(talk: Talk) -> None:
    """The message has the webhook's name and message; code and reason are the webhook's, by default 400."""
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
    """Warnings reach the client, whether the object is allowed or denied."""
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
    """A patch is applied before defaults and validation; validating webhooks get the result."""
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
        note_received(talk, server)
        server.answer = review()
        await talk.quietly("DELETE", f"{path}/one")
        server.received.clear()
    await talk.ask("POST", path, widget("one", name="a"))
    note_received(talk, server)
    server.answer = _by_path(
        {
            "/mutate": review(**json_patch({"op": "add", "path": "/spec/colour", "value": "green"})),
            "/validate": review(),
        }
    )
    updated = await talk.patch(f"{path}/one", {"spec": {"name": "b"}})

    assert updated.json["spec"] == {"name": "b", "size": 3, "colour": "green"}


def _by_path(answers: dict[str, Handler]) -> Handler:
    async def answer(received: Received) -> web.StreamResponse:
        return await answers[received.request.path](received)

    return answer


# -- webhooks that fail ---------------------------------------------------------------------------------


@check()
async def dead_and_must_be_asked(talk: Talk) -> None:
    """failurePolicy Fail refuses the object, with the webhook's name in the message."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    server = await webhook_server(talk)
    await register(talk, server, called=False, config={"url": UNREACHABLE, "caBundle": server.ca_bundle})
    await until_refused(talk)
    refused = await talk.ask("POST", path, widget("one", name="a"))

    assert refused.status == 500
    assert (
        'failed calling webhook "widgets.conformance.test": failed to call webhook: '
        in refused.json["message"]
    )


@check()
async def dead_and_may_be_ignored(talk: Talk) -> None:
    """failurePolicy Ignore admits the object without a warning."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    server = await webhook_server(talk)
    await register(talk, server, failurePolicy="Ignore")
    server.answer = raw(b"broken", status=500)
    passed = await talk.ask("POST", path, widget("one", name="a"))

    assert passed.status == 201
    assert [one.json["request"]["name"] for one in server.received] == ["one"]


@check()
async def too_slow(talk: Talk) -> None:
    """A webhook must answer within timeoutSeconds."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    server = await webhook_server(talk)
    await register(talk, server, timeoutSeconds=1)
    server.answer = hang
    refused = await talk.ask("POST", path, widget("one", name="a"))
    server.answer = review()
    # A busy test may answer later than one second.
    passed = await talk.at_last(
        lambda: talk.ask("POST", path, widget("one", name="a")), lambda answer: answer.status == 201
    )

    assert (refused.status, passed.status) == (500, 201)


@check()
async def answers_that_are_none(talk: Talk) -> None:
    """An error status, a body that is not a review, another uid or an unusable patch count as a failure."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    server = await webhook_server(talk)
    await register(talk, server, mutating=True, name="mutate")
    nonsense = base64.b64encode(b"nonsense").decode()
    missing = base64.b64encode(b'[{"op": "remove", "path": "/spec/none"}]').decode()
    for name, answer in (
        ("500", raw(b"broken", status=500)),
        ("404", raw(b"nothing", status=404)),
        ("no JSON", raw(b"nonsense")),
        ("an empty object", raw(b"{}")),
        ("a review without response", raw(b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}')),
        ("another uid", review(uid="another")),
        ("a patch that is none", review(patchType="JSONPatch", patch=nonsense)),
        ("a patch that does not fit", review(patchType="JSONPatch", patch=missing)),
        ("a patch without its type", review(patch=nonsense)),
    ):
        server.answer = answer
        refused = await talk.quietly("POST", path, widget("one", name="a"))
        # The message comes from the server's parsers, so it is not compared.
        talk.note({"answered": name, "code": refused.status, "reason": refused.json.get("reason")})

        assert refused.status == 500, name
