"""The adapter's responses: forms, Tables, warnings, and items as slices of the members' bytes."""

from __future__ import annotations

import json
import ssl
from functools import partial
from typing import Any

import pytest

from fedhpa.api.errors import InvalidObject, MetricsUnavailable
from fedhpa.api.selectors import parse_selector
from fedhpa.api.wire import CLUSTER_ANNOTATION
from fedhpa.serving.flags import common
from fedhpa.serving.flags.parsing import parse_flags
from metrics_adapter.apis import API_VERSION, KINDS, PODS
from metrics_adapter.members.resource_metrics import decode_list, decode_one
from metrics_adapter.server import openapi
from metrics_adapter.server.bodies import BodyCache, ListBody
from metrics_adapter.server.negotiation import Form, choose_form, discovery_version, warning_values
from metrics_adapter.server.responses import encode_item
from metrics_adapter.server.tables import table
from metrics_adapter.settings import FLAGS
from tests.support.metrics_lists import encode_list, items_of

HEAD = {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1"}


def listing(*items: dict[str, Any]) -> bytes:
    return json.dumps({**HEAD, "metadata": {}, "items": items}, separators=(",", ":")).encode()


def pod(name: str, namespace: str = "a", **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "timestamp": "2026-03-11T13:00:00Z",
        "window": "15s",
        "containers": [
            {"name": "app", "usage": {"cpu": "100m", "memory": "64Mi"}},
            {"name": "side", "usage": {"cpu": "5m", "memory": "8Mi"}},
        ],
    }


def test_an_item_is_passed_on_with_its_cluster() -> None:
    """Only the cluster annotation is added."""
    (item,) = items_of(decode_list(listing(pod("web", labels={"app": "web"}, custom=[1])), "m1"))

    assert json.loads(item.json) == pod(
        "web", labels={"app": "web"}, custom=[1], annotations={CLUSTER_ANNOTATION: "m1"}
    )


@pytest.mark.parametrize("annotations", [None, {}, {"a": "b"}, {CLUSTER_ANNOTATION: "another"}])
def test_the_annotation_is_put_into_the_present_ones(annotations: dict[str, str] | None) -> None:
    """The adapter overwrites a cluster annotation that a member sets."""
    (item,) = items_of(decode_list(listing(pod("web", annotations=annotations)), "m1"))

    expected = {**(annotations or {}), CLUSTER_ANNOTATION: "m1"}
    assert json.loads(item.json)["metadata"]["annotations"] == expected
    assert item.json.count(b'"annotations"') == 1


def test_kind_and_api_version_of_items_are_left_out() -> None:
    """The list names them. A single item gets them first."""
    body = json.dumps({"kind": "PodMetrics", "apiVersion": "x", **pod("web")}).encode()
    (item,) = items_of(decode_one(body, "m1"))

    assert set(json.loads(item.json)) == {"metadata", "timestamp", "window", "containers"}
    single = json.loads(encode_item(PODS, item))
    assert (single["kind"], single["apiVersion"]) == ("PodMetrics", "metrics.k8s.io/v1beta1")


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"items":{}}', b'{"items":[{}]}', b'{"items":[{"metadata":{"name":1}}]}', b"\xff"]
)
def test_rubbish_is_a_failure_not_an_empty_list(body: bytes) -> None:
    """A body that is not a list of named items is an error."""
    with pytest.raises(MetricsUnavailable, match="cannot be read"):
        decode_list(body, "m1")


@pytest.mark.parametrize("containers", [7, "web", {"a": 1}])
def test_an_item_without_usage_is_checked_too(containers: object) -> None:
    """kubectl reads no list in which one item has containers of another type.

    The others have two containers each, so that there is more usage than items.
    """
    for others in ((), (pod("b"), pod("c"))):
        with pytest.raises(MetricsUnavailable, match="cannot be read"):
            decode_list(listing(*others, {**pod("a"), "containers": containers}), "m1")


