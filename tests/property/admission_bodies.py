"""Strategies for broken admission requests: valid objects with broken parts, and damaged bytes."""

from __future__ import annotations

import json
import random
from typing import Any, Final

from hypothesis import strategies as st

FHPA: Final[dict[str, Any]] = {
    "apiVersion": "autoscaling.karmada.io/v1alpha1",
    "kind": "FederatedHPA",
    "metadata": {
        "name": "web",
        "namespace": "shop",
        "labels": {"a": "b"},
        "annotations": {"note": 'a "quoted": text, with \\ in it'},
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}],
        "managedFields": [{"manager": "kubectl", "operation": "Apply", "fieldsType": "FieldsV1"}],
    },
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 1,
        "maxReplicas": 10,
        "metrics": [
            {
                "type": "Pods",
                "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "7"}},
            },
            {
                "type": "External",
                "external": {
                    "metric": {"name": "queue", "selector": {"matchLabels": {"q": "x"}}},
                    "target": {"type": "Value", "value": "10"},
                },
            },
        ],
        "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]}},
        "mode": "Centralized",
        "partialMetrics": {"policy": "Hold", "lostAfterSeconds": 300},
        "clusterAffinity": {"labelSelector": {"matchLabels": {"zone": "a"}}, "clusterNames": ["m1"]},
        "federatedHPAAssignment": {
            "federatedHPAAssignmentType": "StaticWeighted",
            "clusterAutoscalingPreference": [
                {"targetCluster": {"clusterNames": ["m1"]}, "staticWeight": 2, "autoscalingMinThreshold": 1}
            ],
        },
        "clusterHPAPreference": [{"clusterName": "m1", "maxResourceUsage": 0.5}],
    },
    "status": {"currentReplicas": 3, "desiredReplicas": 4},
}
CRON: Final[dict[str, Any]] = {
    "apiVersion": "autoscaling.karmada.io/v1alpha1",
    "kind": "CronFederatedHPA",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "rules": [
            {"name": "r", "schedule": "0 8 * * *", "targetReplicas": 3, "timeZone": "Europe/Berlin"},
            {
                "name": "s",
                "schedule": "*/30 8-18 * * MON-FRI",
                "targetReplicas": 5,
                "duration": "20m",
                "maxDelaySeconds": 60,
                "excludeDates": ["2026-12-25", "2026-07-20/2026-08-31", "--01-01"],
                "startDate": "2026-01-01",
                "endDate": "2027-12-31",
                "atLeast": True,
            },
        ],
    },
}
ODDITIES: Final[tuple[Any, ...]] = (
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
    "a/b",
    "..",
    "5x",
    "1e999999",
    "2026-02-30",
    [],
    {},
    [None],
    [[[[]]]],
    {"": None},
    {"a": {"b": {"c": [1]}}},
)
DEEP: Final = b'{"a":' * 2000 + b"1" + b"}" * 2000
PIECES: Final = (
    *(b"", b"[" * 3000, b'{"a":' * 500, DEEP),
    *(b"NaN", b"1e999", b"9" * 5000, b"\xff", b"\\ud800", b'":"'),
)


def mutated(value: Any, chance: random.Random) -> Any:
    """Returns the value with one part replaced, dropped, repeated or renamed."""
    if chance.random() < 0.12 or not isinstance(value, dict | list) or not value:
        return chance.choice(ODDITIES)
    if isinstance(value, list):
        items = list(value)
        index = chance.randrange(len(items))
        items[index] = mutated(items[index], chance)
        return items * chance.choice((1, 1, 1, 3))
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
    """Returns the bytes with a piece repeated or overwritten, or without their end."""
    start = chance.randrange(len(body))
    end = min(len(body), start + chance.randrange(1, 40))
    if chance.random() < 0.2:
        return body[:start]
    piece = chance.choice((body[start:end] * 3, chance.randbytes(4), *PIECES))
    return body[:start] + piece + body[end:]


def written(value: Any, chance: random.Random) -> bytes:
    """Returns the value as JSON, compact as from API servers or with blanks and escapes."""
    if chance.random() < 0.7:
        try:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:  # a lone surrogate can only be escaped
            pass
    return json.dumps(value, indent=chance.choice((None, 1))).encode()


def object_of(path: str) -> dict[str, Any]:
    """Returns a valid object for one of the three paths."""
    return CRON if "cron" in path else FHPA


def review_of(obj: Any, **request: Any) -> dict[str, Any]:
    """Returns the AdmissionReview of an object."""
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {"uid": "u", "operation": "CREATE", **request, "object": obj},
    }


@st.composite
def spoiled_objects(draw: st.DrawFn, path: str) -> Any:
    """Objects of the path's kind with up to three broken parts."""
    chance = random.Random(draw(st.integers(0, 2**64)))
    obj: Any = object_of(path)
    for _ in range(draw(st.integers(0, 3))):
        obj = mutated(obj, chance)
    return obj


@st.composite
def spoiled_bodies(draw: st.DrawFn, path: str) -> bytes:
    """Bodies: reviews of broken objects, broken reviews, damaged bytes of them, or any bytes."""
    if draw(st.integers(0, 19)) == 0:
        return draw(st.binary(max_size=300))
    chance = random.Random(draw(st.integers(0, 2**64)))
    version = draw(st.sampled_from(("admission.k8s.io/v1", "admission.k8s.io/v1beta1", "v1", None)))
    review: Any = review_of(draw(spoiled_objects(path)), operation=draw(st.sampled_from(("UPDATE", "", 3))))
    review["apiVersion"] = version
    if chance.random() < 0.2:
        review = mutated(review, chance)
    body = written(review, chance)
    return damaged(body, chance) if chance.random() < 0.3 else body
