"""Admission warnings about a FederatedHPA: remedies for refusals, and admitted settings that look wrong.

A refusal keeps Karmada's message byte for byte, so its remedy is a separate warning. The API server passes
warnings on with every answer, also where its own schema refuses the object. Remedies ignore defaults that
admission has not written yet.
"""

from __future__ import annotations

from collections.abc import Iterator

from fedhpa.admission.validation.extensions import DISTRIBUTED
from fedhpa.admission.warnings.distributed import warn_distributed
from fedhpa.admission.warnings.extensions import DUPLICATED, warn_extensions
from fedhpa.admission.warnings.metrics import metric_remedies, warn_metrics
from fedhpa.admission.warnings.references import has_group_and_version, no_group_and_version
from fedhpa.api.autoscaling import HPAScalingRules
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import FederatedHPA, FederatedHPASpec
from fedhpa.api.rebalance import REBALANCE_ANNOTATION, rebalance_time


def warn_federatedhpa(fhpa: FederatedHPA, *, admitted: bool = False) -> Iterator[str]:
    """Yields the warnings about an object. Unless `admitted`, the remedies come first."""
    spec = fhpa.spec
    if not admitted:
        yield from federatedhpa_remedies(spec)
    yield from _rebalance(fhpa)
    yield from _api_version(spec)
    yield from warn_metrics(spec.metrics, "spec.metrics")
    yield from warn_distributed(spec)
    yield from warn_extensions(spec)


def _rebalance(fhpa: FederatedHPA) -> Iterator[str]:
    """Warns about a timestamp that cannot be read, and about a policy that divides nothing."""
    value = fhpa.metadata.annotations.get(REBALANCE_ANNOTATION)
    if not isinstance(value, str) or not value:
        return
    try:
        rebalance_time(value)
    except InvalidObject as error:
        yield str(error)
        return
    assignment = fhpa.spec.federated_hpa_assignment
    policy = None if assignment is None else assignment.federated_hpa_assignment_type
    if fhpa.spec.mode == DISTRIBUTED or policy == DUPLICATED:
        what = "mode is Distributed" if fhpa.spec.mode == DISTRIBUTED else "Duplicated divides nothing"
        yield f"annotation {REBALANCE_ANNOTATION}: has no effect, because {what}; remove it"


def federatedhpa_remedies(spec: FederatedHPASpec) -> Iterator[str]:
    """Yields how to fix each mistake that has an obvious remedy."""
    if spec.maximum is None:
        yield "spec.maxReplicas: is missing; write the upper limit here, or as federatedMaxReplicas"
    if spec.minimum == 0 and not spec.scales_from_zero:
        yield "spec.minReplicas: 0 needs an Object or External metric, because no pod is left to measure"
    if "/" in spec.scale_target_ref.name:
        yield "spec.scaleTargetRef.name: write the name alone, without the kind or the namespace"
    yield from metric_remedies(spec.metrics, "spec.metrics")
    behavior = spec.behavior
    if behavior is not None:
        yield from _policies(behavior.scale_up, "spec.behavior.scaleUp")
        yield from _policies(behavior.scale_down, "spec.behavior.scaleDown")


def _policies(rules: HPAScalingRules | None, path: str) -> Iterator[str]:
    if rules is not None and rules.policies == ():
        instead = "selectPolicy: Disabled forbids this direction"
        yield f"{path}.policies: leave them out for the defaults; {instead}"


def _api_version(spec: FederatedHPASpec) -> Iterator[str]:
    """Warns about the target's API version, which Karmada does not check. Mode Distributed refuses it."""
    reference = spec.scale_target_ref
    if spec.mode != DISTRIBUTED and not has_group_and_version(reference):
        yield f"spec.scaleTargetRef.apiVersion: {no_group_and_version(reference)}"
