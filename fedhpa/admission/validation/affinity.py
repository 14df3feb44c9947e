"""Validation of a ClusterAffinity: cluster names, label selector and field selector.

Messages about label selectors: Kubernetes 1.36, validation of metav1.LabelSelector. Fields: Karmada's
policies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fedhpa.api.federatedhpa import ClusterAffinity
from fedhpa.api.fielderror import FieldError, forbidden, invalid, required, unsupported
from fedhpa.api.meta import LabelSelector, LabelSelectorRequirement
from fedhpa.api.model import MAX_CLUSTERS
from fedhpa.api.names import label_value, qualified_name

CLUSTER_FIELDS: Final = ("provider", "region", "zone")
FIELD_OPERATORS: Final = ("In", "NotIn")

_NEEDS_VALUES: Final = "must be specified when `operator` is 'In' or 'NotIn'"
_NEEDS_NO_VALUES: Final = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


def validate_affinity(affinity: ClusterAffinity, path: str) -> Iterator[FieldError]:
    """Yields the errors of an affinity. An affinity that selects no cluster is valid."""
    yield from _names(affinity.cluster_names, f"{path}.clusterNames")
    yield from _names(affinity.exclude, f"{path}.exclude")
    if affinity.label_selector is not None:
        yield from _label_selector(affinity.label_selector, f"{path}.labelSelector")
    if affinity.field_selector is not None:
        for index, requirement in enumerate(affinity.field_selector.match_expressions):
            yield from _field_requirement(requirement, f"{path}.fieldSelector.matchExpressions[{index}]")


def _names(names: Sequence[str], path: str) -> Iterator[FieldError]:
    # A list above its bound is refused for its size alone.
    for index, name in enumerate(names[:MAX_CLUSTERS]):
        if not name:
            yield required(f"{path}[{index}]", "must be the name of a cluster")


def _label_selector(selector: LabelSelector, path: str) -> Iterator[FieldError]:
    for key, value in selector.match_labels.items():
        for message in qualified_name(key):
            yield invalid(f"{path}.matchLabels", key, message)
        for message in label_value(value):
            yield invalid(f"{path}.matchLabels", value, message)
    for index, requirement in enumerate(selector.match_expressions):
        yield from _label_requirement(requirement, f"{path}.matchExpressions[{index}]")


def _label_requirement(requirement: LabelSelectorRequirement, path: str) -> Iterator[FieldError]:
    match requirement.operator:
        case "In" | "NotIn":
            if not requirement.values:
                yield required(f"{path}.values", _NEEDS_VALUES)
        case "Exists" | "DoesNotExist":
            if requirement.values:
                yield forbidden(f"{path}.values", _NEEDS_NO_VALUES)
        case _:
            yield invalid(f"{path}.operator", requirement.operator, "not a valid selector operator")
    for message in qualified_name(requirement.key):
        yield invalid(f"{path}.key", requirement.key, message)
    for index, value in enumerate(requirement.values):
        for message in label_value(value):
            yield invalid(f"{path}.values[{index}]", value, message)


def _field_requirement(requirement: LabelSelectorRequirement, path: str) -> Iterator[FieldError]:
    if requirement.key not in CLUSTER_FIELDS:
        yield unsupported(f"{path}.key", requirement.key, CLUSTER_FIELDS)
    if requirement.operator not in FIELD_OPERATORS:
        yield unsupported(f"{path}.operator", requirement.operator, FIELD_OPERATORS)
    elif not requirement.values:
        yield required(f"{path}.values", _NEEDS_VALUES)
