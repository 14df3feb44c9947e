"""Series of a metrics store are served as values of the registered clusters only."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.adapter.application import items as custom_items
from tests.support.adapter.application import serving, value
from tests.support.adapter.metrics_store import (
    CUSTOM,
    EXTERNAL,
    RULES,
    USAGE,
    failing,
    series,
    store_world,
    vector,
)


def amounts(body: Any) -> dict[str, str]:
    """Returns the values of external metrics by cluster."""
    return {item["metricLabels"].get("cluster", ""): item["value"] for item in body["items"]}


async def test_external_values_come_by_cluster() -> None:
    """Each series is one value with its cluster and its own labels."""
    async with store_world() as world:
        world.fake.answer = lambda _: vector(
            series("3", cluster="member2", namespace="shop", queue="b"),
            series("2.5", cluster="member1", namespace="shop", queue="a", __name__="x"),
        )
        status, body, warnings = await world.get(f"{EXTERNAL}/shop/queue_depth")

        assert (status, warnings) == (200, [])
        assert [item["value"] for item in body["items"]] == ["2500m", "3"]
        assert body["items"][0]["metricLabels"] == {"cluster": "member1", "namespace": "shop", "queue": "a"}
        assert world.fake.queries == ['sum by (cluster,namespace, queue) (queue_depth{namespace="shop"})']


async def test_selectors_become_matchers_and_the_cluster_is_chosen_here() -> None:
    """Selectors are sent as matchers, except for the cluster, so that all clusters share one query."""
    async with store_world(max_age=60.0) as world:
        world.fake.answer = lambda _: vector(
            series("1", cluster="member1", namespace="shop"), series("2", cluster="member2", namespace="shop")
        )
        path = f"{EXTERNAL}/shop/queue_depth"
        chosen = (await world.get(path, labelSelector="cluster=member2,queue in (a,b.c)"))[1]
        other = (await world.get(path, labelSelector="cluster!=member2,queue in (a,b.c)"))[1]
        asked = (await world.get(path, labelSelector="queue in (a,b.c)", cluster="member1"))[1]

        assert [amounts(body) for body in (chosen, other, asked)] == [
            {"member2": "2"},
            {"member1": "1"},
            {"member1": "1"},
        ]
        assert world.fake.queries == [
            'sum by (cluster,namespace, queue) (queue_depth{namespace="shop",queue=~"a|b\\\\.c"})'
        ]


async def test_external_values_are_put_together_as_asked() -> None:
    """By default clusters stay separate. An aggregation combines them into one value without a cluster. That
    of a rule holds unless the caller requests another one.
    """
    async with store_world() as world:
        world.fake.answer = lambda _: vector(
            series("4", cluster="member1", namespace="shop"), series("2", cluster="member2", namespace="shop")
        )
        for aggregation, expected in {"Sum": "6", "Average": "3", "Max": "4", "Min": "2"}.items():
            _, body, _ = await world.get(f"{EXTERNAL}/shop/queue_depth", aggregation=aggregation)

            assert amounts(body) == {"": expected}, aggregation
        _, body, _ = await world.get(f"{EXTERNAL}/shop/queue_depth")

        assert amounts(body) == {"member1": "4", "member2": "2"}
        world.fake.answer = lambda _: vector(series("4", cluster="member1"), series("2", cluster="member2"))
        ruled = (await world.get(f"{EXTERNAL}/shop/busiest"))[1]
        asked = (await world.get(f"{EXTERNAL}/shop/busiest", aggregation="Min"))[1]
        refused = (await world.get(f"{EXTERNAL}/shop/busiest", aggregation="Median"))[0]

        assert [amounts(ruled), amounts(asked), refused] == [{"": "4"}, {"": "2"}, 400]


async def test_what_is_no_number_is_missing_and_never_zero() -> None:
    """A warning names a cluster with such a value, and the other clusters are served."""
    good = series("2", cluster="member2", namespace="shop")
    values = ("NaN", "+Inf", "-Inf", "-1", "5Mi", "", "1e300", "0x10", "1_0")
    bad = [series(amount, cluster="member1", namespace="shop") for amount in values]
    bad.append({"metric": {"cluster": "member1", "namespace": "shop"}})
    async with store_world() as world:
        for number, one in enumerate(bad, 1):
            world.fake.answer = lambda _, one=one: vector(one, good)  # type: ignore[misc]  # bound
            status, body, (warning,) = await world.get(f"{EXTERNAL}/shop/queue_depth")

            assert (status, amounts(body)) == (200, {"member2": "2"}), one
            assert warning.startswith(
                "member1 did not answer: the metrics store has a value of it that cannot"
            )
            assert world.dropped("no_number") == number
        # This is not even JSON of the API.
        world.fake.answer = lambda _: vector(series(None, cluster="member1", namespace="shop"), good)

        assert (await world.get(f"{EXTERNAL}/shop/queue_depth"))[0] == 503


async def test_a_value_of_another_time_is_missing() -> None:
    """A sample whose time is minutes off is rejected."""
    async with store_world() as world:
        # More than five minutes off. The round trip to the store may take one of them.
        for shift in (-360.0, 360.0):
            late = series("1", time.time() + shift, cluster="member1", namespace="shop")
            world.fake.answer = lambda _, late=late: vector(late)  # type: ignore[misc]  # bound
            status, body, _ = await world.get(f"{EXTERNAL}/shop/queue_depth")

            assert status == 503
            assert "its time is more than 300 s off" in body["message"]


async def test_series_of_no_registered_cluster_are_left_out_and_said() -> None:
    """Series without a cluster, or of an unregistered cluster, are not counted."""
    async with store_world() as world:
        world.fake.answer = lambda _: vector(
            series("1", cluster="member1", namespace="shop"),
            series("10", cluster="stranger", namespace="shop"),
            series("100", namespace="shop"),
            series("1000", cluster="member2", namespace="other"),
        )
        status, body, warnings = await world.get(f"{EXTERNAL}/shop/queue_depth")

        assert (status, amounts(body)) == (200, {"member1": "1"})
        assert len(warnings) == 3
        assert "no label cluster" in warnings[0]
        assert "not registered: 'stranger'" in warnings[1]
        assert "1 series of the metrics store do not match the request" in warnings[2]
        assert [world.dropped(why) for why in ("no_cluster", "unregistered", "not_asked")] == [1.0, 1.0, 1.0]


async def test_a_default_cluster_takes_what_names_none() -> None:
    """A store of a single cluster needs no cluster label."""
    async with store_world(rules=f"defaultCluster: member2\n{RULES}") as world:
        world.fake.answer = lambda _: vector(series("7", namespace="shop"))
        _, body, warnings = await world.get(f"{EXTERNAL}/shop/queue_depth")

        assert (amounts(body), warnings) == ({"member2": "7"}, [])


async def test_a_cluster_whose_series_went_is_missing_not_zero() -> None:
    """A cluster whose series were there a moment ago is named, and so is one that its rule expects."""
    async with store_world() as world:
        one, two = (series(n, cluster=f"member{n}", namespace="shop") for n in ("1", "2"))
        world.fake.answer = lambda _: vector(one)
        before = await world.get(f"{EXTERNAL}/shop/queue_depth")
        demanded = await world.get(f"{EXTERNAL}/shop/demanded")
        world.fake.answer = lambda _: vector(two)
        after = await world.get(f"{EXTERNAL}/shop/queue_depth")
        world.fake.answer = lambda _: vector()
        gone = await world.get(f"{EXTERNAL}/shop/queue_depth")

        assert before[2] == []
        assert demanded[2] == ["member2 did not answer: the metrics store has no series of it"]
        assert amounts(after[1]) == {"member2": "2"}
        assert len(after[2]) == 1
        assert after[2][0].startswith("member1 did not answer: it served this ")
        assert gone[0] == 503


async def test_what_the_store_warns_of_reaches_the_caller() -> None:
    """Thanos may return a partial result with a warning. Clients and series get it in one safe line."""
    async with store_world() as world:
        world.fake.answer = lambda _: vector(
            series("1", cluster="member1", namespace="shop"), warnings=['store "x"\r\nX-Evil: 1 is down']
        )
        status, _, warnings = await world.get(f"{EXTERNAL}/shop/queue_depth")

        assert status == 200
        assert warnings == ['the metrics store warns: store \\"x\\" X-Evil: 1 is down']
        queries = "fedhpa_adapter_store_queries_total"
        assert world.registry.get_sample_value(queries, {"outcome": "partial"}) == 1


async def test_what_no_rule_names_comes_from_members() -> None:
    """The store receives no query for it."""
    listed = {"kind": "ExternalMetricValueList", "items": [{"metricName": "lag", "value": "5"}]}
    path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/lag"
    member = serving("v1beta2", **{"namespaces/shop/pods/*/misses": custom_items(value("a", "1"))})
    async with store_world({"member1": {path: listed, **member}}) as world:
        _, external, _ = await world.get(f"{EXTERNAL}/shop/lag")
        _, custom, _ = await world.get(f"{CUSTOM}/shop/pods/*/misses")

        assert amounts(external) == {"member1": "5"}
        assert [item["describedObject"]["name"] for item in custom["items"]] == ["a"]
        assert world.fake.queries == []


async def test_pods_stay_one_a_cluster_and_other_objects_become_one() -> None:
    """Identity is (cluster, namespace, name).

    Services with one name are added up, or aggregated as requested.
    """
    async with store_world() as world:
        found = [
            series("1", cluster="member1", namespace="shop", pod="a", service="web"),
            series("2", cluster="member2", namespace="shop", pod="a", service="web"),
        ]
        world.fake.answer = lambda _: vector(*found)
        pods = (await world.get(f"{CUSTOM}/shop/pods/*/hits"))[1]["items"]
        summed = (await world.get(f"{CUSTOM}/shop/services/web/hits"))[1]["items"]
        largest = (await world.get(f"{CUSTOM}/shop/services/web/hits", aggregation="Max"))[1]["items"]
        one = (await world.get(f"{CUSTOM}/shop/services/web/hits", cluster="member2"))[1]["items"]

        assert [item["value"] for item in pods] == ["1", "2"]
        assert pods[0]["describedObject"] == {
            "kind": "Pod",
            "namespace": "shop",
            "name": "a",
            "apiVersion": "v1",
        }
        assert [item["windowSeconds"] for item in pods] == [120, 120]
        assert [[item["value"] for item in found] for found in (summed, largest, one)] == [
            ["3"],
            ["2"],
            ["2"],
        ]
        assert (
            'sum by (cluster,namespace,service) (hits{namespace="shop",service="web"})' in world.fake.queries
        )


async def test_objects_are_selected_by_labels_of_series() -> None:
    """The rule maps keys that are not label names. Without a mapping they are refused."""
    async with store_world() as world:
        world.fake.answer = lambda _: vector(series("1", cluster="member1", namespace="shop", pod="a"))
        path = f"{CUSTOM}/shop/pods/*/hits"
        mapped = await world.get(path, labelSelector="app.kubernetes.io/name=web,tier!=x")
        refused = await world.get(path, labelSelector="example.com/x=web")
        compared = await world.get(path, labelSelector="size>3")

        assert [mapped[0], refused[0], compared[0]] == [200, 400, 400]
        assert "map it with the rule's selectorLabels" in refused[1]["message"]
        assert world.fake.queries == [
            'sum by (cluster,namespace,pod) (rate(hits_total{namespace="shop",app="web",tier!="x"}[2m]))'
        ]


async def test_a_pod_without_a_number_is_left_out_alone() -> None:
    """An idle pod's 0/0 does not make its cluster missing."""
    async with store_world() as world:
        world.fake.answer = lambda _: vector(
            series("NaN", cluster="member1", namespace="shop", pod="a"),
            series("1", cluster="member1", namespace="shop", pod="b"),
        )
        status, body, warnings = await world.get(f"{CUSTOM}/shop/pods/*/hits")

        assert status == 200
        assert [item["describedObject"]["name"] for item in body["items"]] == ["b"]
        assert warnings[0].startswith("some values of member1 are left out")


