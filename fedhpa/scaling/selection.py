"""The listed pods and the usage that belong to a workload.

The controller keeps the same selection up to date from its watches (`controller.federatedhpa.pod_index`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fedhpa.api.selectors import Selector
from fedhpa.scaling.records import PodRecord, UsageRecord


class SelectedPods(NamedTuple):
    """The pods of one workload in one cluster, and the names of its namespace's other listed pods."""

    pods: tuple[PodRecord, ...] = ()
    others: frozenset[str] = frozenset()


def select_pods(pods: Sequence[PodRecord], namespace: str, selector: Selector) -> SelectedPods:
    """Splits the pods of a namespace by a selector. Pods of other namespaces are left out.

    Namespace "" takes pods of every namespace. A pod without a namespace is taken as one of `namespace`.
    """
    selected: list[PodRecord] = []
    others: set[str] = set()
    labels: Mapping[str, str] | None = None
    place: str | None = None
    listed = matches = False
    for pod in pods:
        # The pods of a workload follow each other in a list and share one label set and one namespace.
        if pod.labels is not labels or pod.namespace is not place:
            labels, place = pod.labels, pod.namespace
            listed = not namespace or not place or place == namespace
            matches = selector.matches(labels)
        if listed and matches:
            selected.append(pod)
        elif listed:
            others.add(pod.name)
    if others:
        others.difference_update(pod.name for pod in selected)
    return SelectedPods(tuple(selected), frozenset(others))


def select_usage(
    records: Sequence[UsageRecord], namespace: str, selector: Selector, selected: SelectedPods
) -> tuple[UsageRecord, ...]:
    """The usage of the selected pods, and of pods that are not listed but would be selected.

    A record of an unlisted pod is selected by its own labels; one without labels is taken.
    """
    if namespace:
        records = [record for record in records if record.namespace in ("", namespace)]
    names = {pod.name for pod in selected.pods}
    unlisted = {record.name: record.labels for record in records if record.name not in names}
    if not unlisted:
        return tuple(records)
    names.update(
        name
        for name, labels in unlisted.items()
        if name not in selected.others and (labels is None or selector.matches(labels))
    )
    return tuple([record for record in records if record.name in names])
