"""The replica arithmetic reproduces the calculator of Kubernetes' HPA controller."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fedhpa.api import wire
from fedhpa.api.errors import MetricsUnavailable
from fedhpa.api.quantity import format_milli
from fedhpa.decision import (
    ClusterScale,
    ClusterSnapshot,
    ControllerSettings,
    Snapshot,
    TemplateScale,
    decode_object,
)
from fedhpa.decision.fleet import FleetView
from fedhpa.decision.metrics import evaluate
from fedhpa.metric_types.metric import ScalingMetric
from fedhpa.metric_types.table import metric_type
from fedhpa.scaling import Tolerances
from fedhpa.scaling.records import (
    CustomSample,
    ExternalSample,
    PodRecord,
    custom_sample,
    pod_record,
    usage_record,
)
from fedhpa.scaling.replicas import (
    CurrentSize,
    Groups,
    Readiness,
    Share,
    group_pods,
    propose_average,
    propose_utilization,
    requested_milli,
)
from tests.conformance.facts import NOW, ClusterOfPods, at, params, pod_json, text_at
from tests.conformance.tables import table

TABLE = table("k8s_replica_calculator")
NAMESPACE = "test-namespace"


def record_of(pod: dict[str, Any]) -> PodRecord:
    return pod_record("member1", msgspec.convert(pod_json(pod), wire.Pod))


def usage_of(case: dict[str, Any]) -> tuple[Any, ...]:
    items = [
        {**item, "timestamp": text_at(item["timestamp"]), "window": f"{item['window']}s"}
        for item in case["pod_metrics_items"]
    ]
    return tuple(usage_record("member1", item) for item in msgspec.convert(items, list[wire.PodMetrics]))


def spec_of(case: dict[str, Any]) -> ScalingMetric:
    target = case.get("target_milli")
    per_pod = case.get("target_average_milli")
    selector = case.get("metric_selector")
    described = case.get("object")
    match case["function"]:
        case "GetResourceReplicas":
            kind = "ContainerResource" if case["container"] else "Resource"
            return ScalingMetric(
                metric_type(kind),
                name=case["resource"],
                container=case["container"],
                average_utilization=case["target_utilization"],
            )
        case "GetMetricReplicas":
            return ScalingMetric(
                metric_type("Pods"), name=case["metric"], average_value=target, selector=selector
            )
        case "GetObjectMetricReplicas":
            return ScalingMetric(
                metric_type("Object"),
                case["metric"],
                target_type="Value",
                value=target,
                described_object=described,
            )
        case "GetObjectPerPodMetricReplicas":
            return ScalingMetric(
                metric_type("Object"),
                case["metric"],
                target_type="AverageValue",
                average_value=per_pod,
                described_object=described,
            )
        case "GetExternalMetricReplicas":
            return ScalingMetric(metric_type("External"), case["metric"], value=target, selector=selector)
        case "GetExternalPerPodMetricReplicas":
            return ScalingMetric(
                metric_type("External"), case["metric"], average_value=per_pod, selector=selector
            )
    raise AssertionError(case["function"])


def samples_of(case: dict[str, Any]) -> tuple[CustomSample, ...] | tuple[ExternalSample, ...]:
    if "external_values_milli" in case:
        return tuple(ExternalSample(case["metric"], None, milli) for milli in case["external_values_milli"])
    if "object_value_milli" in case:
        described = case["object"]
        milli = case["object_value_milli"]
        return (CustomSample(case["metric"], described["kind"], NAMESPACE, described["name"], milli),)
    return tuple(
        CustomSample(
            case["metric"],
            "Pod",
            NAMESPACE,
            value["pod"],
            value["value_milli"],
            at(value["timestamp"]) or 0.0,
            60.0 if value["window_s"] is None else value["window_s"],
        )
        for value in case.get("metric_values", ())
    )


def fleet_of(case: dict[str, Any]) -> FleetView:
    per_pod = "PerPod" in case["function"]
    cluster = ClusterSnapshot(
        name="member1",
        scale=ClusterScale(
            case["current_replicas"], case["current_replicas"] if per_pod else 0, "name=test-pod"
        ),
        pods=tuple(record_of(pod) for pod in case["pods"]),
        usage=usage_of(case) if "pod_metrics_items" in case else (),
        metrics={spec_of(case).query_key: samples_of(case)},
    )
    hpa = decode_object({"metadata": {"namespace": NAMESPACE}, "spec": {"maxReplicas": 100}})
    snapshot = Snapshot(hpa=hpa, clusters=(cluster,), target=TemplateScale(case["current_replicas"]))
    return FleetView(snapshot, ControllerSettings())


@pytest.mark.parametrize("case", params(TABLE["replica_cases"]))
def test_proposes_what_the_calculator_proposes(case: dict[str, Any]) -> None:
    """One metric over one cluster gives the calculator's replicas and values, or its error."""
    tolerances = Tolerances(case["tolerances"]["scale_up"], case["tolerances"]["scale_down"])
    readiness = Readiness(NOW, case["cpu_initialization_period_s"], case["initial_readiness_delay_s"])
    spec = spec_of(case)

    result = evaluate(
        fleet_of(case), CurrentSize(case["current_replicas"], tolerances), readiness, 0, spec
    ).result

    observed = case["observed"]
    if observed["error"] is not None:
        assert result.error is not None
        assert result.error.endswith(observed["error"])
        return
    assert result.error is None
    assert result.proposal == observed["replicas"]
    assert result.current is not None
    reported = format_milli(observed["value_milli"])
    if case["function"] == "GetResourceReplicas":
        assert result.current == {
            "averageUtilization": observed["utilization"],
            "averageValue": format_milli(observed["value_milli"], binary=case["resource"] == "memory"),
        }
    elif "PerPod" in case["function"] or case["function"] == "GetMetricReplicas":
        assert result.current == {"averageValue": reported}
    else:
        assert result.current == {"value": reported}


