"""Usage from a metrics store is written like metrics-server's, with the cluster added."""

from __future__ import annotations

from collections.abc import Sequence

from fedhpa.api.quantity import Quantity
from metrics_adapter.apis import NODES, PODS, MetricsKind
from metrics_adapter.members.source import Gathered
from metrics_adapter.prometheus.grouping import Sample
from metrics_adapter.prometheus.resource_metrics import member_items
from metrics_adapter.prometheus.rules.model import UsageRule
from metrics_adapter.server.bodies import ListBody

QUERY = "a{<<.LabelMatchers>>}"
RULE = UsageRule(cpu=QUERY, memory=QUERY)
MEBIBYTE = 2**20
# Unix time of 2026-03-11T12:00:00Z.
NOON = 1_773_230_400.0


def measured(amount: str, at: float = NOON, **labels: str) -> Sample:
    return Sample(labels, Quantity.parse(amount), at)


def of_one(values: Sequence[Sample]) -> Gathered[tuple[str, Sequence[Sample]]]:
    return Gathered([("m1", values)], {})


def written(
    kind: MetricsKind, names: tuple[str, str], cpu: Sequence[Sample], memory: Sequence[Sample]
) -> str:
    """Returns the list of one cluster's items."""
    gathered = member_items(of_one(cpu), of_one(memory), kind, RULE, names)
    return ListBody(kind, gathered.answers).whole().decode()


def test_pods_are_written_as_members_write_them() -> None:
    """Items and containers are sorted by name.

    They have their oldest sample's time, and unknown resources are left out.
    """
    cpu = [
        measured("0.25", namespace="shop", pod="web", container="b"),
        measured("1", namespace="shop", pod="web", container='a"\\'),
        measured("3", namespace="bank", pod="é", container="b"),
    ]
    memory = [measured(str(MEBIBYTE), NOON - 0.5, namespace="shop", pod="web", container="b")]

    annotations = '"annotations":{"resource.karmada.io/query-from-cluster":"m1"}'
    assert written(PODS, ("namespace", "pod"), cpu, memory) == (
        '{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":['
        f'{{"metadata":{{{annotations},"name":"é","namespace":"bank"}},'
        '"timestamp":"2026-03-11T12:00:00Z","window":"1m0s",'
        '"containers":[{"name":"b","usage":{"cpu":"3"}}]},'
        f'{{"metadata":{{{annotations},"name":"web","namespace":"shop"}},'
        '"timestamp":"2026-03-11T11:59:59Z","window":"1m0s",'
        '"containers":[{"name":"a\\"\\\\","usage":{"cpu":"1"}},'
        '{"name":"b","usage":{"cpu":"250m","memory":"1Mi"}}]}]}'
    )


def test_nodes_have_neither_namespace_nor_containers() -> None:
    """This holds whatever labels their series have."""
    cpu = [measured("2", node="n1", container="app", namespace="shop")]
    memory = [measured("2.5", node="n1")]

    assert written(NODES, ("", "node"), cpu, memory) == (
        '{"kind":"NodeMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":['
        '{"metadata":{"annotations":{"resource.karmada.io/query-from-cluster":"m1"},"name":"n1"},'
        '"timestamp":"2026-03-11T12:00:00Z","window":"1m0s","usage":{"cpu":"2","memory":"3"}}]}'
    )


def test_two_values_of_one_container_are_none() -> None:
    """The right value is unknown, so the cluster is missing, and the error names the remedy."""
    twice = [measured("1", namespace="shop", pod="web", replica=name) for name in "ab"]
    made = member_items(of_one(twice), of_one(()), PODS, RULE, ("namespace", "pod"))

    assert made.answers == []
    assert made.missing["m1"].startswith("shop/web has more than one value of cpu: let the rule's query")
