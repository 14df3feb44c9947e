"""Every request to the adapter is answered, and never with an internal error."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.adapter_under_test import Answered, Target, http, nothing_goes_wrong, running_target
from tests.support.nightly import examples

# The parts "", apis and GROUP of a path: a member serves these groups.
OWN_DISCOVERY = 3

WORDS = [
    "apis",
    "metrics.k8s.io",
    "custom.metrics.k8s.io",
    "external.metrics.k8s.io",
    "v1beta1",
    "v1beta2",
    "namespaces",
    "pods",
    "nodes",
    "services",
    "metrics",
    "shop",
    "web",
    "*",
    "hits",
    "depth",
    "openapi",
    "v3",
    "v2",
    "version",
    "healthz",
    "livez",
    "readyz",
    "..",
    ".",
    "%2e%2e",
    "%2F",
    "%2A",
    "%00",
    "%ff",
    "%",
    "%zz",
]
BASES = (
    "/apis/metrics.k8s.io/v1beta1/pods",
    "/apis/metrics.k8s.io/v1beta1/nodes",
    "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods",
    "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods/web",
    "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/*/hits",
    "/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop/services/web/hits",
    "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/metrics/hits",
    "/apis/custom.metrics.k8s.io/v1beta2/nodes/*/hits",
    "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/depth",
    *["/apis", "/apis/metrics.k8s.io", "/apis/metrics.k8s.io/v1beta1", "/apis/custom.metrics.k8s.io/v1beta2"],
    *[
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/apis/metrics.k8s.io/v1beta1",
        "/version",
        "/metrics",
        "/healthz",
        "/",
    ],
)
HOSTILE = st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=12)
RAW_SEGMENTS = HOSTILE.map(lambda text: "".join(char for char in text if char not in " /?#"))
ODD_SEGMENTS = RAW_SEGMENTS | HOSTILE.map(lambda text: quote(text, safe="")) | st.text(max_size=5).map(quote)
SEGMENTS = st.sampled_from([*WORDS, ""]) | ODD_SEGMENTS
BUILT = st.lists(SEGMENTS, max_size=9).map(lambda parts: "/" + "/".join(parts))
STEMS = st.sampled_from(BASES)
TAILS = st.sampled_from(["", "/", "//", "/..", "/%2e%2e/", "/.", ";a=b", "/x/y/z"])
EXTENDED = st.tuples(STEMS, TAILS).map("".join)
PATHS = STEMS | BUILT | EXTENDED

SELECTOR_WORDS = [
    *["app", "=", "==", "!=", "web", ",", "(", ")", "!", ">", "<", "1", "a/b", "cluster", "m1", "é"],
    " in ",
    " notin ",
    "\n",
]
SELECTORS = st.lists(st.sampled_from(SELECTOR_WORDS), max_size=8).map("".join)
KEYS = [
    "labelSelector",
    "fieldSelector",
    "metricLabelSelector",
    "cluster",
    "aggregation",
    "watch",
    "limit",
    "continue",
    "includeObject",
    "resourceVersion",
    "timeoutSeconds",
    "pretty",
]
PLAIN_VALUES = ["true", "1", "Sum", "Max", "m1", "Object", "None", "metadata.name=web", "9" * 30]
VALUES = SELECTORS | st.sampled_from(PLAIN_VALUES) | st.text(max_size=6)
KEYS_OR_ODD = st.sampled_from(KEYS) | st.text(max_size=4)
PAIRS = st.tuples(KEYS_OR_ODD, VALUES).map(lambda pair: f"{quote(pair[0])}={quote(pair[1])}")
QUERIES = st.lists(PAIRS, max_size=3).map("&".join) | HOSTILE.map(lambda text: text.replace(" ", "+"))
TARGETS = st.tuples(PATHS, QUERIES).map(lambda pair: pair[0] + ("?" + pair[1] if pair[1] else ""))

OTHER_METHODS = ["HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"]
METHODS = st.sampled_from(["GET"] * 12 + OTHER_METHODS)
NAMES = [
    "Accept",
    "X-Remote-User",
    "X-Remote-Group",
    "X-Remote-Extra-a%2f%zz",
    "Authorization",
    "Impersonate-User",
    "Expect",
    "Upgrade",
    "Connection",
    "Accept-Encoding",
    "If-None-Match",
    "Range",
    "Cookie",
    "X_Remote_User",
    "Content-Type",
]
MEDIA = [
    "application/json",
    "application/yaml",
    "*/*",
    "text/html",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    ";",
    "q=",
    ",,",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "application/json;q=nan",
    "100-continue",
    "websocket",
    "close",
]
HEADERS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(MEDIA) | HOSTILE), max_size=4)
BODIES = st.just(b"\r\n") | st.sampled_from([
    b"\r\n",
    b"Content-Length: 2\r\n\r\n{}",
    b"Content-Length: 100000000\r\n\r\n{",
    b"Content-Length: -1\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    b"Transfer-Encoding: gzip\r\n\r\n",
])  # fmt: skip

NAMED = re.compile(r"/apis/metrics\.k8s\.io/[^/]+(?:/namespaces/(?P<namespace>[^/]*))?/[^/]+/(?P<name>[^/]*)")


SERVED = [{"version": "v1beta2"}]


def served(target: str) -> bytes:
    """Returns a member's answer: an empty list, the metrics of the requested name, or discovery.

    A member that answered for another name would count as missing.
    """
    found = NAMED.fullmatch(target.partition("?")[0])
    of = {key: unquote(value) for key, value in (found.groupdict() if found else {}).items() if value}
    measured = {"metadata": of, "timestamp": "2026-03-11T12:00:00Z", "window": "1s", "containers": []}
    group, _, rest = target.removeprefix("/apis/").partition("/")
    kinds = {"custom.metrics.k8s.io": "MetricValueList", "external.metrics.k8s.io": "ExternalMetricValueList"}
    kind = kinds.get(group, "NodeMetricsList" if "/nodes" in target else "PodMetricsList")
    version = rest.partition("/")[0] if group in kinds else "v1beta1"
    if "/" not in rest.partition("?")[0]:
        discovery = (
            {"kind": "APIResourceList", "resources": []} if rest else {"kind": "APIGroup", "versions": SERVED}
        )
        return http(json.dumps({**discovery, "apiVersion": "v1"}).encode())
    head = {"kind": kind, "apiVersion": f"{group if group in kinds else 'metrics.k8s.io'}/{version}"}
    return http(json.dumps({**head, "items": [], **measured}).encode())


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[asyncio.Runner, Target]]:
    with running_target() as made:
        yield made


def is_told(answer: Answered) -> bool:
    """Returns True if a failure has the form that Kubernetes' clients read."""
    found = json.loads(answer.body)
    return found["kind"] == "Status" and found["code"] == answer.status and isinstance(found["message"], str)