@pytest.mark.parametrize("case", params(TABLE["group_pods"]))
def test_groups_pods_as_the_calculator(case: dict[str, Any]) -> None:
    """Each pod falls into the calculator's group."""
    samples = [
        CustomSample("cpu", "Pod", "", name, 0, at(metric["timestamp"]) or 0.0, metric["window_s"])
        for name, metric in case["metrics"].items()
    ]
    part = (
        ClusterOfPods("member1", [record_of(pod) for pod in case["pods"]]),
        {name: metric["value_milli"] for name, metric in case["metrics"].items()},
        samples,
    )
    readiness = Readiness(NOW, case["cpu_initialization_period_s"], case["initial_readiness_delay_s"])

    groups = group_pods([part], readiness, cpu=case["resource"] == "cpu")

    expect = case["expect"]
    counts = (groups.ready, groups.unready, groups.missing, groups.ignored)
    assert counts == (
        expect["ready_count"],
        len(expect["unready"]),
        len(expect["missing"]),
        len(expect["ignored"]),
    )


@pytest.mark.parametrize(
    "case",
    # Pod-level resources are on in 1.36; the rows with the gate off never have any.
    params(TABLE["calculate_requests"]),
)
def test_adds_requests_as_the_calculator(case: dict[str, Any]) -> None:
    """A pod's request is the calculator's sum, or its error."""
    expect = case["expect"]
    records = [record_of(pod) for pod in case["pods"]]
    if expect["error"] is not None:
        with pytest.raises(MetricsUnavailable) as failure:
            [requested_milli(r.requests, case["resource"], case["container"], r.name) for r in records]

        assert str(failure.value) == expect["error"]
        return

    found = {
        r.name: requested_milli(r.requests, case["resource"], case["container"], r.name) for r in records
    }

    assert found == expect["requests_milli"]


def groups_of(case: dict[str, Any]) -> Groups:
    requests = case.get("requests_milli", {})
    metrics = case["metrics_milli"]
    known = {name: milli for name, milli in metrics.items() if name in requests}
    return Groups(
        pods=len(metrics),
        ready=len(known),
        counted=len(metrics),
        counted_sum=sum(metrics.values()),
        known_sum=sum(known.values()),
        known_requests=sum(requests[name] for name in known),
        shares={"member1": Share(len(metrics), sum(metrics.values()))},
    )


@pytest.mark.parametrize("case", params(TABLE["ratio"]))
def test_computes_ratios_as_the_calculator(case: dict[str, Any]) -> None:
    """Utilization is truncated to whole per cent before the ratio; averages are truncated."""
    scale = CurrentSize(1, Tolerances(0.1, 0.1))
    expect = case["expect"]
    if expect.get("error"):
        with pytest.raises(MetricsUnavailable, match=expect["error"]):
            propose_utilization(groups_of(case), case["target_utilization"], scale)
        return

    if "target_utilization" in case:
        proposal = propose_utilization(groups_of(case), case["target_utilization"], scale)
    else:
        proposal = propose_average(groups_of(case), case["target_milli"], scale)

    assert proposal.ratio == expect["ratio"]
    assert proposal.milli == expect["average_milli"]
    assert proposal.utilization == expect.get("utilization")


