"""custom.metrics.k8s.io over many members: values of pods stay per cluster, other objects are added up."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from fedhpa.kube import SYSTEM
from metrics_adapter.members.discovery_cache import MetricDiscoveryCache
from metrics_adapter.members.source import MemberObserver
from tests.support.adapter.application import (
    CUSTOM,
    NOON,
    adapter,
    client_of,
    get,
    items,
    members_source,
    serving,
    shown,
    value,
)

PODS = f"{CUSTOM}/v1beta2/namespaces/shop/pods/*/hits"
SERVICE = f"{CUSTOM}/v1beta2/namespaces/shop/services/web/hits"
STAR, WEB = "namespaces/shop/pods/*/hits", "namespaces/shop/services/web/hits"


def of_pods(*found: Any, version: str = "v1beta2") -> dict[str, Any]:
    return serving(version, **{STAR: items(*found)})


def of_service(*found: Any) -> dict[str, Any]:
    return serving("v1beta2", **{WEB: items(*found)})


def service(amount: Any, **fields: Any) -> dict[str, Any]:
    return value("web", amount, kind="Service", **fields)


async def test_pods_of_one_name_stay_one_a_cluster() -> None:
    """This holds for a selector and for a name. `?cluster=` selects one cluster."""
    first, second = value("web-0", "1"), value("web-0", "2")
    by_name = "namespaces/shop/pods/web-0/hits"
    worlds = {
        "m1": serving("v1beta2", **{STAR: items(first), by_name: items(first)}),
        "m2": serving("v1beta2", **{STAR: items(second), by_name: items(second)}),
    }
    async with adapter(worlds) as (client, _):
        selected = await get(client, PODS)
        named = await get(client, f"{CUSTOM}/v1beta2/{by_name}")
        chosen = await get(client, f"{PODS}?cluster=m2")
        unknown = await get(client, f"{PODS}?cluster=m3")
        # A client that fills in a variable with nothing.
        empty = await get(client, f"{PODS}?cluster=")

    assert (selected[0], selected[2]) == (200, [])
    assert ["web-0 1", "web-0 2"] == shown(selected[1]) == shown(named[1]) == shown(empty[1])
    assert shown(chosen[1]) == ["web-0 2"]
    assert (unknown[0], unknown[1]["message"]) == (404, 'clusters.cluster.karmada.io "m3" not found')


class Outcomes(MemberObserver):
    """Notes what counts for or against a member."""

    def __init__(self) -> None:
        self.counted: list[bool] = []

    def outcome(self, api: str, cluster: str, answered: bool, *, provoked: bool = False) -> None:
        if not provoked:
            self.counted.append(answered)


@pytest.mark.parametrize(("path", "counted"), [("shop/pods/web", []), ("nodes/n1/load", [False])])
async def test_a_metric_that_nobody_lists_says_nothing_about_a_member(path: str, counted: list[bool]) -> None:
    """Members' adapters answer 500 to a resource that does not exist. One that is listed counts as before."""
    listed = {
        "kind": "APIResourceList",
        "groupVersion": "custom.metrics.k8s.io/v1beta2",
        "resources": [{"name": "nodes/load"}],
    }
    world = serving("v1beta2", **{path: 500}) | {f"{CUSTOM}/v1beta2": listed}
    async with members_source({"m1": world}) as (source, _):
        catalogue = MetricDiscoveryCache(source, clock=SYSTEM.monotonic)
        await catalogue.refresh()
        source.is_listed = catalogue.is_listed
        async with client_of(source, catalogue) as client:
            source.observer = outcomes = Outcomes()
            with capture_logs() as logs:
                status, _, _ = await get(client, f"{CUSTOM}/v1beta2/{path}")

    assert status == 503
    assert outcomes.counted == counted
    assert [entry["event"] for entry in logs if entry["log_level"] == "warning"] == [
        "metrics missing" for _ in counted
    ]


