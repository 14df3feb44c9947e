"""PodMetricsLists and NodeMetricsLists written in one piece, to compare with what the adapter sends."""

from __future__ import annotations

from collections.abc import Iterable

from metrics_adapter.apis import API_VERSION, MetricsKind
from metrics_adapter.members.resource_metrics import Item, MemberItems, all_items


def encode_list(kind: MetricsKind, items: Iterable[Item]) -> bytes:
    """Returns the JSON of a list of all items."""
    head = f'{{"kind":"{kind.kind}List","apiVersion":"{API_VERSION}","metadata":{{}},"items":['
    return b"".join((head.encode(), b",".join([item.json for item in items]), b"]}"))


def items_of(*answers: MemberItems) -> list[Item]:
    """Returns the items of all answers."""
    return [item for part in all_items(answers) for item in part]
