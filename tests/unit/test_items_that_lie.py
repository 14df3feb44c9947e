"""An invalid item costs its member the answer, or its own row the cells, and affects nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.api.selectors import parse_selector
from metrics_adapter.members.resource_metrics import decode_list, decode_one
from metrics_adapter.server.tables import ROWS, column_names, table
from tests.support.metrics_lists import items_of

HEAD = {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1"}
WELL = {
    "metadata": {"name": "well", "namespace": "shop"},
    "window": "15s",
    "containers": [{"name": "app", "usage": {"cpu": "1", "memory": "2Ki"}}],
}


def item(**fields: Any) -> dict[str, Any]:
    return {**WELL, "metadata": {"name": "odd", "namespace": "shop"}, **fields}


@pytest.mark.parametrize("include", ["", "None", "Object"])
def test_a_table_shows_what_it_cannot_read_as_unknown(include: str) -> None:
    """Only the item's own row shows it, and never as a number."""
    body = json.dumps({**HEAD, "items": [WELL, item(window=[])]}, separators=(",", ":")).encode()
    items = items_of(decode_list(body, "m1"))
    rows = json.loads(table(items, "PodMetrics", "metrics.k8s.io/v1beta1", include, single=False))["rows"]

    assert sorted(row["cells"] for row in rows) == [
        ["odd", "<unknown>", "<unknown>", "<unknown>"],
        ["well", "1", "2Ki", "15s"],
    ]


async def test_labels_that_are_none_cost_the_member_the_answer() -> None:
    """The member is reported as missing, with the reason."""
    odd = item(metadata={"name": "odd", "namespace": "shop", "labels": {"a": 7}})
    found = decode_list(json.dumps({**HEAD, "items": [odd]}, separators=(",", ":")).encode(), "m1")

    with pytest.raises(MetricsUnavailable, match="cannot be read"):
        await found.select(parse_selector("a"))


def test_bytes_that_are_no_text_cost_the_member_the_answer() -> None:
    """This includes bytes that no decoder reads."""
    odd = json.dumps(item(other="\ud800"), ensure_ascii=False).encode("utf-8", "surrogatepass")

    with pytest.raises(MetricsUnavailable, match="cannot be read"):
        decode_list(json.dumps({**HEAD, "items": [0]}).encode().replace(b"[0]", b"[" + odd + b"]"), "m1")
    with pytest.raises(MetricsUnavailable, match="cannot be read"):
        decode_one(odd, "m1")


def test_a_table_of_nothing_that_can_be_read_ends_the_search_for_columns() -> None:
    """A member may spoil each of 150,000 items, and to decode them all would hold the event loop."""
    body = json.dumps({**HEAD, "items": [item(window=7)]}, separators=(",", ":")).encode()
    items = iter(items_of(decode_list(body, "m1")) * 10_000)

    assert column_names(items) == []
    assert len(list(items)) == 10_000 - ROWS
