"""Registers a check's webhook and waits until the API server calls it."""

from __future__ import annotations

from typing import Any

from tests.conformance.plane.servers import LocalServer, Received, local_server, review
from tests.conformance.plane.talk import Object, Talk
from tests.conformance.plane.things import GROUP, widget, widgets

REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"
# The longest timeout of a registration, because the webhook shares a busy event loop.
TIMEOUT = 30
# Checks create objects of this name until their webhook is called; transcripts leave them out.
PROBE = "probe"


async def webhook_server(talk: Talk, *, dns: str = "localhost") -> LocalServer:
    """Returns a running webhook that allows everything."""
    server: LocalServer = await talk.entered(local_server(review(), dns=dns))
    talk.names.literal(server.url, "https://<webhook>")
    return server


async def register(
    talk: Talk,
    server: LocalServer,
    *,
    mutating: bool = False,
    name: str = "widgets",
    called: bool = True,
    config: Object | None = None,
    **webhook: Any,
) -> None:
    """Register the server for Widgets of the check's namespace, and wait until it is called."""
    kind = "MutatingWebhookConfiguration" if mutating else "ValidatingWebhookConfiguration"
    entry: Object = {
        "name": f"{name}.{GROUP}",
        "clientConfig": config or {"url": f"{server.url}/{name}", "caBundle": server.ca_bundle},
        "rules": [
            {
                "operations": ["CREATE", "UPDATE", "DELETE"],
                "apiGroups": [GROUP],
                "apiVersions": ["*"],
                "resources": ["widgets"],
            }
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": talk.namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": TIMEOUT,
        **webhook,
    }
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": f"{name}.{talk.namespace}"},
        "webhooks": [entry],
    }
    await talk.make(f"{REGISTRATIONS}/{kind.lower()}s", body)
    if called:
        await until_called(talk, server, name)


async def until_called(talk: Talk, server: LocalServer, name: str = "widgets") -> None:
    """Create objects until the server receives one at the registration's path."""

    async def called() -> bool:
        await talk.quietly("POST", f"{widgets(talk.namespace)}?dryRun=All", widget(PROBE, name="a"))
        return any(received.request.path == f"/{name}" for received in server.received)

    await talk.eventually(called)
    server.received.clear()


async def until_refused(talk: Talk) -> None:
    """Create objects until the API server refuses one because it cannot call the webhook."""

    async def refused() -> bool:
        answer = await talk.quietly("POST", f"{widgets(talk.namespace)}?dryRun=All", widget(PROBE, name="a"))
        return answer.status == 500 and "failed calling webhook" in answer.json["message"]

    await talk.eventually(refused)


def note_received(talk: Talk, server: LocalServer) -> list[Received]:
    """Record the requests that the webhook received since the last call."""
    received = [one for one in server.received if one.json["request"]["name"] != PROBE]
    for one in received:
        headers = {
            key: one.request.headers.getall(key, []) for key in ("Content-Type", "Accept", "Authorization")
        }
        talk.note(
            {
                "webhook received": f"{one.request.method} {one.request.path_qs}",
                "headers": {key: value for key, value in headers.items() if value},
                "body": one.json,
            }
        )
    server.received.clear()
    return received
