"""Admission webhooks that cannot be asked, or answer nonsense."""

from __future__ import annotations

import base64

from tests.conformance.plane.registry import check
from tests.conformance.plane.servers import hang, raw, review
from tests.conformance.plane.talk import Talk
from tests.conformance.plane.things import install_widgets, widget, widgets
from tests.conformance.plane.webhooks import register, until_refused, webhook_server

# Nobody listens there: it is reserved for TCP's port multiplexer, which nobody runs.
NOBODY = "https://127.0.0.1:1/widgets"


@check()
async def dead_and_must_be_asked(talk: Talk) -> None:
    """failurePolicy Fail (also the default) refuses what cannot be judged, in words that name the webhook."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    server = await webhook_server(talk)
    await register(talk, server, called=False, config={"url": NOBODY, "caBundle": server.ca_bundle})
    await until_refused(talk)
    refused = await talk.ask("POST", path, widget("one", name="a"))

    assert refused.status == 500
    assert (
        'failed calling webhook "widgets.conformance.test": failed to call webhook: '
        in refused.json["message"]
    )


@check()
async def dead_and_may_be_ignored(talk: Talk) -> None:
    """failurePolicy Ignore lets the object pass, and nobody is told."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    server = await webhook_server(talk)
    await register(talk, server, failurePolicy="Ignore")
    server.answer = raw(b"broken", status=500)
    passed = await talk.ask("POST", path, widget("one", name="a"))

    assert passed.status == 201
    assert [one.json["request"]["name"] for one in server.heard] == ["one"]


@check()
async def too_slow(talk: Talk) -> None:
    """A webhook gets as long as timeoutSeconds."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    server = await webhook_server(talk)
    await register(talk, server, timeoutSeconds=1)
    server.answer = hang
    refused = await talk.ask("POST", path, widget("one", name="a"))
    server.answer = review()
    # One second may be too short for a webhook in a busy test's event loop.
    passed = await talk.at_last(
        lambda: talk.ask("POST", path, widget("one", name="a")), lambda answer: answer.status == 201
    )

    assert (refused.status, passed.status) == (500, 201)


@check()
async def answers_that_are_none(talk: Talk) -> None:
    """An error status, no JSON, no review, another uid, an unknown patch: as if it could not be asked."""
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
        # The words for what is wrong are the server's parsers'.
        talk.note({"answered": name, "code": refused.status, "reason": refused.json.get("reason")})

        assert refused.status == 500, name
