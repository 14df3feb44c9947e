"""metav1.Table of metrics, laid out as metrics-server's: name, one column for each resource, window.

The first item's resources, sorted, are the columns. A pod's row is the sum of its containers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

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
ZERO = Quantity(0)
META_V1 = "meta.k8s.io/v1"
# Rows rendered in one go, and items among which one with usage is looked for. A row costs 25 us.
ROWS = 256


@dataclass(frozen=True)
class Columns:
    """Describes the rows of a Table: kind, version and `include` (includeObject) of the objects, and usage.

    `include` is None, Metadata (or "") or Object. `names` are the resources, in the order of the columns.
    `meta` is the apiVersion of the Table.
    """

    kind: str
    api_version: str
    include: str
    names: Sequence[str]
    meta: str = META_V1


def column_names(items: Iterable[Item]) -> list[str]:
    """Returns the resources of the first item that can be decoded, sorted. A member may send none."""
    decoded = map(_decode, islice(items, ROWS))
    return next((sorted(_total(entry)) for entry in decoded if entry.window != UNKNOWN), [])


def table(
    items: Sequence[Item], kind: str, api_version: str, include: str, *, single: bool, meta: str = META_V1
) -> bytes:
    """Returns the Table of a few items at once."""
    columns = Columns(kind, api_version, include, column_names(items), meta)
    return b"".join(table_parts([items], columns, single=single))


def table_parts(parts: Iterable[Sequence[Item]], columns: Columns, *, single: bool) -> Iterator[bytes]:
    """Yields the JSON of the Table of all items in pieces, each rendered in some milliseconds.

    The Table of an empty list has neither columns nor rows, so that kubectl prints "No resources found".
    """
    head = f'{{"kind":"Table","apiVersion":"{columns.meta}","metadata":{{}},"columnDefinitions":'.encode()
    begun = False
    for part in parts:
        for start in range(0, len(part), ROWS):
            rows = msgspec.json.encode([_row(item, columns) for item in part[start : start + ROWS]])
            definitions = b"" if begun else head + msgspec.json.encode(_columns(columns.names)) + b',"rows":['
            yield (b"," if begun else definitions) + rows[1:-1]
            begun = True
    if begun:
        yield b"]}"
    else:
        yield head + (b'null,"rows":[]}' if single else b'null,"rows":null}')


def _row(item: Item, columns: Columns) -> dict[str, object]:
    metrics = _decode(item)
    if metrics.window == UNKNOWN:
        cells = [item.name, *[UNKNOWN] * (len(columns.names) + 1)]
    else:
        usage = _total(metrics)
        amounts = [str(usage.get(name, ZERO)) for name in columns.names]
        cells = [item.name, *amounts, metrics.window or "0s"]
    shown = _object(item, metrics, columns)
    return {"cells": cells, "object": shown}


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


def _object(item: Item, metrics: _TableItem, columns: Columns) -> dict[str, object] | None:
    if columns.include == "None":
        return None
    if columns.include == "Object":
        whole = decode_json(item.json, dict[str, msgspec.Raw])
        return {"kind": columns.kind, "apiVersion": columns.api_version, **whole}
    return {"kind": "PartialObjectMetadata", "apiVersion": columns.meta, "metadata": metrics.metadata}


def metadata_parts(parts: Iterable[Sequence[Item]], meta: str) -> Iterator[bytes]:
    """Yields the JSON of the PartialObjectMetadataList of all items in pieces."""
    separator = (
        f'{{"kind":"PartialObjectMetadataList","apiVersion":"{meta}","metadata":{{}},"items":['.encode()
    )
    for part in parts:
        if part:
            yield separator + b",".join([item_metadata(item, meta) for item in part])
            separator = b","
    yield b"]}" if separator == b"," else separator + b"]}"


def item_metadata(item: Item, meta: str) -> bytes:
    """Returns the JSON of the PartialObjectMetadata of an item."""
    head = f'{{"kind":"PartialObjectMetadata","apiVersion":"{meta}","metadata":'
    return head.encode() + bytes(_decode(item).metadata) + b"}"


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
