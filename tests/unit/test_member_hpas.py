"""The HPAs that mode Distributed writes: their spec, their versions, and drift of stored ones."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fedhpa.api.json import decode_json
from fedhpa.api.member_hpas import (
    MANAGED_BY,
    MANAGER,
    OWNER,
    V2,
    V2BETA2,
    MemberHpa,
    Owner,
    differing_fields,
    new_member_hpa,
    served_version,
    wanted_spec,
)
from fedhpa.api.wire import ObjectMeta

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
CPU: dict[str, Any] = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}},
}
QUEUE: dict[str, Any] = {
    "type": "External",
    "external": {
        "aggregation": "Sum",
        "metric": {"name": "queue", "selector": {"matchLabels": {"aggregation": "a", "tolerance": "b"}}},
        "target": {"type": "AverageValue", "averageValue": "0.5"},
    },
}
FEDERATED: dict[str, Any] = {
    "scaleTargetRef": TARGET,
    "minReplicas": 6,
    "maxReplicas": 30,
    "mode": "Distributed",
    "metrics": [CPU, QUEUE],
    "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60, "tolerance": "50m"}},
}
# The wanted spec as a real API server (v1.36) stores it.
STORED: dict[str, Any] = {
    "scaleTargetRef": TARGET,
    "minReplicas": 2,
    "maxReplicas": 10,
    "metrics": [
        CPU,
        {
            "type": "External",
            "external": {
                "metric": QUEUE["external"]["metric"],
                "target": {"type": "AverageValue", "averageValue": "500m"},
            },
        },
    ],
    "behavior": {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [
                {"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": 60,
            "selectPolicy": "Max",
            "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
            "tolerance": "50m",
        },
    },
}


def stored(spec: dict[str, Any], labels: dict[str, str] | None = None) -> MemberHpa:
    body = {"metadata": {"name": "web", "namespace": "shop", "labels": labels}, "spec": spec}
    return decode_json(msgspec.json.encode(body), MemberHpa)


def wanted(**changes: Any) -> dict[str, Any]:
    return wanted_spec({**FEDERATED, **changes}, 2, 10, V2)


def test_a_member_hpa_has_the_target_metrics_behavior_and_its_own_bounds() -> None:
    """Fields of the FederatedHPA alone are left out, and equal names in a selector stay."""
    spec = wanted()

    assert spec["scaleTargetRef"] == TARGET
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 10)
    assert "aggregation" not in spec["metrics"][1]["external"]
    assert spec["metrics"][1]["external"]["metric"] == QUEUE["external"]["metric"]
    assert set(spec) == {"scaleTargetRef", "minReplicas", "maxReplicas", "metrics", "behavior"}


def test_an_hpa_without_metrics_scales_by_cpu() -> None:
    """The default of a FederatedHPA is written out, because it is not left to the member."""
    assert wanted(metrics=None)["metrics"][0]["resource"]["target"]["averageUtilization"] == 80


def test_v2beta2_has_no_tolerance() -> None:
    """Members older than 1.23 do not know the field."""
    old = wanted_spec(FEDERATED, 2, 10, V2BETA2)

    assert old["behavior"] == {"scaleDown": {"stabilizationWindowSeconds": 60}}
    assert wanted()["behavior"] == FEDERATED["behavior"]


@pytest.mark.parametrize(
    ("served", "chosen"),
    [
        (["autoscaling/v1", "autoscaling/v2", "autoscaling/v2beta2"], V2),
        (["autoscaling/v1", "autoscaling/v2beta1", "autoscaling/v2beta2"], V2BETA2),
        (["autoscaling/v1"], None),
        ([], None),
    ],
)
def test_the_best_version_that_a_member_serves_is_taken(served: list[str], chosen: str | None) -> None:
    """v2 is preferred, v2beta2 is for members older than 1.23, and other versions are not used."""
    assert served_version(served) == chosen


def test_only_the_label_makes_an_hpa_ours() -> None:
    """An HPA of the same name without the label belongs to somebody else."""
    created = new_member_hpa(Owner("hub", "shop", "web", "1"), wanted())

    assert stored(STORED, created["metadata"]["labels"]).ours
    assert not stored(STORED).ours
    assert not stored(STORED, {"autoscaling.karmada.io/managed-by": "somebody"}).ours


@pytest.mark.parametrize(
    ("hub", "owner", "labels", "expected"),
    [
        ("hub", "", {MANAGED_BY: MANAGER}, True),
        ("hub", "hub/shop/web/1", {MANAGED_BY: MANAGER}, True),
        ("hub", "hub/shop/web/0", {MANAGED_BY: MANAGER}, True),
        ("h" * 253, f"{'h' * 253}/shop/web/{'1' * 36}", {MANAGED_BY: MANAGER}, True),
        ("", "hub/shop/web/1", {MANAGED_BY: MANAGER}, True),
        ("hub", "hub-2/shop/web/1", {MANAGED_BY: MANAGER}, False),
        ("hub", "hub/shop/web-2/1", {MANAGED_BY: MANAGER}, False),
        ("hub", "hub/shop-2/web/1", {MANAGED_BY: MANAGER}, False),
        ("hub", "hub", {MANAGED_BY: MANAGER}, False),
        ("hub", "hub/shop/web/1", {}, False),
        ("hub", "", {}, False),
    ],
)
def test_label_and_owner_make_an_hpa_ours(
    hub: str, owner: str, labels: dict[str, str], expected: bool
) -> None:
    """Hub, namespace and name count, and the uid does not. An unknown hub takes the word of the label."""
    annotations = {OWNER: owner} if owner else None
    metadata = ObjectMeta(name="web", namespace="shop", labels=labels, annotations=annotations)
    seen = MemberHpa(metadata).seen_by(hub)

    assert seen.ours is expected
    assert expected or bool(labels) == (OWNER in seen.remedy)


def test_defaults_and_notation_of_the_server_are_no_drift() -> None:
    """A quiet world writes nothing: what the server stores of our own write is no difference."""
    assert differing_fields(stored(STORED).spec, wanted()) == ()


def test_a_server_that_drops_tolerance_is_no_drift() -> None:
    """v2 drops the field where its feature gate is off."""
    behavior = {
        direction: {name: value for name, value in rules.items() if name != "tolerance"}
        for direction, rules in STORED["behavior"].items()
    }

    assert differing_fields(stored({**STORED, "behavior": behavior}).spec, wanted()) == ()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"minReplicas": 3}, "minReplicas"),
        ({"minReplicas": None}, "minReplicas"),
        ({"maxReplicas": 11}, "maxReplicas"),
        ({"metrics": [CPU]}, "metrics"),
        ({"metrics": None}, "metrics"),
        ({"behavior": None}, "behavior"),
        ({"behavior": {"scaleDown": {"tolerance": "60m", "stabilizationWindowSeconds": 60}}}, "behavior"),
        ({"behavior": {"scaleDown": {"stabilizationWindowSeconds": 61}}}, "behavior"),
        ({"scaleTargetRef": {**TARGET, "name": "api"}}, "scaleTargetRef"),
    ],
)
def test_a_change_by_somebody_else_is_found(change: dict[str, Any], field: str) -> None:
    """Each changed, removed or added field of the stored spec is named."""
    assert differing_fields(stored({**STORED, **change}).spec, wanted()) == (field,)


def test_behavior_that_somebody_adds_is_found() -> None:
    """An HPA without behavior stays without it."""
    assert differing_fields(stored(STORED).spec, wanted(behavior=None)) == ("behavior",)
    plain = {name: value for name, value in STORED.items() if name != "behavior"}
    assert differing_fields(stored(plain).spec, wanted(behavior=None)) == ()