def written(method: str, asked: str, headers: list[tuple[str, str]], body: bytes) -> bytes:
    """Returns a request as bytes on the wire. A target with blanks is invalid."""
    lines = [f"{method} {asked.replace(' ', '%20')} HTTP/1.1", "Host: adapter"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "".join(line + "\r\n" for line in lines).encode("latin-1", "replace") + body


@settings(max_examples=examples(100, 20_000))
@given(METHODS, TARGETS, HEADERS, BODIES)
def test_every_request_is_answered(
    running: tuple[asyncio.Runner, Target],
    method: str,
    asked: str,
    headers: list[tuple[str, str]],
    body: bytes,
) -> None:
    """No 5xx and no redirect. Failures are a Status, no error is logged, and members see only GETs."""
    runner, adapter = running
    adapter.members_answer(served, served)
    with nothing_goes_wrong():
        answer = runner.run(adapter.send(written(method, asked, headers, body)))

    assert answer.status < 300 or 400 <= answer.status < 500
    if answer.status >= 400 and method != "HEAD" and not asked.startswith(("/healthz", "/livez", "/readyz")):
        assert is_told(answer)
    if method not in ("GET", "HEAD"):
        assert answer.status >= 400
        assert adapter.asked == []


@settings(max_examples=examples(100, 20_000))
@given(BUILT | EXTENDED, QUERIES)
def test_members_are_asked_for_what_was_reviewed(
    running: tuple[asyncio.Runner, Target], path: str, query: str
) -> None:
    """A user of one namespace causes member requests for that namespace alone, in any spelling."""
    runner, adapter = running
    adapter.members_answer(served, served)
    with nothing_goes_wrong():
        answer = runner.run(adapter.send(written("GET", f"{path}?{query}", [], b"\r\n")))
    found = [asked.partition("?")[0].split("/") for asked in adapter.asked]

    for parts in found:
        (reviewed,) = answer.reviewed
        if len(parts) == OWN_DISCOVERY:
            continue
        inside = unquote(parts[5]) if parts[4] == "namespaces" else ""
        assert (parts[2], inside) == (reviewed.group, reviewed.namespace)
        assert not {"", ".", ".."} & set(parts[1:])
