"""kubectl shows the state of a FederatedHPA: columns, wide columns, condition Ready, describe."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

from fedhpa.decision import decode_object, targets
from testbed.real.controlplane import Answer
from testbed.real.plane import Plane
from testbed.stage.api import PlaneApi
from testbed.stage.processes import Processes
from tests.real.settling import kubectl, settled
from tests.real.workloads import (
    deployment,
    federated_hpa,
    federated_hpa_path,
    namespace,
    run_everywhere,
    set_usage_everywhere,
)
from tests.support.commands import fedhpa

NAME, SPACE = "web", "columns"
COLUMNS = ["NAME", "TARGETS", "MIN", "MAX", "REPLICAS", "CLUSTERS", "READY", "AGE"]
WIDE = ["REFERENCE-KIND", "REFERENCE-NAME", "PROPAGATION", "REASON"]
AT_MINIMUM = "the desired replica count is less than the minimum replica count"


async def test_kubectl_tells_the_state_of_an_object(plane: Plane, processes: Processes) -> None:
    """`kubectl wait` takes Ready; the columns, describe and `fedhpa explain` agree about a well object."""
    await run_everywhere(plane, NAME, SPACE, replicas=2)
    await set_usage_everywhere(plane, NAME, SPACE, "100m")
    autoscaler = federated_hpa(NAME, SPACE, low=4, high=8)
    spec = autoscaler["spec"]
    spec["federatedMinReplicas"], spec["federatedMaxReplicas"] = (
        spec.pop("minReplicas"),
        spec.pop("maxReplicas"),
    )
    hub = plane.hub
    await kubectl(hub, "apply", "-f", "-", stdin=json.dumps(autoscaler))
    waited = await kubectl(
        hub, "wait", f"fhpa/{NAME}", "-n", SPACE, "--for=condition=Ready", "--timeout=50s", words="met"
    )

    async def shown() -> tuple[Answer, Answer, str]:
        """The wide table, describe and the first line of explain."""
        table = await hub.kubectl("get", "fhpa", NAME, "-n", SPACE, "-o", "wide")
        described = await hub.kubectl("describe", "fhpa", NAME, "-n", SPACE)
        explained = await asyncio.to_thread(
            fedhpa, "explain", f"fhpa/{NAME}", "-n", SPACE, f"--kubeconfig={hub.kubeconfig}"
        )
        return table, described, explained.stdout.partition("\n")[0]

    # Usage is measured only after two scrapes, and the last of the three may be of a later decision.
    table, described, first_line = await settled(
        shown, lambda found: "%/50%" in found[0].out and AT_MINIMUM in found[1].out and AT_MINIMUM in found[2]
    )
    narrow = await hub.kubectl("get", "fhpa", NAME, "-n", SPACE)
    async with hub.api() as api:
        ready = condition(await api.get(federated_hpa_path(NAME, SPACE)), "Ready")
        await api.delete(federated_hpa_path(NAME, SPACE))

    assert waited.code == 0, waited.err
    assert narrow.out.splitlines()[0].split() == COLUMNS
    header, row = table.out.splitlines()
    assert header.split() == COLUMNS + WIDE
    cells = row.split()
    assert cells[:2] == [NAME, "cpu:"]
    assert cells[2].endswith("%/50%")
    assert cells[3:7] == ["4", "8", "4", "2/2"]
    assert cells[7] == "True"
    assert row.rstrip().endswith(f"Deployment       {NAME}              direct        {AT_MINIMUM}")
    assert ready["observedGeneration"] == 1
    assert first_line == f"{SPACE}/{NAME}: stay at 4 replicas; reason: {AT_MINIMUM}"
    assert f"stay at 4 replicas; reason: {AT_MINIMUM}" in described.out


async def test_kubectl_tells_that_the_workload_is_only_on_the_hub(plane: Plane, processes: Processes) -> None:
    """Ready is False, and the wide column, describe and the event ask for the other --propagation."""
    name, space = "template", "columns-elsewhere"
    hub = plane.hub
    objects = [
        namespace(space),
        deployment(name, space, replicas=0),
        federated_hpa(name, space, low=1, high=3),
    ]
    await kubectl(hub, "apply", "-f", "-", stdin="\n---\n".join(json.dumps(one) for one in objects))
    told = (
        f"Deployment {space}/{name}: 404 in member1, member2; it exists on the hub: "
        "is --propagation=karmada meant?"
    )

    waited = await kubectl(
        hub, "wait", f"fhpa/{name}", "-n", space, "--for=condition=Ready=false", "--timeout=50s", words="met"
    )
    table = await kubectl(hub, "get", "fhpa", name, "-n", space, "-o", "wide", words=told)
    described = await kubectl(hub, "describe", "fhpa", name, "-n", space, words="Warning  FailedGetScale")
    await kubectl(hub, "delete", "fhpa", name, "-n", space)

    assert waited.code == 0, waited.err
    row = table.out.splitlines()[1]
    assert row.split()[:8] == [name, "cpu:", "<unknown>/50%", "1", "3", "0", "0/0", "False"]
    assert row.rstrip().endswith(told)
    # AbleToScale, Ready, status.summary and the event.
    assert described.out.count(told) >= 4


async def test_targets_are_those_of_kubectl_get_hpa(plane: Plane) -> None:
    """kubectl prints the same for an HPA with the same metrics, and values in the unit of their targets."""
    space = "columns-targets"
    hub = plane.hub
    await kubectl(hub, "apply", "-f", "-", stdin=json.dumps(namespace(space)))
    metrics = of_every_type()
    for index, pair in enumerate(zip(metrics, [*metrics[1:], metrics[0]], strict=True)):
        for count in (1, 2):
            await same_as_hpa(plane, space, f"h{index}-{count}", list(pair[:count]))
    await same_as_hpa(plane, space, "all", metrics)


async def same_as_hpa(
    plane: Plane, space: str, name: str, metrics: list[tuple[dict[str, Any], dict[str, Any]]]
) -> None:
    """Compare kubectl's TARGETS of an HPA with ours, without values and with them."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}
    spec = {"scaleTargetRef": target, "maxReplicas": 3, "metrics": [wanted for wanted, _ in metrics]}
    meta = {"name": name, "namespace": space}
    hpa = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": meta, "spec": spec}
    ours = decode_object({"metadata": meta, "spec": spec}).spec.metrics
    path = f"/apis/autoscaling/v2/namespaces/{space}/horizontalpodautoscalers/{name}"
    async with plane.hub.api() as api:
        await api.apply_all([hpa])
        for values in ([], [value for _, value in metrics]):
            status = {"currentReplicas": 1, "desiredReplicas": 1, "currentMetrics": values}
            text = f" {targets(ours, values)} "
            row = await settled(partial(_row, plane, api, path, status), partial(_contains, text))
            assert text in row
        await api.delete(path)