async def test_two_values_of_one_object_are_none() -> None:
    """A query that does not aggregate is an error, instead of an arbitrary choice."""
    async with store_world() as world:
        world.fake.answer = lambda _: vector(
            series("1", cluster="member1", namespace="shop", pod="a", path="/"),
            series("2", cluster="member1", namespace="shop", pod="a", path="/x"),
        )
        status, body, _ = await world.get(f"{CUSTOM}/shop/pods/*/hits")

        assert status == 503
        assert "Pod shop/a has more than one value" in body["message"]


def usage(query: str) -> bytes:
    """Returns CPU and memory of one pod with two containers. The second one has no memory yet."""
    where = {"cluster": "member1", "namespace": "shop", "pod": "web-0"}
    if "cpu" in query:
        return vector(
            series("0.25", **where, container="app"), series("0.000001", **where, container="proxy")
        )
    return vector(series("1048576.5", **where, container="app"))


async def test_usage_of_pods_comes_from_the_store() -> None:
    """With a rule for pods alone, nodes come from members. An unknown resource is not zero."""
    nodes = {
        "items": [{"metadata": {"name": "n1"}, "timestamp": None, "window": "1s", "usage": {"cpu": "1"}}]
    }
    async with store_world({"member1": {"/apis/metrics.k8s.io/v1beta1/nodes": nodes}}) as world:
        world.fake.answer = usage
        _, pods, warnings = await world.get(f"{USAGE}/namespaces/shop/pods")
        _, one, _ = await world.get(f"{USAGE}/namespaces/shop/pods/web-0")
        _, found, _ = await world.get(f"{USAGE}/nodes")
        [pod] = pods["items"]

        assert warnings == []
        assert {container["name"]: container["usage"] for container in pod["containers"]} == {
            "app": {"cpu": "250m", "memory": "1048577"},
            "proxy": {"cpu": "1u"},
        }
        assert (
            pod["metadata"]["name"],
            pod["metadata"]["namespace"],
            pod["window"],
        ) == ("web-0", "shop", "1m0s")
        assert pod["metadata"]["annotations"] == {"resource.karmada.io/query-from-cluster": "member1"}
        assert pod["containers"] == one["containers"]
        assert [item["metadata"]["name"] for item in found["items"]] == ["n1"]
        assert (
            'sum by (cluster,namespace,pod,container) (memory{namespace="shop",pod="web-0"})'
            in world.fake.queries
        )


