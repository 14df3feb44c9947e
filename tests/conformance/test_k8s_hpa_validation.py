"""Kubernetes 1.36 judging HorizontalPodAutoscalers, replayed as FederatedHPAs; differences are listed.

Every row of the table is run. Each difference is a row of docs/explanation/differences.md; a test checks that
the row exists.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from fedhpa.admission.defaults import default_patch
from fedhpa.admission.federatedhpa import validate_federatedhpa, warn_federatedhpa
from fedhpa.api.decode import decode
from fedhpa.api.federatedhpa import API_VERSION, KIND, FederatedHPA
from tests.conformance.tables import table
from webhook.handlers import VALIDATE_FEDERATEDHPA, judge

TABLE = table("k8s_hpa_validation")
DIFFERENCES = (Path(__file__).parents[2] / "docs" / "explanation" / "differences.md").read_text(
    encoding="utf-8"
)
AUTOSCALERS = [case for case in (*TABLE["validation_cases"], *TABLE["strategy_cases"]) if "hpa" in case]
SCALES = [case for case in TABLE["validation_cases"] if case["kind"] == "scale"]

# The row of docs/explanation/differences.md for each kind of difference.
ZERO: Final = "`minReplicas: 0` is refused (Karmada)"
API_VERSION_UNCHECKED: Final = "the target's `apiVersion` is not checked (Karmada, Q4)"
MAXIMUM: Final = "`maxReplicas: 0` is answered with `Required value: must be set and greater than 0`"
TOLERANCE: Final = "`tolerance` is dropped by /mutate and never checked (Karmada, Q3)"
OLD_OBJECT: Final = "an UPDATE is judged with the stored object in view"

# A message of Kubernetes -> ours, which is Karmada's for the same rule.
MESSAGES: Final = {
    "spec.maxReplicas: Required value: must be set and greater than 0": (
        "spec.maxReplicas: Invalid value: 0: must be greater than 0"
    ),
    "spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1": (
        "spec.maxReplicas: Invalid value: -1: must be greater than 0"
    ),
}
GATE_OFF: Final = "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"


def ours(case: dict[str, Any]) -> tuple[list[str], set[str]]:
    """Returns Kubernetes' errors as this project prints them, and the listed difference."""
    said, found, differences = [error["message"] for error in case["observed_errors"]], [], set()
    for message in dict.fromkeys(said):
        if ".apiVersion: " in message:
            differences.add(API_VERSION_UNCHECKED)
        elif message == GATE_OFF and has_object_or_external(case["hpa"]):
            # Kubernetes with the gate HPAScaleToZero off; here it is always on.
            differences.add(ZERO)
        else:
            differences |= {MAXIMUM} if message in MESSAGES else set()
            found.append(MESSAGES.get(message, message))
    return found, differences


def has_object_or_external(hpa: dict[str, Any]) -> bool:
    return any(metric["type"] in ("Object", "External") for metric in hpa["spec"].get("metrics", ()))


def judged(hpa: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(map(str, validate_federatedhpa(decode(FederatedHPA, hpa)))))


def test_autoscalers_are_judged_as_kubernetes_does() -> None:
    """The errors and their order agree on creation and update, except for the listed differences."""
    expected = {case["id"]: ours(case) for case in AUTOSCALERS}

    assert {case["id"]: judged(case["hpa"]) for case in AUTOSCALERS} == {
        name: errors for name, (errors, _) in expected.items()
    }
    listed = set().union(*(differences for _, differences in expected.values()))
    assert {text for text in listed if text not in DIFFERENCES} == set()


def test_an_api_version_that_kubernetes_refuses_is_warned_about() -> None:
    """The object is admitted, because Karmada admits it, with a warning."""
    silent = []
    for case in AUTOSCALERS:
        warned = list(warn_federatedhpa(decode(FederatedHPA, case["hpa"])))
        fields = [error["field"] for error in case["observed_errors"] if ".apiVersion: " in error["message"]]
        silent += [
            (case["id"], field)
            for field in fields
            if not any(text.startswith(f"{field}: ") for text in warned)
        ]

    assert silent == []