@pytest.mark.parametrize(
    "annotations",
    [
        '{"resource.karmada.io/query-from-cluster":"m9"}',
        '{"resource.karmada.io\\u002fquery-from-cluster":"m9"}',
        "null",
    ],
)
def test_fields_that_are_there_twice_deceive_nobody(annotations: str) -> None:
    """The last one counts for clients, so a member's own annotations are read, also if they come second."""
    body = listing(pod("a"), pod("b")).replace(
        b'"name":"b"', b'"name":"b","annotations":' + annotations.encode()
    )
    items = items_of(decode_list(body, "m1"))

    assert [json.loads(item.json)["metadata"]["annotations"][CLUSTER_ANNOTATION] for item in items] == [
        "m1",
        "m1",
    ]


def test_containers_that_are_there_twice_are_both_checked() -> None:
    """Clients in Go read both."""
    body = listing(pod("a"), pod("b")).replace(b'"window":"15s"', b'"containers":7')

    with pytest.raises(MetricsUnavailable, match="cannot be read"):
        decode_list(body, "m1")


@pytest.mark.parametrize("items", [None, []])
def test_an_empty_list_is_empty(items: list[Any] | None) -> None:
    """Go servers send null for an empty list."""
    assert items_of(decode_list(json.dumps({**HEAD, "items": items}).encode(), "m1")) == []


def test_items_of_a_member_stay_together() -> None:
    """Items are listed by cluster, in the order of the member. Items with equal names stay separate."""
    first = decode_list(listing(pod("b", "z"), pod("a", "z"), pod("a", "b")), "m1")
    second = decode_list(listing(pod("a", "z")), "m2")

    listed = [(item.cluster, item.namespace, item.name) for item in items_of(first, second)]
    assert listed == [("m1", "z", "b"), ("m1", "z", "a"), ("m1", "b", "a"), ("m2", "z", "a")]


HEAD_BYTES = b'{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":['
A, B, D = (b'{"metadata":{"name":"%s"},"containers":[]}' % name for name in (b"a", b"b", b"d"))
# An unknown field in which another item seems to begin.
NESTED = b'{"metadata":{"name":"a"},"x":[{"y":1},{"metadata":{"name":"c"}}],"containers":[]}'


@pytest.mark.parametrize(
    "body",
    [
        HEAD_BYTES + A + b"," + B + b"]}\n",
        HEAD_BYTES + A.replace(b'"a"', b'"a","annotations":{"k":"v"}') + b"," + B + b"]}",
        HEAD_BYTES + b"]}",
        HEAD_BYTES + A + b", " + B + b"]}",
        HEAD_BYTES + A + b"," + B + b'],"metadata":{}}',
        HEAD_BYTES + A + b"," + B + b'],"x":[{"a":[{}]}]}',
        HEAD_BYTES + NESTED + b", " + B + b"]}",
        HEAD_BYTES + NESTED + b"," + B.replace(b'":', b'" :', 1) + b"," + D + b"]}",
        HEAD_BYTES + A.replace(b"{}", b"").replace(b'"a"', b'"\\u0061"') + b"]}",
        HEAD_BYTES.replace(b"{},", b'{"items":[{"metadata":{}}]},') + A + b"]}",
    ],
)
def test_items_are_cut_only_where_they_begin(body: bytes) -> None:
    """Each item is a JSON object with the content that was sent, whatever seems to begin within it."""
    items = items_of(decode_list(body, "m1"))
    sent = json.loads(body)["items"]

    assert [item.name for item in items] == [one["metadata"]["name"] for one in sent]
    for item, one in zip(items, sent, strict=True):
        annotations = {**one["metadata"].get("annotations", {}), CLUSTER_ANNOTATION: "m1"}
        assert json.loads(item.json) == {**one, "metadata": {**one["metadata"], "annotations": annotations}}


async def test_labels_select() -> None:
    """The selector is applied to the labels of the items."""
    answer = decode_list(
        listing(pod("a", labels={"app": "x"}), pod("b", labels={"app": "y"}), pod("c")), "m1"
    )

    selected = await answer.select(parse_selector("app!=y"))

    assert selected is not None
    assert [item.name for item in items_of(selected)] == ["a", "c"]


def test_a_body_is_made_once_for_the_same_answers() -> None:
    """A new body is generated after one member answered again."""
    bodies, first, second = (
        BodyCache(),
        decode_list(listing(pod("a")), "m1"),
        decode_list(listing(pod("a")), "m1"),
    )

    of_pods = partial(ListBody, PODS)
    made = bodies.get("a", [first], of_pods)

    assert bodies.get("a", [first], of_pods) is made
    assert bodies.get("a", [second], of_pods) is not made
    assert made.whole() == encode_list(PODS, items_of(first))


