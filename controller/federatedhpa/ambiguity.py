"""Two autoscalers whose workloads share pods would fight; both must know (Kubernetes HPA 1.36)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fedhpa.api.selectors import Selector

Key = tuple[str, str]


def rivals(
    key: Key,
    labels: Mapping[str, Iterable[Mapping[str, str]]],
    selectors: Mapping[Key, Mapping[str, Selector]],
) -> tuple[str, ...]:
    """The autoscalers (namespace/name, this one included) that select pods of `key`; empty if it is alone.

    `labels` are the sets of labels that its pods have, by cluster; `selectors` everybody's, by object and
    cluster.
    """
    namespace = key[0]
    others = [other for other in selectors if other != key and other[0] == namespace]
    if not others:
        return ()
    found: set[Key] = set()
    for cluster, label_sets in labels.items():
        for other in others:
            selector = selectors[other].get(cluster)
            if selector is not None and any(selector.matches(own) for own in label_sets):
                found.add(other)
    if not found:
        return ()
    return tuple(sorted(f"{one[0]}/{one[1]}" for one in (*found, key)))
