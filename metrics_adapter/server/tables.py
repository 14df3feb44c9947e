"""metav1.Table of metrics, laid out as metrics-server's: name, one column for each resource, window.

The first item's resources, sorted, are the columns. A pod's row is the sum of its containers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fedhpa.api.json import InvalidJson, decode_json
from fedhpa.api.quantity import Quantity
from fedhpa.api.wire import RawQuantity
from metrics_adapter.members.custom_metrics import add_quantities
from metrics_adapter.members.resource_metrics import Item

Usage = dict[str, RawQuantity]


class _Container(msgspec.Struct, frozen=True, gc=False):
    usage: Usage | None = None


class _TableItem(msgspec.Struct, frozen=True, gc=False):
    metadata: msgspec.Raw
    window: str | None = None
    containers: list[_Container] | None = None
    usage: Usage | None = None


# Shown for an item that cannot be decoded, as kubectl does.
UNKNOWN = "<unknown>"


def table(items: Sequence[Item], kind: str, api_version: str, include: str, *, single: bool) -> bytes:
    """Returns the Table of items. `include` is the request's includeObject: None, Metadata (or "") or Object.

    The Table of an empty list has neither columns nor rows, so that kubectl prints "No resources found".
    """
    decoded = [_decode(item) for item in items]
    names: list[str] = next((sorted(_total(entry)) for entry in decoded if entry.window != UNKNOWN), [])
    rows: list[object] = []
    for item, metrics in zip(items, decoded, strict=True):
        usage = _total(metrics)
        cells = [item.name, *(str(usage.get(name, Quantity(0))) for name in names), metrics.window or "0s"]
        if metrics.window == UNKNOWN:
            cells[1:] = [UNKNOWN] * (len(names) + 1)
        row: dict[str, object] = {"cells": cells}
        shown = _object(item, metrics, kind, api_version, include)
        if shown is not None:
            row["object"] = shown
        rows.append(row)
    answer: dict[str, object] = {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": _columns(names) if rows else None,
        "rows": rows if rows or single else None,
    }
    return msgspec.json.encode(answer)


def _decode(item: Item) -> _TableItem:
    try:
        return decode_json(item.json, _TableItem)
    except InvalidJson:
        metadata = msgspec.json.encode({"name": item.name, "namespace": item.namespace})
        return _TableItem(msgspec.Raw(metadata), window=UNKNOWN)


def _total(metrics: _TableItem) -> dict[str, Quantity]:
    usages: Iterable[Usage | None] = (
        [container.usage for container in metrics.containers] if metrics.containers else [metrics.usage]
    )
    total: dict[str, Quantity] = {}
    for usage in usages:
        for name, value in (usage or {}).items():
            amount = Quantity.parse(value)  # Validated when the answer arrived: `usage_validation`.
            known = total.get(name)
            total[name] = amount if known is None else add_quantities(known, amount)
    return total


def _object(
    item: Item, metrics: _TableItem, kind: str, api_version: str, include: str
) -> dict[str, object] | None:
    if include == "None":
        return None
    if include == "Object":
        whole = decode_json(item.json, dict[str, msgspec.Raw])
        return {"kind": kind, "apiVersion": api_version, **whole}
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metrics.metadata}


def _columns(names: Sequence[str]) -> list[dict[str, object]]:
    def column(name: str, format: str, description: str = "") -> dict[str, object]:
        return {
            "name": name,
            "type": "string",
            "format": format,
            "description": description,
            "priority": 0,
        }

    return [
        column("Name", "name", "Name of the resource"),
        *(column(name, "quantity") for name in names),
        column("Window", "duration"),
    ]
