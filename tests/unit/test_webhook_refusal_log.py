"""Each refusal is logged once, on one line, and the number of lines is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from webhook.admission_review import Verdict
from webhook.application import (
    LINES_PER_MINUTE,
    LINES_PER_MINUTE_OF_NAMESPACE,
    MAX_KNOWN,
    MINUTE,
    REPEAT_SECONDS,
    RefusalLog,
)
from webhook.handlers import Review


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    with capture_logs() as found:
        yield found


def refusal(name: Any = "web", namespace: Any = "shop", message: str = "spec: wrong", **more: Any) -> Review:
    raw = {"metadata": {"name": name, "namespace": namespace, **more}}
    return Review(Verdict(False, 403, "Forbidden", message), raw=raw)


def test_a_refusal_is_logged_with_its_object_and_reason(clock: Clock, lines: list[Any]) -> None:
    """The line has kind, namespace, name, code and reason."""
    RefusalLog(clock).add("FederatedHPA", refusal())

    assert lines == [
        {
            "event": "refused",
            "log_level": "info",
            "kind": "FederatedHPA",
            "namespace": "shop",
            "name": "web",
            "code": 403,
            "reason": "spec: wrong",
        }
    ]


def test_a_repeated_refusal_is_logged_after_ten_minutes(clock: Clock, lines: list[Any]) -> None:
    """A tool that retries without end does not fill the log. Another reason or object gets a line."""
    log = RefusalLog(clock)
    for _ in range(50):
        log.add("FederatedHPA", refusal())
    log.add("FederatedHPA", refusal(message="spec: something else"))
    log.add("FederatedHPA", refusal(name="api"))
    log.add("CronFederatedHPA", refusal())
    clock.now = REPEAT_SECONDS + 1

    log.add("FederatedHPA", refusal())

    assert len(lines) == 5


def test_each_namespace_has_its_own_limit(clock: Clock, lines: list[Any]) -> None:
    """The next line counts the refusals that were left out."""
    log = RefusalLog(clock)
    for number in range(500):
        log.add("FederatedHPA", refusal(name=f"web-{number}", namespace="noisy"))
    log.add("FederatedHPA", refusal(namespace="quiet"))

    assert [line["namespace"] for line in lines] == ["noisy"] * LINES_PER_MINUTE_OF_NAMESPACE + ["quiet"]
    assert lines[-1]["left_out"] == 500 - LINES_PER_MINUTE_OF_NAMESPACE


def test_all_namespaces_together_have_a_limit(clock: Clock, lines: list[Any]) -> None:
    """A client that makes up namespaces reaches it too. It is reset every minute."""
    log = RefusalLog(clock)
    for number in range(5000):
        log.add("FederatedHPA", refusal(namespace=f"space-{number}"))
    clock.now = MINUTE
    log.add("FederatedHPA", refusal(namespace="later"))

    assert len(lines) == LINES_PER_MINUTE + 1


def test_the_number_of_known_refusals_is_bounded(clock: Clock) -> None:
    """Hours of different refusals do not fill the memory."""
    log = RefusalLog(clock)
    with capture_logs():
        for number in range(MAX_KNOWN * 2):
            clock.now += MINUTE / LINES_PER_MINUTE
            log.add("FederatedHPA", refusal(name=f"web-{number}", namespace=f"space-{number % 50}"))

    assert len(log._suppressed_until) == MAX_KNOWN


def test_a_name_cannot_forge_a_line(clock: Clock, lines: list[Any]) -> None:
    """Control characters are replaced and long values are cut."""
    name = 'web\n2026-01-01 [info] all is well\x1b[2J\u202e"' + "x" * 10_000

    RefusalLog(clock).add("FederatedHPA", refusal(name=name, namespace="\r\n", message=name))

    [line] = lines
    assert all(str(value).isprintable() for value in line.values())
    assert all(len(str(value)) <= 500 for value in line.values())


@pytest.mark.parametrize("raw", [None, {}, {"metadata": None}, {"metadata": {"name": 7, "namespace": []}}])
def test_an_unreadable_object_has_no_name(clock: Clock, lines: list[Any], raw: dict[str, Any] | None) -> None:
    """Its refusal is logged with an empty namespace and name."""
    RefusalLog(clock).add("FederatedHPA", Review(Verdict(False, 400, message="invalid JSON"), raw=raw))

    assert (lines[0]["namespace"], lines[0]["name"]) == ("", "")


def test_a_generated_name_is_shown_by_its_beginning(clock: Clock, lines: list[Any]) -> None:
    """An object without a name is logged with its generateName."""
    RefusalLog(clock).add("FederatedHPA", refusal(name=None, generateName="web-"))

    assert lines[0]["name"] == "web-"
