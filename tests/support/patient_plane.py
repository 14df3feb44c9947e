"""Long deadlines of the embedded plane, for tests on busy machines."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakeapi import PATIENCE, Object

# The longest timeout that Kubernetes allows for a webhook.
WEBHOOK_SECONDS = 30


def have_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give aggregated servers and webhooks much longer than the 5 s of Kubernetes to answer."""
    monkeypatch.setattr("testbed.embedded.extensions.outgoing.CONNECT_SECONDS", PATIENCE)
    monkeypatch.setattr("testbed.embedded.extensions.aggregation.CHECK_SECONDS", PATIENCE)


def patient(configurations: list[dict[str, Any]], seconds: int = WEBHOOK_SECONDS) -> list[Object]:
    """Returns the webhook registrations with another timeout, by default the longest."""
    return [
        {**each, "webhooks": [{**webhook, "timeoutSeconds": seconds} for webhook in each["webhooks"]]}
        for each in configurations
    ]