def test_a_table_sums_containers() -> None:
    """The columns are the first item's resources, and the object is its metadata."""
    items = items_of(decode_list(listing(pod("a"), pod("b")), "m1"))

    printed = json.loads(table(items, "PodMetrics", "v", "", single=False))

    assert [column["name"] for column in printed["columnDefinitions"]] == ["Name", "cpu", "memory", "Window"]
    assert [row["cells"] for row in printed["rows"]] == [
        ["a", "105m", "72Mi", "15s"],
        ["b", "105m", "72Mi", "15s"],
    ]
    assert printed["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


@pytest.mark.parametrize(
    ("include", "kind"),
    [("None", None), ("Object", "PodMetrics"), ("Metadata", "PartialObjectMetadata")],
)
def test_a_table_shows_as_much_of_the_object_as_is_wanted(include: str, kind: str | None) -> None:
    """The parameter includeObject decides what the Table shows."""
    items = items_of(decode_list(listing(pod("a")), "m1"))

    (row,) = json.loads(table(items, "PodMetrics", "v", include, single=True))["rows"]

    assert (row["object"] or {}).get("kind") == kind


@pytest.mark.parametrize(
    ("usage", "problem"),
    [
        ({"cpu": "NaN", "memory": "1Mi"}, "usage.cpu 'NaN' is not a quantity"),
        ({"cpu": "much", "memory": 5}, "usage.cpu 'much' is not a quantity"),
        ({"cpu": "-5m", "memory": "1Mi"}, "usage.cpu '-5m' is negative"),
        ({"cpu": "5m", "memory": -1}, "usage.memory -1 is negative"),
        ({"memory": "1Mi", "cpu": ""}, "usage.cpu '' is not a quantity"),
        ({"cpu": "1m", "memory": "1Mi", "gpu": "Infinity"}, "usage.gpu 'Infinity' is not a quantity"),
        ({"cpu": "1m", "memory": "1mi"}, "usage.memory '1mi' is not a quantity"),
        ({"cpu": [1]}, "got `array` - at `$"),
        ("none", "Expected `object | null`, got `str`"),
    ],
)
@pytest.mark.parametrize("alone", [True, False])
def test_usage_that_cannot_be_is_not_passed_on(usage: Any, problem: str, alone: bool) -> None:
    """One invalid value makes the member's whole answer unusable, and the error names the value."""
    broken = {**pod("b"), "containers": [{"name": "x", "usage": usage}]}
    decode, body = decode_list, listing(pod("a"), broken, pod("c"))
    if alone:
        decode, body = decode_one, json.dumps(broken).encode()
    with pytest.raises(MetricsUnavailable) as error:
        decode(body, "m1")

    assert problem in str(error.value)


def test_usage_cannot_hide_behind_an_escaped_name() -> None:
    """JSON can spell a key with escapes, and an invalid value is found under each spelling."""
    containers = [
        {"name": "x", "usage": {"cpu": "1m", "memory": "1Mi"}},
        {"name": "y", "usage": {"cpu": "NaN"}},
    ]
    body = listing({**pod("a"), "containers": containers})
    hidden = body.replace(b'"usage":{"cpu":"NaN"', b'"\\u0075sage":{"cpu":"NaN"')

    assert hidden != body
    with pytest.raises(MetricsUnavailable, match="NaN"):
        decode_list(hidden, "m1")


@pytest.mark.parametrize(
    "usage",
    [
        {"cpu": "0", "memory": "0"},
        {"memory": "1Gi", "cpu": "1"},
        {"cpu": "1.5", "memory": 1e6},
        {"cpu": "3e2", "nvidia.com/gpu": "1"},
        {},
        None,
    ],
)
def test_usage_in_any_form_is_passed_on(usage: Any) -> None:
    """Other metrics APIs write usage in other forms, and NodeMetrics have it in another field."""
    container = {**pod("b"), "containers": [{"name": "x", "usage": usage}]}
    node = {"metadata": {"name": "n"}, "usage": usage}

    for item in (container, node):
        (found,) = items_of(decode_list(listing(item), "m1"))
        assert json.loads(found.json)["metadata"]["name"] == item["metadata"]["name"]


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form.JSON),
        ("*/*", Form.JSON),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Form.TABLE),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", Form.TABLE),
        ("application/json;as=Table;v=v2;g=meta.k8s.io,application/json", Form.JSON),
        ("application/vnd.kubernetes.protobuf, */*", Form.JSON),
        ("application/vnd.kubernetes.protobuf,application/json", Form.JSON),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json", Form.JSON),
        ("application/yaml", Form.YAML),
        ("application/vnd.kubernetes.protobuf", None),
        ("text/html;q=1, application/json;q=0", None),
    ],
)
def test_the_first_form_that_can_be_given_is_given(accept: str, form: Form | None) -> None:
    """These are the Accept headers of kubectl, client-go and people."""
    chosen = choose_form(accept)

    assert (chosen.form if chosen is not None else None) == form


