"""No admission request blocks the webhook's event loop while a thread judges it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.costs import least_hold_by_thread
from tests.support.nightly import NIGHTLY
from webhook.admission_review import MAX_BODY
from webhook.handlers import judge
from webhook.strict_json import MAX_VALUES

# The bound is of processor time, because a machine that shares its processors may stand still for longer.
MOST_SECONDS = 0.05
PATHS = ("/mutate-federatedhpa", "/validate-cronfederatedhpa")
NAMED = {"name": "web", "namespace": "shop"}


def review(kind: str, **fields: Any) -> bytes:
    found = {"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": kind, "metadata": NAMED, **fields}
    request = {"uid": "7", "operation": "CREATE", "object": found}
    text = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return json.dumps(text, separators=(",", ":")).encode()


def labelled(kind: str, count: int) -> bytes:
    return review(
        kind, metadata={**NAMED, "labels": {f"label-{number}": f"{number}" for number in range(count)}}
    )


HOSTILE: dict[str, Callable[[str], bytes]] = {
    "most labels": lambda kind: labelled(kind, MAX_VALUES - 20),
    "too many labels": lambda kind: labelled(kind, 250_000),
    "one label": lambda kind: review(kind, metadata={**NAMED, "labels": {"a": "x" * 7_000_000}}),
    "commas": lambda kind: review(kind, metadata={**NAMED, "annotations": {"a": "," * 7_000_000}}),
    "escapes": lambda kind: review(kind, metadata={**NAMED, "annotations": {"a": '"' * 3_500_000}}),
    "letters": lambda kind: review(kind, metadata={**NAMED, "annotations": {"a": "ü" * 1_100_000}}),
    "numbers": lambda kind: review(kind, spec=[1.5] * (MAX_VALUES - 20)),
    "rules": lambda kind: review(kind, spec={"rules": [{}] * (MAX_VALUES // 2 - 20)}),
    "metrics": lambda kind: review(kind, spec={"metrics": [{"type": "x"}] * (MAX_VALUES // 2 - 20)}),
    "repeated keys": lambda kind: labelled(kind, 100_000).replace(b'"label-7":', b'"label-8":'),
}


# By day one of those that are judged alike.
BY_DAY = ("most labels", "commas", "numbers", "rules", "metrics")


@pytest.mark.nightly
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", HOSTILE if NIGHTLY else BY_DAY)
async def test_a_hostile_request_holds_no_loop(kind: str, path: str) -> None:
    """The event loop runs while an expensive request is judged or refused."""
    body = HOSTILE[kind]("CronFederatedHPA" if "cron" in path else "FederatedHPA")

    assert len(body) <= MAX_BODY
    verdict, longest = await least_hold_by_thread(
        lambda: judge(path, body, "application/json").verdict, MOST_SECONDS
    )
    assert verdict.code
    assert longest < MOST_SECONDS