async def test_usage_follows_the_store() -> None:
    """A usage list of thousands of series is cached as long as the store's results stay the same."""
    names = [f"web-{number}" for number in range(1500)]

    def found(cpu: str) -> bytes:
        where = {"cluster": "member1", "namespace": "shop", "container": "app"}
        return vector(*(series(cpu, **where, pod=name) for name in names))

    async with store_world() as world:
        world.fake.answer = lambda _: found("1")
        before = (await world.get(f"{USAGE}/pods"))[1]["items"]
        world.fake.answer = lambda _: found("2")
        after = (await world.get(f"{USAGE}/pods"))[1]["items"]
    async with store_world(max_age=60.0) as world:
        world.fake.answer = lambda _: found("1")
        first = await world.get(f"{USAGE}/pods")
        again = await world.get(f"{USAGE}/pods")
        other = (await world.get(f"{USAGE}/pods", cluster="member2"))[1]["items"]

    assert [{item["containers"][0]["usage"]["cpu"] for item in items} for items in (before, after)] == [
        {"1"},
        {"2"},
    ]
    assert sorted(names) == [item["metadata"]["name"] for item in after]
    assert first == again
    assert other == []
    assert len(world.fake.queries) == 2


async def test_usage_is_unavailable_while_one_of_its_queries_fails() -> None:
    """Pods without CPU would look idle."""
    async with store_world() as world:
        world.fake.answer = lambda query: failing("422 No", b"") if "cpu" in query else usage(query)
        status, body, _ = await world.get(f"{USAGE}/namespaces/shop/pods")

        assert status == 503
        assert "the metrics store: HTTP 422" in body["message"]


