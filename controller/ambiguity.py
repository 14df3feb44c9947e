"""Two autoscalers whose workloads share pods would fight; both must know (Kubernetes HPA 1.36)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fedhpa.api.selectors import Selector
from fedhpa.scaling.records import PodRecord

Key = tuple[str, str]


def rivals(
    key: Key,
    pods: Mapping[str, Iterable[PodRecord]],
    selectors: Mapping[Key, Mapping[str, Selector]],
) -> tuple[str, ...]:
    """The autoscalers (namespace/name, this one included) that select pods of `key`; empty if it is alone.

    `pods` are the object's own, by cluster; `selectors` everybody's, by object and cluster. Pods of one
    workload share one set of labels, so each set is looked at once.
    """
    namespace = key[0]
    others = [other for other in selectors if other != key and other[0] == namespace]
    if not others:
        return ()
    found: set[Key] = set()
    for cluster, members in pods.items():
        # Records share one mapping for equal labels: its identity tells the sets apart cheaply.
        label_sets = {id(pod.labels): pod.labels for pod in members}
        for other in others:
            selector = selectors[other].get(cluster)
            if selector is not None and any(selector.matches(labels) for labels in label_sets.values()):
                found.add(other)
    if not found:
        return ()
    return tuple(sorted(f"{one[0]}/{one[1]}" for one in (*found, key)))
