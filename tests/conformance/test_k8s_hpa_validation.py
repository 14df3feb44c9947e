"""Kubernetes 1.36 judging HorizontalPodAutoscalers, replayed as FederatedHPAs; differences are listed."""

from __future__ import annotations

from typing import Any, Final

import pytest

from fedhpa.api.decode import decode
from fedhpa.api.federatedhpa import FederatedHPA
from fedhpa.api.validation import validate_federatedhpa
from tests.conformance.tables import table

TABLE = table("k8s_hpa_validation")
CASES = [case for case in TABLE["validation_cases"] if case["kind"] == "create"]
V2_CREATES = [
    case
    for case in TABLE["strategy_cases"]
    if case["api_version"] == "autoscaling/v2" and case["op"] == "create"
]

# A message of Kubernetes -> ours (None: not checked), where Karmada's rule or docs/contracts.md outranks.
MESSAGES: Final[dict[str, str | None]] = {
    # Karmada's words for the same rule.
    "spec.maxReplicas: Required value: must be set and greater than 0": (
        "spec.maxReplicas: Invalid value: 0: must be greater than 0"
    ),
    "spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1": (
        "spec.maxReplicas: Invalid value: -1: must be greater than 0"
    ),
}
# Zero is admitted beside an Object or External metric, as with the gate HPAScaleToZero on.
GATE_OFF: Final = {
    "TestValidateHorizontalPodAutoscalerScaleToZeroDisabled/bad-01",
    "TestValidateHorizontalPodAutoscalerScaleToZeroDisabled/bad-02",
    "TestDeclarativeValidate/autoscaling/v2/invalid: minReplicas = 0 (gate disabled)",
}


def ours(messages: list[str], case: dict[str, Any]) -> list[str]:
    """What Kubernetes says, in our words; each text once, as an aggregate shows it."""
    if case["id"] in GATE_OFF:
        assert messages == ["spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"]
        return []
    # Quirk Q4: Karmada never checks the target's apiVersion; an admission warning says what is wrong with it.
    kept = [message for message in messages if not message.startswith("spec.scaleTargetRef.apiVersion: ")]
    return list(dict.fromkeys(MESSAGES.get(message) or message for message in kept))


@pytest.mark.parametrize("case", [*CASES, *V2_CREATES], ids=lambda case: case["id"])
def test_an_autoscaler_is_judged_as_kubernetes_does(case: dict[str, Any]) -> None:
    """The same errors in the same order, but for the listed differences."""
    expected = ours([error["message"] for error in case["observed_errors"]], case)

    errors = validate_federatedhpa(decode(FederatedHPA, case["hpa"]))

    assert list(dict.fromkeys(map(str, errors))) == expected