async def test_an_empty_namespace_is_an_empty_list() -> None:
    """Nothing is missing if there never were any series."""
    async with store_world() as world:
        status, body, warnings = await world.get(f"{USAGE}/namespaces/shop/pods")

        assert (status, body["items"], warnings) == (200, [], [])


async def test_rules_are_discovered_from_memory() -> None:
    """Metrics with a rule are listed, without a query to the store."""
    async with store_world() as world:
        _, external, _ = await world.get("/apis/external.metrics.k8s.io/v1beta1")
        _, custom, _ = await world.get("/apis/custom.metrics.k8s.io/v1beta2")

        assert [item["name"] for item in external["resources"]] == ["busiest", "demanded", "queue_depth"]
        assert [item["name"] for item in custom["resources"]] == ["pods/hits", "services/hits"]
        assert world.fake.queries == []


async def test_objects_of_no_namespace_have_their_own_paths() -> None:
    """This covers a metric of a namespace, and one of nodes. Each series must name its object."""
    query = "query: 'load{<<.LabelMatchers>>}'"
    rules = "custom:\n" + "".join(
        f"- {{metric: load, resource: {resource}, {query}}}\n" for resource in ("namespaces", "nodes")
    )
    async with store_world(rules=rules) as world:
        world.fake.answer = lambda _: vector(
            series("1", cluster="member1", namespace="shop", node="n1"),
            series("2", cluster="member1", other="x"),
        )
        root = CUSTOM.removesuffix("/namespaces")
        _, shop, _ = await world.get(f"{CUSTOM}/shop/metrics/load")
        _, nodes, warnings = await world.get(f"{root}/nodes/*/load")

        assert shop["items"][0]["describedObject"] == {
            "kind": "Namespace",
            "name": "shop",
            "apiVersion": "v1",
        }
        assert nodes["items"][0]["describedObject"] == {"kind": "Node", "name": "n1", "apiVersion": "v1"}
        assert warnings == ["1 series of the metrics store do not match the request: left out"]
        assert world.fake.queries == ['load{namespace="shop"}', 'load{cluster=~".*"}']


