"""Clients get a readable response and the names of the missing members, for any bytes that members send."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.adapter_under_test import (
    MEMBERS,
    Answered,
    Target,
    http,
    nothing_goes_wrong,
    running_target,
)
from tests.support.nightly import examples

TARGETS = st.sampled_from(
    [
        "/apis/metrics.k8s.io/v1beta1/pods",
        "/apis/metrics.k8s.io/v1beta1/pods?labelSelector=app%3Dweb",
        "/apis/metrics.k8s.io/v1beta1/pods?fieldSelector=metadata.name%3Dweb",
        "/apis/metrics.k8s.io/v1beta1/nodes",
        "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods/web",
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/*/hits",
        "/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop/services/web/hits?aggregation=Max",
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/depth",
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/depth?labelSelector=a%3Db",
    ]
)
FORMS = st.sampled_from(
    [b"", b"Accept: application/json;as=Table;g=meta.k8s.io;v=v1\r\n", b"Accept: application/yaml\r\n"]
)

NASTY = st.sampled_from(
    [
        "\r\nSet-Cookie: a=b",
        '"',
        "\\",
        "\0\x07\x1b[31m\x7f",
        "é\u2028\U0001f4a3",
        "x" * 20_000,
        "299 -",
        "",
        " ",
        "\ud800",
    ]
)
TEXT = st.text(max_size=6) | NASTY.map(lambda text: "x" * 20_000 if text == "LONG" else text)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(["web", "web", "web-2"]) | TEXT
STAMPS = st.sampled_from(["2026-03-11T12:00:00Z", "0001-01-01T00:00:00+23:59", "then", None]) | ANY
AMOUNTS = st.sampled_from(["1", "250m", "1Ki", "-1", "NaN", "1e400", "9" * 1000 + "E", 5, None]) | ANY
LABELS = (
    st.dictionaries(st.sampled_from(["app", "cluster", "exported_cluster"]) | TEXT, TEXT, max_size=2) | ANY
)
METADATA = st.fixed_dictionaries(
    {"name": NAMES, "namespace": st.just("shop") | NAMES},
    optional={"labels": LABELS, "annotations": LABELS},
)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES, "usage": st.fixed_dictionaries({"cpu": AMOUNTS, "memory": AMOUNTS}) | ANY}
    ),
    max_size=2,
)
USAGE = st.fixed_dictionaries(
    {"metadata": METADATA, "timestamp": STAMPS, "window": st.just("15s") | ANY},
    optional={
        "containers": CONTAINERS | ANY,
        "usage": st.fixed_dictionaries({"cpu": AMOUNTS}) | ANY,
        "kind": ANY,
    },
)
DESCRIBED = st.fixed_dictionaries(
    {"kind": st.sampled_from(["Pod", "Service"]), "name": NAMES},
    optional={"namespace": NAMES, "apiVersion": NAMES},
)
VALUE = st.fixed_dictionaries(
    {"value": AMOUNTS, "timestamp": STAMPS},
    optional={
        "describedObject": DESCRIBED | ANY,
        "metric": st.fixed_dictionaries({"name": NAMES}, optional={"selector": ANY}) | ANY,
        "metricName": NAMES,
        "metricLabels": LABELS,
        "window": ANY,
        "windowSeconds": ANY,
    },
)
LIST = st.fixed_dictionaries(
    {
        "items": st.lists(USAGE | VALUE, max_size=3) | ANY,
        "kind": st.sampled_from(["PodMetricsList", "NodeMetricsList", "MetricValueList"]) | ANY,
        "apiVersion": st.sampled_from(["metrics.k8s.io/v1beta1", "custom.metrics.k8s.io/v1beta2"]) | ANY,
    },
    optional={"metadata": ANY},
)
GROUP = st.fixed_dictionaries(
    {
        "kind": st.just("APIGroup") | ANY,
        "apiVersion": st.just("v1") | ANY,
        "versions": st.lists(
            st.fixed_dictionaries({"version": st.sampled_from(["v1beta1", "v1beta2"])}) | ANY, max_size=2
        ),
    }
)
STATUS = st.fixed_dictionaries(
    {"kind": st.just("Status"), "message": TEXT, "reason": st.sampled_from(["NotFound", "Forbidden"]) | TEXT}
)


def coded(content: Any) -> bytes:
    return json.dumps(content).encode("utf-8", "surrogatepass")


BODIES = (LIST | USAGE | GROUP | STATUS | ANY).map(coded) | st.binary(max_size=30)
CODES = st.sampled_from(
    [200, 200, 200, 201, 204, 301, 302, 307, 308, 400, 401, 403, 404, 404, 409, 410, 429, 500, 503, 504, 999]
)
MORE = st.sampled_from(
    [
        b"",
        b"Location: http://127.0.0.1:1/\r\n",
        b"Retry-After: 0\r\n",
        b"Content-Encoding: gzip\r\n",
        b'Warning: 299 - "x"\r\n',
    ]
)
WELL_FORMED = st.builds(http, BODIES, CODES, MORE)
CUT = st.tuples(WELL_FORMED, st.integers(0, 200)).map(lambda pair: pair[0][: pair[1]])
MEMBER_ANSWERS = WELL_FORMED | CUT | st.binary(max_size=20)

WARNING = re.compile(r'299 - "(?:[ !#-\[\]-~]|\\["\\])*"')
LONGEST_WARNING = 1024


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[asyncio.Runner, Target]]:
    with running_target() as made:
        yield made


def told(answer: Answered) -> list[str]:
    """Returns the members that did not answer, from the warnings. All warnings must be readable."""
    for warning in answer.warnings:
        assert WARNING.fullmatch(warning)
        assert len(warning) <= LONGEST_WARNING
    return [warning.split('"')[1].split(" ")[0] for warning in answer.warnings]


@settings(max_examples=examples(80, 20_000))
@given(TARGETS, FORMS, MEMBER_ANSWERS, MEMBER_ANSWERS)
def test_members_cannot_spoil_an_answer(
    running: tuple[asyncio.Runner, Target], asked: str, form: bytes, first: bytes, second: bytes
) -> None:
    """A readable 200, 404 or 409, or 503 if no member answered. Members control no header."""
    runner, adapter = running
    adapter.members_answer(first, second)
    with nothing_goes_wrong():
        answer = runner.run(adapter.get(asked, form))

    assert answer.status in (200, 404, 409, 503)
    assert set(told(answer)) <= set(MEMBERS)
    assert {name for name, _ in answer.headers} <= {
        "content-type",
        "cache-control",
        "content-length",
        "date",
        "server",
        "transfer-encoding",
        "warning",
    }
    if answer.status != 200:
        assert answer.json["kind"] == "Status"
        assert answer.json["code"] == answer.status
        assert len(answer.body) < 16 * 1024
    elif b"yaml" not in form:
        assert "kind" in answer.json
    if answer.status == 503:
        assert "no member cluster answered" in answer.json["message"]