async def test_below_a_namespace_no_member_is_asked_of_another() -> None:
    """Access was reviewed for one namespace, and members are queried with the adapter's own rights."""
    path = "namespaces/shop/namespaces/bank/load"
    world = serving("v1beta2", **{path: items(value("bank", "1", kind="Namespace"))})
    async with adapter({"m1": world}) as (client, _):
        status, body, _ = await get(client, f"{CUSTOM}/v1beta2/{path}")

    assert (status, body["message"]) == (404, "the server could not find the metric load for namespaces")


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        ("", "1000000000000000300500u"),
        ("Sum", "1000000000000000300500u"),
        ("Max", "1000000000000000300m"),
        ("Min", "500u"),
        ("Average", "500000000000000150250u"),
    ],
)
async def test_values_of_other_objects_are_merged_exactly(aggregation: str, expected: str) -> None:
    """The sum is exact, the timestamp is the oldest one, and the window the longest."""
    worlds = {
        "m1": of_service(service("1000000000000000300m", timestamp="2026-03-11T12:00:30.9Z")),
        "m2": of_service(service("500u", timestamp="2026-03-11T13:00:10+01:00", windowSeconds=60)),
    }
    query = f"?aggregation={aggregation}" if aggregation else ""
    async with adapter(worlds) as (client, _):
        status, body, _ = await get(client, SERVICE + query)

    assert status == 200
    assert [{**service(expected, timestamp="2026-03-11T12:00:10Z"), "windowSeconds": 60}] == body["items"]


async def test_values_with_other_labels_are_other_values() -> None:
    """Labels are compared by meaning, whatever their order."""
    worlds = {
        "m1": of_service(service("1", labels={"a": "x", "b": "y"}), service("10", labels={"a": "z"})),
        "m2": of_service(service("2", labels={"b": "y", "a": "x"}), service("20")),
    }
    async with adapter(worlds) as (client, _):
        _, body, _ = await get(client, SERVICE)

    assert shown(body) == ["web 20", "web 3", "web 10"]


async def test_a_member_is_asked_in_its_best_version_and_answered_in_the_asked_one() -> None:
    """The query to members is canonical, and each version has its own spelling of values."""
    old = {
        "describedObject": {"kind": "Pod", "namespace": "shop", "name": "b", "apiVersion": "/v1"},
        "metricName": "hits",
        "timestamp": NOON,
        "window": 30,
        "value": "0.5",
        "selector": {"matchLabels": {"q": "x"}},
    }
    worlds = {
        "m1": serving("v1beta1", "v1beta2", **{STAR: items(value("a", "1", windowSeconds=60))}),
        "m2": of_pods(old, version="v1beta1"),
    }
    query = "?metricLabelSelector=q%3D%3Dx&labelSelector=b,a%20in%20(z,y)"
    async with adapter(worlds) as (client, members):
        _, newer, _ = await get(client, PODS + query)
        _, older, _ = await get(client, PODS.replace("v1beta2", "v1beta1"))
        asked = [member.queries("/hits")[0] for member in members.values()]

    assert [
        newer["apiVersion"],
        older["apiVersion"],
    ] == ["custom.metrics.k8s.io/v1beta2", "custom.metrics.k8s.io/v1beta1"]
    assert [
        value("a", "1", windowSeconds=60),
        {
            "describedObject": old["describedObject"],
            "metric": {"name": "hits", "selector": old["selector"]},
            "timestamp": NOON,
            "windowSeconds": 30,
            "value": "500m",
        },
    ] == newer["items"]
    assert {**old, "value": "500m"} == older["items"][1]
    assert asked == [{"labelSelector": "a in (y,z),b", "metricLabelSelector": "q=x"}] * 2


