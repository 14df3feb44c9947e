"""Admission warnings about mode Distributed: settings that each cluster's HPA applies alone.

Source: docs/explanation/distributed.md. In mode Centralized the same settings apply to
all clusters together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fedhpa.admission.validation.extensions import DISTRIBUTED
from fedhpa.admission.validation.metrics import sources_of
from fedhpa.api import default_values
from fedhpa.api.autoscaling import POLICY_TYPES, HPAScalingPolicy, HPAScalingRules
from fedhpa.api.federatedhpa import FederatedHPASpec
from fedhpa.api.model import MAX_METRICS

_DISABLED: Final = "Disabled"
_PERCENT, _PODS = POLICY_TYPES
# A mutating webhook has written the defaults, so they may not be the user's own.
_DEFAULTS: Final = frozenset((*default_values.SCALE_UP_POLICIES, *default_values.SCALE_DOWN_POLICIES))


def warn_distributed(spec: FederatedHPASpec) -> Iterator[str]:
    """Yields warnings about an object of mode Distributed; none in mode Centralized."""
    if spec.mode != DISTRIBUTED:
        return
    yield from _whole_values(spec)
    yield from _minimum(spec)
    behavior = spec.behavior
    if behavior is not None:
        yield from _pods_in_each(behavior.scale_up, "spec.behavior.scaleUp", "add")
        yield from _pods_in_each(behavior.scale_down, "spec.behavior.scaleDown", "remove")
    if spec.partial_metrics is not None and spec.partial_metrics.policy is not None:
        effect = "has no effect in mode Distributed, because each cluster's HPA reads its own cluster only"
        yield f"spec.partialMetrics.policy: {effect}"


def _whole_values(spec: FederatedHPASpec) -> Iterator[str]:
    """Warns about metrics that are not of pods: N clusters that read a queue ask for N times its replicas."""
    found = [
        f"spec.metrics[{index}].{row.field}"
        for index, metric in enumerate(spec.metrics[:MAX_METRICS])
        for row, _ in sources_of(metric)
        if not row.per_pod
    ]
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        meaning = "each cluster's HPA asks for the replicas of the whole value"
        instead = "use a metric of each cluster's own share, or mode Centralized"
        yield f"{found[0]}{more}: mode is Distributed: {meaning}; {instead}"


def _minimum(spec: FederatedHPASpec) -> Iterator[str]:
    """Warns about a minimum of 0 that no cluster's HPA can have."""
    name, minimum = "minReplicas", spec.min_replicas
    if minimum is None:
        name, minimum = "federatedMinReplicas", spec.federated_min_replicas
    if minimum == 0 and not spec.scaling_to_zero:
        effect = "0 has no effect in mode Distributed without scalingToZero"
        reason = "because the HPA of each cluster keeps at least 1"
        yield f"spec.{name}: {effect}, {reason}; write scalingToZero: true, or 1"


def _pods_in_each(rules: HPAScalingRules | None, path: str, verb: str) -> Iterator[str]:
    """Warns about a policy of type Pods: N clusters may together add or remove N times as many pods."""
    if rules is None or rules.select_policy == _DISABLED:
        return
    for index, policy in enumerate(rules.policies or ()):
        if policy.type == _PODS and not _is_default(policy):
            pods = "1 pod" if policy.value == 1 else f"{policy.value} pods"
            limit = f"each cluster may {verb} {pods} in {policy.period_seconds} s"
            instead = f"write the number for one cluster, or type {_PERCENT}"
            yield f"{path}.policies[{index}]: mode is Distributed: {limit}; {instead}"
            return


def _is_default(policy: HPAScalingPolicy) -> bool:
    return (policy.type, policy.value, policy.period_seconds) in _DEFAULTS
