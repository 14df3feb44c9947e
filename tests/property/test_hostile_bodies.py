"""Two thousand broken admission requests: each is answered with a well-formed verdict, quickly."""

from __future__ import annotations

import json
import random
import time
from typing import Any

from webhook.review import PATHS, review

FHPA: dict[str, Any] = {
    "apiVersion": "autoscaling.karmada.io/v1alpha1",
    "kind": "FederatedHPA",
    "metadata": {"name": "web", "namespace": "shop", "labels": {"a": "b"}},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 1,
        "maxReplicas": 10,
        "metrics": [
            {
                "type": "Pods",
                "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "7"}},
            }
        ],
        "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}},
        "partialMetrics": {"policy": "Hold"},
        "clusterHPAPreference": [{"clusterName": "m1", "maxResourceUsage": 0.5}],
    },
}
CRON: dict[str, Any] = {
    "apiVersion": "autoscaling.karmada.io/v1alpha1",
    "kind": "CronFederatedHPA",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "rules": [{"name": "r", "schedule": "0 8 * * *", "targetReplicas": 3, "timeZone": "Europe/Berlin"}],
    },
}
ODDITIES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**31,
    2**63,
    10**300,
    1.5,
    1e308,
    "",
    "\x00",
    "\ud800",
    "x" * 10_000,
    "*/0 * * * *",
    "\u202e",
    [],
    {},
    [None],
    [[[[]]]],
    {"": None},
    {"a": {"b": {"c": [1]}}},
)


def mutated(value: Any, chance: random.Random) -> Any:
    """The value with something in it replaced, dropped, doubled or renamed."""
    if chance.random() < 0.12 or not isinstance(value, dict | list) or not value:
        return chance.choice(ODDITIES)
    if isinstance(value, list):
        copy = list(value)
        index = chance.randrange(len(copy))
        copy[index] = mutated(copy[index], chance)
        return copy * chance.choice((1, 1, 1, 3))
    changed = dict(value)
    key = chance.choice(list(changed))
    match chance.randrange(6):
        case 0:
            del changed[key]
        case 1:
            changed[chance.choice(("", "\x7f", "metadata", "spec", "x" * 500))] = changed.pop(key)
        case _:
            changed[key] = mutated(changed[key], chance)
    return changed


def damaged(body: bytes, chance: random.Random) -> bytes:
    """The bytes with a piece cut out, doubled or overwritten."""
    start = chance.randrange(len(body))
    end = min(len(body), start + chance.randrange(1, 20))
    piece = chance.choice(
        (b"", body[start:end] * 3, bytes(chance.randrange(256) for _ in range(4)), b"[" * 3000)
    )
    return body[:start] + piece + body[end:]


def test_every_broken_request_gets_a_verdict() -> None:
    """No body raises, each answer is an AdmissionReview, and none takes long."""
    chance = random.Random(20260311)
    slowest = 0.0
    for number in range(2000):
        path = PATHS[number % len(PATHS)]
        review_object: Any = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {"uid": "u", "operation": "CREATE", "object": CRON if "cron" in path else FHPA},
        }
        for _ in range(chance.randrange(1, 4)):
            review_object = mutated(review_object, chance)
        body = json.dumps(review_object).encode()
        if chance.random() < 0.3:
            body = damaged(body, chance)

        started = time.perf_counter()
        answer = json.loads(review(path, body, "application/json"))
        slowest = max(slowest, time.perf_counter() - started)

        assert answer["kind"] == "AdmissionReview"
        assert isinstance(answer["response"]["allowed"], bool)
        assert answer["response"]["allowed"] or answer["response"]["status"]["message"]
    assert slowest < 1.0


def test_a_body_made_to_be_slow_is_not() -> None:
    """A megabyte of each thing that could be quadratic is answered within seconds."""
    names = "a" * 200_000 + "!"
    rules = [
        {"name": f"r{number}", "schedule": ",".join(["0-59/1"] * 70) + " * * * *"} for number in range(1000)
    ]
    objects = [
        {"metadata": {"name": names, "namespace": names, "finalizers": [names], "labels": {names: names}}},
        {"spec": {"rules": rules}},
        {"spec": {"rules": [{}] * 50_000}},
        {"spec": {"rules": [{"excludeDates": ["x"] * 366}] * 500}},
        {"spec": {"rules": [{"timeZone": "x" * 100_000, "schedule": "1," * 100_000}]}},
    ]
    for obj in objects:
        body = json.dumps({"request": {"uid": "1", "object": obj}}).encode()

        started = time.process_time()
        answer = json.loads(review("/validate-cronfederatedhpa", body, "application/json"))

        assert answer["response"]["allowed"] is False
        assert time.process_time() - started < 3.0
