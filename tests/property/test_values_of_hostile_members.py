"""Every body of a member is either refused or served in a form that every client can read."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fedhpa.api.errors import FedHPAError
from fedhpa.api.quantity import Quantity
from fedhpa.api.times import parse_time
from metrics_adapter.members.custom_metrics import (
    AGGREGATIONS,
    decode_values,
    encode_values,
    merge_values,
    sort_values,
)
from metrics_adapter.members.external_metrics import (
    ClusterValues,
    decode_external_values,
    encode_external_values,
)

TEXT = st.text(max_size=6)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
TIMES = st.sampled_from(
    ["2026-03-11T12:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-03-11", None]
)
AMOUNTS = st.sampled_from(
    ["1", "250m", "1Ki", "-1", "NaN", "1e400", "9" * 1000 + "E", "0.0000000001", 5, 0.5]
)
LABELS = st.none() | st.dictionaries(TEXT, TEXT, max_size=2) | ANY
SELECTORS = st.none() | st.fixed_dictionaries({"matchLabels": LABELS}) | ANY
NAMES = st.sampled_from(["a", "b"]) | ANY
DESCRIBED = st.fixed_dictionaries(
    {"kind": st.just("Service"), "name": NAMES}, optional={"namespace": NAMES, "apiVersion": NAMES}
)
VALUES = st.fixed_dictionaries(
    {"describedObject": DESCRIBED | ANY, "value": AMOUNTS | ANY, "timestamp": TIMES},
    optional={
        "metric": st.fixed_dictionaries({"name": NAMES}, optional={"selector": SELECTORS}) | ANY,
        "metricName": NAMES,
        "selector": SELECTORS,
        "window": st.integers(-1, 2**70) | ANY,
        "windowSeconds": st.integers(-1, 2**70) | ANY,
    },
)
SERIES = st.fixed_dictionaries(
    {"value": AMOUNTS | ANY, "timestamp": TIMES},
    optional={"metricName": NAMES, "metricLabels": LABELS, "window": st.integers(-1, 2**70) | ANY},
)


def body(kind: str, api_version: str, items: Any) -> bytes:
    return json.dumps({"kind": kind, "apiVersion": api_version, "items": items}).encode()


def readable(item: dict[str, Any]) -> bool:
    """Checks the types of Go's structs."""
    window = item.get("window", item.get("windowSeconds", 0))
    return (
        isinstance(item["value"], str)
        and Quantity.parse(item["value"]).nano >= 0
        and (item["timestamp"] is None or parse_time(item["timestamp"]) is not None)
        and 0 <= window < 2**63
    )


@given(st.lists(VALUES, max_size=3) | ANY, st.sampled_from(["v1beta1", "v1beta2"]))
def test_custom_values_come_out_readable(items: Any, version: str) -> None:
    """This holds for one cluster, and for the values of two clusters in each aggregation."""
    try:
        values = decode_values(body("MetricValueList", f"custom.metrics.k8s.io/{version}", items))
    except (FedHPAError, ValueError):
        return
    for found in (sort_values([values]), *(merge_values([values, values], name) for name in AGGREGATIONS)):
        written = json.loads(encode_values(found, version))["items"]

        assert len(written) == len(found) == len(values)
        assert all(readable(item) for item in written)


@given(st.lists(SERIES, max_size=3) | ANY)
def test_external_values_come_out_readable(items: Any) -> None:
    """Labels are strings, and each value has its cluster."""
    try:
        answer = body("ExternalMetricValueList", "external.metrics.k8s.io/v1beta1", items)
        series = decode_external_values(answer)
    except (FedHPAError, ValueError):
        return
    written = json.loads(encode_external_values([ClusterValues("m1", series)], "depth"))["items"]

    assert len(written) == len(series)
    assert all(readable(item) and item["metricLabels"]["cluster"] == "m1" for item in written)
    assert all(isinstance(text, str) for item in written for text in item["metricLabels"].values())