NO_PEERS = "application/json;as=APIGroupDiscoveryList;v=v2;profile=nopeer;g=apidiscovery.k8s.io2"


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        ("", None),
        ("application/json", None),
        ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json", "v2"),
        ("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList", "v2beta1"),
        ("application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList,application/json", None),
        (f"{NO_PEERS},application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io", "v2"),
    ],
)
def test_aggregated_discovery_is_given_to_who_asks(accept: str, version: str | None) -> None:
    """The hub's aggregator names group, version and kind."""
    assert discovery_version(accept) == version


def test_a_warning_is_one_line_of_quoted_ascii() -> None:
    """The reason may contain any text of a member."""
    assert warning_values(['m "x" said\n\\o/ ü']) == ['299 - "m \\"x\\" said \\\\o/ ?"']


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_that_steps_up_is_refused(name: str) -> None:
    """It would lead to another path at the member."""
    with pytest.raises(InvalidObject):
        PODS.path("a", name)


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        found = {value["$ref"]} if "$ref" in value else set()
        return found.union(*(references(inner) for inner in value.values()))
    if isinstance(value, list):
        return set().union(*(references(inner) for inner in value))
    return set()


USAGE_PATH = f"apis/{API_VERSION}"
LISTED = {"ExternalMetricValueList", "MetricValueList"}
USED = {kind.kind + suffix for kind in KINDS for suffix in ("", "List")}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (openapi.openapi_v2(), USED | LISTED),
        *((openapi.openapi_v3(path), LISTED) for path in openapi.APIS if path != USAGE_PATH),
        (openapi.openapi_v3(USAGE_PATH), USED),
    ],
)
def test_openapi_references_exist(document: dict[str, Any], expected: set[str]) -> None:
    """Each $ref leads to a schema of its document, each schema has a kind, and each operation an id."""
    schemas = document.get("definitions") or document["components"]["schemas"]
    kinds = {
        kind["kind"]
        for schema in schemas.values()
        for kind in schema.get("x-kubernetes-group-version-kind", [])
    }
    ids = [path["get"]["operationId"] for path in document["paths"].values()]

    assert {reference.rpartition("/")[2] for reference in references(document)} <= set(schemas)
    assert kinds <= expected
    assert kinds
    assert len(set(ids)) == len(ids)


def test_the_flags_of_karmadas_manifest_are_accepted() -> None:
    """The Deployment in Karmada's manifests starts this adapter unchanged."""
    argv = [
        "--kubeconfig=/etc/karmada/config/karmada.config",
        "--authentication-kubeconfig=/etc/karmada/config/karmada.config",
        "--authorization-kubeconfig=/etc/karmada/config/karmada.config",
        "--client-ca-file=/etc/karmada/pki/server/ca.crt",
        "--tls-cert-file=/etc/karmada/pki/server/tls.crt",
        "--tls-private-key-file=/etc/karmada/pki/server/tls.key",
        "--tls-min-version=VersionTLS13",
        "--audit-log-path=-",
        "--audit-log-maxage=0",
        "--audit-log-maxbackup=0",
        "--bind-address=10.0.0.7",
    ]

    values = parse_flags(FLAGS, argv, {})

    assert values[common.TLS_MIN_VERSION] == ssl.TLSVersion.TLSv1_3
    assert values[common.SECURE_PORT] == 443