RUBBISH: dict[str, Any] = {
    "no number": value("a", "NaN"),
    "negative": value("a", "-1"),
    "infinite": '{"items": [{"value": 1e999}]}',
    "null": value("a", None),
    "no time": value("a", "1", timestamp="yesterday"),
    "labels that are no strings": value("a", "1", labels={"a": 1}),
    "an operator of nobody": {
        **value("a", "1"),
        "metric": {"name": "hits", "selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
    },
    "a window before it began": value("a", "1", windowSeconds=-1),
    "a window that Go cannot hold": value("a", "1", windowSeconds=2**63),
    "another namespace": {
        **value("a", "1"),
        "describedObject": {"kind": "Pod", "namespace": "bank", "name": "a"},
    },
    "no JSON": "{",
    "no list": '{"kind": "MetricValueList"}',
}


async def test_a_member_that_sends_rubbish_did_not_answer() -> None:
    """The member is named and the others' values are served. If it is the only one, the response is 503."""
    for name, bad in RUBBISH.items():
        answer = bad if isinstance(bad, str) else items(value("fine", "7"), bad)
        worlds = {"m1": of_pods(value("a", "1")), "m2": serving("v1beta2", **{STAR: answer})}
        async with adapter(worlds) as (client, _):
            both = await get(client, PODS)
            alone = await get(client, f"{PODS}?cluster=m2")

        assert (both[0], shown(both[1]), both[2]) == (200, ["a 1"], ["m2"]), name
        assert (alone[0], alone[1]["reason"]) == (503, "ServiceUnavailable"), name


async def test_a_member_gives_one_value_of_the_object_it_was_asked_for() -> None:
    """Of two values the one that counts would be arbitrary. A value of another object spoils the answer."""
    worlds = {
        "m1": of_service(service("1"), service("2")),
        "m2": of_service(service("5")),
        "m3": of_service(value("other", "9", kind="Service")),
    }
    async with adapter(worlds) as (client, _):
        _, body, missing = await get(client, SERVICE)

    assert (shown(body), missing) == (["web 5"], ["m1", "m3"])


async def test_who_serves_no_such_metric_is_not_missing() -> None:
    """This holds for a member without the API and for one without the metric. A failing member is named."""
    worlds = {
        "m1": of_service(service("5")),
        "m2": {},
        "m3": serving("v1beta2"),
        "m4": {"*": 500},
        "m5": None,
    }
    async with adapter(worlds) as (client, _):
        status, body, missing = await get(client, SERVICE)

    assert (status, shown(body), missing) == (200, ["web 5"], ["m4", "m5"])


@pytest.mark.parametrize(
    ("worlds", "status"),
    [
        ({}, 404),
        ({"m1": {}}, 404),
        ({"m1": serving("v1beta2")}, 404),
        ({"m1": serving("v1beta2"), "m2": {"*": 500}}, 404),
        ({"m1": {}, "m2": {"*": 500}}, 503),
        ({"m1": {"*": 403}}, 503),
        ({"m1": None}, 503),
    ],
)
async def test_nothing_found_is_not_nobody_answered(worlds: dict[str, Any], status: int) -> None:
    """404, as from Kubernetes' adapters, if a member knows that there is none.

    503 if no member could answer.
    """
    async with adapter(worlds) as (client, _):
        answer = await get(client, PODS)

    assert status == answer[0]
    assert status == 503 or answer[1]["message"] == "the server could not find the metric hits for pods"


ALL = "v1beta2/namespaces/shop/pods/*/hits"
UNKNOWN = (404, "the server could not find the requested resource")
REFUSED = {
    f"{ALL}?labelSelector=a===b": (
        400,
        "unable to parse requirement: found '='",
    ),
    f"{ALL}?metricLabelSelector=a===b": (400, "unable to parse requirement"),
    f"{ALL}?aggregation=sum": (400, "aggregation 'sum' is not one of Sum"),
    f"{ALL}?fieldSelector=a=b": (400, '"a" is not a known field selector'),
    "v1beta2/namespaces/shop/pods/web/hits?fieldSelector=metadata.name!=web": (
        400,
        "doesn't match requested",
    ),
    "v1beta2/pods": UNKNOWN,
    "v1beta2/namespaces/shop/hits": UNKNOWN,
    "v1beta2/namespaces/shop/pods/hits": UNKNOWN,
    "v1beta2/namespaces/shop/pods/web/hits/more": UNKNOWN,
    "v1beta2/namespaces/shop/pods//hits": UNKNOWN,
    "v1beta1/nodes/n1": UNKNOWN,
}


async def test_what_cannot_be_asked_is_refused() -> None:
    """No member receives a request. A path of another depth is not found, as every unknown path."""
    async with adapter({"m1": of_pods(value("a", "1"))}) as (client, members):
        for path, (status, text) in REFUSED.items():
            found, body, _ = await get(client, f"{CUSTOM}/{path}")

            assert found == status, path
            assert text in body["message"]
        assert members["m1"].seen == []


async def test_requests_are_counted_by_group() -> None:
    """Names that callers choose are not labels, because they could fill the memory."""
    async with adapter({"m1": of_pods(value("a", "1"))}) as (client, _):
        for metric in ("hits", "b", "c"):
            await client.get(f"{CUSTOM}/v1beta1/namespaces/shop/pods/*/{metric}")
        text = await (await client.get("/metrics")).text()
    api = "custom.metrics.k8s.io"
    counted = [line for line in text.splitlines() if line.startswith("fedhpa_adapter_requests_total")]

    assert counted == [
        f'fedhpa_adapter_requests_total{{api="{api}",code="{code}",resource="{api}",verb="get"}} {times}'
        for code, times in (("200", "1.0"), ("404", "2.0"))
    ]