async def test_below_a_namespace_no_other_one_is_read() -> None:
    """A tenant with access to one namespace cannot read another one's metrics by naming it as the object."""
    rules = "custom: [{metric: load, resource: namespaces, query: 'load{<<.LabelMatchers>>}'}]"
    async with store_world(rules=rules) as world:
        world.fake.answer = lambda _: vector(series("1", cluster="member1", namespace="bank"))
        named, _, _ = await world.get(f"{CUSTOM}/shop/namespaces/bank/load")
        every, _, _ = await world.get(f"{CUSTOM}/shop/namespaces/*/load")
        own, _, _ = await world.get(f"{CUSTOM}/bank/namespaces/bank/load")

        assert (named, every, own) == (404, 404, 200)
        assert world.fake.queries == ['load{namespace="bank"}']


async def test_labels_without_a_name_are_none() -> None:
    """An empty label name in a result does not break the usage of nodes."""
    rules = "resources: {nodes: {cpu: 'c{<<.LabelMatchers>>}', memory: 'm{<<.LabelMatchers>>}'}}"
    async with store_world(rules=rules) as world:
        world.fake.answer = lambda _: vector(series("1", **{"cluster": "member1", "node": "n1", "": "x"}))
        status, nodes, _ = await world.get(f"{USAGE}/nodes")

        assert status == 200
        assert [item["usage"] for item in nodes["items"]] == [{"cpu": "1", "memory": "1"}]


@pytest.mark.parametrize("path", [f"{EXTERNAL}/shop/queue_depth", f"{CUSTOM}/shop/services/*/hits"])
async def test_values_of_one_metric_have_a_bound(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant that adds labels without limit does not make each request slow."""
    monkeypatch.setattr("metrics_adapter.prometheus.source.MAX_VALUES", 3)
    async with store_world() as world:
        found = [
            series("1", cluster="member1", namespace="shop", queue=name, service=name)
            for name in ("a", "b", "c", "d")
        ]
        world.fake.answer = lambda _: vector(*found)
        status, body, _ = await world.get(path)
        del found[0]
        fits, _, _ = await world.get(path)

        assert (status, fits) == (503, 200)
        assert "the metrics store: its answer has more than 3 series: let the rule" in body["message"]


async def test_strangers_beyond_number_are_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """All series of unregistered clusters are counted, and a few clusters are named, in a thread as well."""
    monkeypatch.setattr("metrics_adapter.prometheus.source.LARGE_RESULT", 10)
    async with store_world() as world:
        world.fake.answer = lambda _: vector(
            series("1", cluster="member1", namespace="shop"),
            *(series("1", cluster=f"stranger{number:03}", namespace="shop") for number in range(100)),
        )
        status, _, warnings = await world.get(f"{EXTERNAL}/shop/queue_depth")

        assert status == 200
        assert [text.count("stranger") for text in warnings] == [5]
        assert world.dropped("unregistered") == 100.0


async def test_warnings_of_a_store_have_a_bound() -> None:
    """A store with many failing backends does not fill the headers of a response."""
    async with store_world() as world:
        world.fake.answer = lambda _: vector(
            series("1", cluster="member1", namespace="shop"), warnings=["x" * 5000] * 500
        )
        status, _, warnings = await world.get(f"{EXTERNAL}/shop/queue_depth")

        assert status == 200
        assert (len(warnings), max(len(text) for text in warnings) < 300) == (10, True)
