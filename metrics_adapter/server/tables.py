"""metav1.Table of metrics, as metrics-server prints them: name, one column a resource, window.

The columns are those of the first item's resources, sorted; a pod's row sums its containers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from fedhpa.api.quantity import Quantity
from fedhpa.api.wire import RawQuantity
from metrics_adapter.members.items import Item
from metrics_adapter.members.values import add

Usage = dict[str, RawQuantity]


class _Container(msgspec.Struct, frozen=True, gc=False):
    usage: Usage | None = None


class _Measured(msgspec.Struct, frozen=True, gc=False):
    metadata: msgspec.Raw
    window: str | None = None
    containers: list[_Container] | None = None
    usage: Usage | None = None


_DECODE = msgspec.json.Decoder(_Measured).decode
# Where a member's item is not what it should be: as kubectl shows what it cannot read.
UNKNOWN = "<unknown>"


def table(items: Sequence[Item], kind: str, api_version: str, include: str, *, single: bool) -> bytes:
    """The Table of items. `include` is the request's includeObject: None, Metadata ("" too) or Object.

    An empty list has neither columns nor rows, from which kubectl prints "No resources found".
    """
    measured = [_measured(item) for item in items]
    names: list[str] = next((sorted(_total(found)) for found in measured if found.window != UNKNOWN), [])
    rows: list[object] = []
    for item, metrics in zip(items, measured, strict=True):
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


def _measured(item: Item) -> _Measured:
    try:
        return _DECODE(item.json)
    except msgspec.DecodeError:
        metadata = msgspec.json.encode({"name": item.name, "namespace": item.namespace})
        return _Measured(msgspec.Raw(metadata), window=UNKNOWN)


def _total(metrics: _Measured) -> dict[str, Quantity]:
    usages: Iterable[Usage | None] = (
        [container.usage for container in metrics.containers] if metrics.containers else [metrics.usage]
    )
    total: dict[str, Quantity] = {}
    for usage in usages:
        for name, value in (usage or {}).items():
            amount = Quantity.parse(value)  # checked when it came: `usage`
            known = total.get(name)
            total[name] = amount if known is None else add(known, amount)
    return total


def _object(
    item: Item, metrics: _Measured, kind: str, api_version: str, include: str
) -> dict[str, object] | None:
    if include == "None":
        return None
    if include == "Object":
        whole = msgspec.json.decode(item.json, type=dict[str, msgspec.Raw])
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