def test_each_listed_difference_occurs() -> None:
    """Every listed difference still exists."""
    occurring = set().union(*(ours(case)[1] for case in AUTOSCALERS))

    assert occurring == {ZERO, API_VERSION_UNCHECKED, MAXIMUM}


def verdict(operation: str, hpa: dict[str, Any], old: dict[str, Any] | None) -> dict[str, Any]:
    """Returns the webhook's response to an object, given the object that it replaces."""
    request: dict[str, Any] = {"uid": "1", "operation": operation}
    for key, raw in (("object", hpa), ("oldObject", old)):
        if raw is not None:
            request[key] = {"apiVersion": API_VERSION, "kind": KIND, **raw}
    answer = json.loads(
        judge(VALIDATE_FEDERATEDHPA, json.dumps({"request": request}).encode(), "application/json").encoded()
    )
    response: dict[str, Any] = answer["response"]
    return response


@pytest.mark.parametrize("case", TABLE["validation_options"], ids=lambda case: case["id"])
def test_the_stored_object_changes_a_verdict_only_if_its_spec_is_the_same(case: dict[str, Any]) -> None:
    """Kubernetes tolerates errors of the old object; the webhook tolerates them while nothing changes."""
    old = case["old_hpa"]
    alone, beside = (verdict("UPDATE", case["hpa"], stored) for stored in (None, old))

    if old is not None and old["spec"] == case["hpa"]["spec"]:
        assert beside["allowed"] is True
    else:
        assert beside == alone
    assert OLD_OBJECT in DIFFERENCES


@pytest.mark.parametrize("case", TABLE["min_replicas_bound"], ids=lambda case: case["id"])
def test_the_lower_bound_depends_on_the_metrics_alone(case: dict[str, Any]) -> None:
    """In Kubernetes a feature gate or the old object permits 0; here the metrics do."""
    external = {
        "type": "External",
        "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "1"}},
    }
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": case["new_min_replicas"],
        "maxReplicas": 5,
    }
    metadata = {"name": "web", "namespace": "shop"}

    with_external = judged({"metadata": metadata, "spec": {**spec, "metrics": [external]}})
    without = judged({"metadata": metadata, "spec": spec})

    assert with_external == []
    assert without == ([GATE_OFF] if case["new_min_replicas"] == 0 else [])


@pytest.mark.parametrize("case", TABLE["drop_disabled_tolerance"], ids=lambda case: case["id"])
def test_a_tolerance_is_always_kept(case: dict[str, Any]) -> None:
    """Kubernetes drops the field while its feature gate is off; here there is no gate."""
    rules = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 1}], "tolerance": "0.1"}
    raw = {"spec": {"maxReplicas": 5, "behavior": {"scaleUp": rules}}}

    assert case["new_has_tolerance"]
    assert [change["path"] for change in default_patch(raw) if "tolerance" in change["path"]] == []
    assert case["expect"]["tolerance_kept"] or TOLERANCE in DIFFERENCES


@pytest.mark.parametrize("case", SCALES, ids=lambda case: case["id"])
def test_a_scale_that_kubernetes_refuses_would_be_refused_as_a_size_here(case: dict[str, Any]) -> None:
    """API servers validate scales; no admitted limit leads to an invalid one."""
    replicas = case["scale"]["spec"].get("replicas", 0)
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": replicas,
        "maxReplicas": max(replicas, 1),
        "metrics": [
            {
                "type": "External",
                "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": 1}},
            }
        ],
    }

    assert (judged({"metadata": case["scale"]["metadata"], "spec": spec}) == []) == case["expect"]["valid"]


def test_every_row_is_run() -> None:
    """A new kind of row in the table fails this test until the test handles it."""
    run = (
        *AUTOSCALERS,
        *SCALES,
        *TABLE["validation_options"],
        *TABLE["min_replicas_bound"],
        *TABLE["drop_disabled_tolerance"],
    )

    assert len(run) == sum(TABLE["counts"].values())