def answer_of(case: dict[str, Any]) -> ClusterSnapshot:
    scale = ClusterScale(1, 1, "app=web")
    if case["api"] == "resource":
        items = [
            {
                "metadata": {"name": item["pod"]},
                "timestamp": case["response_timestamp"],
                "window": f"{case['response_window_s']}s",
                "containers": [
                    {"name": name, "usage": {"cpu": f"{milli}m"}}
                    for name, milli in item["containers_cpu_milli"].items()
                ],
            }
            for item in case["pod_metrics"]
        ]
        usage = tuple(usage_record("member1", i) for i in msgspec.convert(items, list[wire.PodMetrics]))
        return ClusterSnapshot(name="member1", scale=scale, usage=usage)
    if case["api"] == "external":
        samples = tuple(ExternalSample(case["metric"], None, v["value_milli"]) for v in case["values"])
        return ClusterSnapshot(name="member1", scale=scale, metrics={client_spec(case).query_key: samples})
    values = [
        {
            "describedObject": case.get("object") or {"kind": "Pod", "name": value["pod"]},
            "metric": {"name": case["metric"]},
            "timestamp": value["timestamp"],
            "value": f"{value['value_milli']}m",
        }
        for value in case["values"]
    ]
    custom = tuple(custom_sample(value) for value in msgspec.convert(values, list[wire.MetricValue]))
    return ClusterSnapshot(name="member1", scale=scale, metrics={client_spec(case).query_key: custom})


def client_spec(case: dict[str, Any]) -> ScalingMetric:
    if case["api"] == "resource":
        kind = "ContainerResource" if case["container"] else "Resource"
        return ScalingMetric(metric_type(kind), "cpu", case["container"], average_value=1000)
    if case["api"] == "object":
        return ScalingMetric(
            metric_type("Object"),
            case["metric"],
            target_type="Value",
            value=1,
            described_object=case["object"],
        )
    kind = "Pods" if case["api"] == "pods" else "External"
    return ScalingMetric(metric_type(kind), case["metric"], average_value=1000, value=1000)


@pytest.mark.parametrize("case", params(TABLE["metrics_client"]))
def test_reads_answers_as_the_metrics_client(case: dict[str, Any]) -> None:
    """Answers of the metrics APIs become the client's values; an empty one is its error."""
    cluster = answer_of(case)
    pods = [
        PodRecord("member1", "", name, {"app": "web"}, pod_record("member1", wire.Pod()).requests)
        for name in ("test-pod-0", "test-pod-1", "test-pod-2")
    ]
    cluster = msgspec.structs.replace(cluster, pods=tuple(pods))
    snapshot = Snapshot(
        hpa=decode_object({"spec": {"maxReplicas": 9}}), clusters=(cluster,), target=TemplateScale(3)
    )
    readiness = Readiness(NOW, 0.0, 0.0)

    result = evaluate(
        FleetView(snapshot, ControllerSettings()),
        CurrentSize(3, Tolerances(0.1, 0.1)),
        readiness,
        0,
        client_spec(case),
    ).result

    if case["observed_error"] is not None:
        assert case["observed_error"] in (result.error or "")
        return
    total = sum(value["value_milli"] for value in case["expect"]["values"].values())
    if case["api"] == "resource":
        # Pods without a Ready condition count as unready for cpu, so their values are seen in the error.
        assert result.error is not None
        assert "did not receive metrics for targeted pods" in result.error
        memory_like = cluster.usage
        assert isinstance(memory_like, tuple)
        assert _values_of(memory_like, case["container"]) == {
            name: value["value_milli"] for name, value in case["expect"]["values"].items()
        }
        assert {record.window for record in memory_like} == {case["response_window_s"]}
        return
    assert result.error is None
    assert result.clusters["member1"].value == format_milli(total)


def _values_of(usage: tuple[Any, ...], container: str) -> dict[str, int]:
    if not container:
        return {record.name: record.cpu for record in usage if record.cpu is not None}
    return {
        record.name: found.cpu for record in usage for found in record.containers if found.name == container
    }