def _contains(text: str, row: str) -> bool:
    return text in row


async def _row(plane: Plane, api: PlaneApi, path: str, status: dict[str, Any]) -> str:
    """Store the status of an HPA and return the row that kubectl prints."""
    await api.patch(f"{path}/status", {"status": status})
    _, space, _, name = path.rsplit("/", 3)
    return (await plane.hub.kubectl("get", "hpa", name, "-n", space, "--no-headers")).out


def of_every_type() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """An entry of spec.metrics and its value, for each type and form of target."""
    queue = {"metric": {"name": "queue"}}
    described = {**queue, "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "web"}}
    rows: list[tuple[str, str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
        (
            "Resource",
            "resource",
            {"name": "cpu"},
            utilization(60),
            {"averageUtilization": 45, "averageValue": "45m"},
        ),
        ("Resource", "resource", {"name": "memory"}, average("1Gi"), {"averageValue": "2Gi"}),
        (
            "ContainerResource",
            "containerResource",
            {"name": "cpu", "container": "app"},
            utilization(70),
            {"averageUtilization": 7, "averageValue": "7m"},
        ),
        ("Pods", "pods", queue, average("10"), {"averageValue": "7"}),
        ("Object", "object", described, {"type": "Value", "value": "2k"}, {"value": "4k"}),
        ("Object", "object", described, average("100"), {"value": "0", "averageValue": "50"}),
        ("External", "external", queue, {"type": "Value", "value": "30"}, {"value": "12"}),
        ("External", "external", queue, average("30"), {"value": "0", "averageValue": "6"}),
    ]
    return [
        (
            {"type": kind, field: {**source, "target": target}},
            {"type": kind, field: {**source, "current": current}},
        )
        for kind, field, source, target, current in rows
    ]


def utilization(percent: int) -> dict[str, Any]:
    """A target in per cent of the requests."""
    return {"type": "Utilization", "averageUtilization": percent}


def average(value: str) -> dict[str, Any]:
    """A target per pod."""
    return {"type": "AverageValue", "averageValue": value}


def condition(found: dict[str, Any], kind: str) -> dict[str, Any]:
    """The condition of the type."""
    return next(one for one in found["status"]["conditions"] if one["type"] == kind)
