"""An embedded plane that waits: for tests in which nobody hangs, on machines that stand still for seconds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakeapi import PATIENCE, Object

# A webhook may be given half a minute, no more.
WEBHOOK_SECONDS = 30


def have_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have planes wait for aggregated servers and webhooks much longer than for 5 s, as Kubernetes does."""
    monkeypatch.setattr("testbed.embedded.extensions.outgoing.CONNECT_SECONDS", PATIENCE)
    monkeypatch.setattr("testbed.embedded.extensions.aggregation.CHECK_SECONDS", PATIENCE)


def patient(configurations: list[dict[str, Any]], seconds: int = WEBHOOK_SECONDS) -> list[Object]:
    """The same registrations of webhooks with so much time, by default the most that one may have."""
    return [
        {**each, "webhooks": [{**webhook, "timeoutSeconds": seconds} for webhook in each["webhooks"]]}
        for each in configurations
    ]
