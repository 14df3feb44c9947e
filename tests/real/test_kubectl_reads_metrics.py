"""An unmodified kubectl reads usage and metrics at the hub, through aggregation."""

from __future__ import annotations

import functools
import json
import operator
import signal

import pytest
import yaml

from testbed.real.controlplane import Answer
from testbed.real.plane import Plane
from testbed.stage.api import PlaneApi
from testbed.stage.processes import Processes
from testbed.stage.waiting import eventually
from tests.real.settling import SECONDS, done, kubectl, settled
from tests.real.workloads import deployment, run_everywhere, set_usage_everywhere

NAME, SPACE = "seen", "kubectl-reads"
ALONE = "alone"  # only in member1
LISTS = f"/apis/metrics.k8s.io/v1beta1/namespaces/{SPACE}/pods"
VERSIONS = (
    "custom.metrics.k8s.io/v1beta1",
    "custom.metrics.k8s.io/v1beta2",
    "external.metrics.k8s.io/v1beta1",
    "metrics.k8s.io/v1beta1",
)
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.fixture
async def pod(plane: Plane, processes: Processes) -> str:
    """Runs a workload in both members and one in member1 alone, with usage. Returns the name of the latter's
    pod.
    """
    await run_everywhere(plane, NAME, SPACE, replicas=1)
    async with plane.members["member1"].api() as api:
        await api.apply_all([deployment(ALONE, SPACE, replicas=1)])
    await set_usage_everywhere(plane, NAME, SPACE, "150m")
    usage = {NAME: {"cpu": "150m", "memory": "64Mi"}, ALONE: {"cpu": "300m", "memory": "32Mi"}}
    await done(lambda: plane.members["member1"].set_usage(SPACE, usage), "usage of both in member1")

    async def measured() -> str | None:
        async with plane.hub.api() as api:
            names = [item["metadata"]["name"] for item in (await api.get(LISTS))["items"]]
        (name,) = [name for name in names if name.startswith(ALONE)] or [None]
        return name if len(names) == 3 else None

    return await eventually(measured, what="metrics of three pods", seconds=SECONDS, every=1)


async def test_kubectl_top_takes_all_its_flags(plane: Plane, pod: str) -> None:
    """`kubectl top pods` works with -A, -n, -l, --containers, --sort-by, --sum and --no-headers, and `kubectl
    top nodes` works.
    """

    async def top(*flags: str, lines: int) -> list[list[str]]:
        def whole(answer: Answer) -> bool:
            # On a busy machine a member may miss its deadline, and a warning names it then.
            return answer.code == 0 and not answer.err and len(answer.out.splitlines()) >= lines

        answer = await settled(lambda: plane.hub.kubectl("top", *flags, "--no-headers"), whole)
        assert answer.code == 0, answer.err
        return [line.split() for line in answer.out.splitlines()]

    everywhere = await top("pods", "-A", lines=3)
    here = await top("pods", "-n", SPACE, lines=3)
    selected = await top("pods", "-n", SPACE, "-l", f"app={ALONE}", lines=1)
    containers = await top("pods", "-n", SPACE, "--containers", "-l", f"app={ALONE}", lines=1)
    total = await top("pods", "-n", SPACE, "--sum", lines=5)
    nodes = await top("nodes", lines=2)
    by_memory = await top("nodes", "--sort-by=memory", lines=2)

    async def sorted_by(resource: str) -> int:
        names = [line[0] for line in await top("pods", "-n", SPACE, f"--sort-by={resource}", lines=3)]
        return names.index(pod)

    # The first usage of a new pod covers its start, so the order settles later.
    for resource, place in (("cpu", 0), ("memory", 2)):
        found = await settled(functools.partial(sorted_by, resource), functools.partial(operator.eq, place))

        assert (resource, found) == (resource, place)

    assert len([line for line in everywhere if line[0] == SPACE]) == 3
    assert len(here) == 3
    assert [line[0] for line in selected] == [pod]
    assert [line[:2] for line in containers] == [[pod, ALONE]]
    assert len(total) == 5
    assert (
        {line[0] for line in nodes} == {line[0] for line in by_memory} == {"member1-node1", "member2-node1"}
    )


async def test_a_pod_is_asked_for_by_name(plane: Plane, pod: str) -> None:
    """kubectl reads one pod's usage by name, in every output format, and explains each field."""
    top = await kubectl(plane.hub, "top", "pod", pod, "-n", SPACE)
    of = ("get", "pods.metrics.k8s.io", pod, "-n", SPACE)
    table = await kubectl(plane.hub, *of)
    wide = await kubectl(plane.hub, *of, "-o", "wide")
    as_json = await kubectl(plane.hub, *of, "-o", "json")
    as_yaml = await kubectl(plane.hub, *of, "-o", "yaml")
    # The hub refreshes OpenAPI documents periodically.
    explained = await kubectl(plane.hub, "explain", "podmetrics", words="ContainerMetrics")
    usage = await kubectl(plane.hub, "explain", "podmetrics.containers.usage", words="map[string]")
    none = await kubectl(plane.hub, "top", "pod", "nobody", "-n", SPACE, code=1, words="not found")

    assert pod in top.out, top.err
    assert table.out.splitlines()[0].split() == ["NAME", "CPU", "MEMORY", "WINDOW"]
    assert pod in wide.out, wide.err
    assert json.loads(as_json.out)["metadata"]["annotations"] == {
        "resource.karmada.io/query-from-cluster": "member1"
    }
    assert yaml.safe_load(as_yaml.out)["kind"] == "PodMetrics"
    assert "containers\t<[]ContainerMetrics> -required-" in explained.out
    assert "<no description>" not in explained.out
    assert "map[string]" in usage.out
    assert (none.code, "not found" in none.err) == (1, True)


async def test_the_hub_knows_all_that_is_served(plane: Plane, processes: Processes) -> None:
    """The hub lists every version in API versions, aggregated discovery, OpenAPI v2 and OpenAPI v3."""
    async with plane.hub.api() as api:

        async def merged() -> bool:
            document = await api.get("/openapi/v2")
            return f"/apis/{VERSIONS[1]}/namespaces/{{namespace}}/metrics/{{metric}}" in document["paths"]

        # The hub merges documents in the background, and reads each about once a minute.
        await eventually(merged, what="OpenAPI v2 has ours", seconds=SECONDS, every=2)
        discovered = await settled(lambda: aggregated(api), set(VERSIONS).issubset)

        async def indexed() -> set[str]:
            return set((await api.get("/openapi/v3"))["paths"])

        paths = {f"apis/{version}" for version in VERSIONS}
        index = await settled(indexed, paths.issubset)
        explained = await eventually(
            lambda: api.get("/openapi/v3/apis/custom.metrics.k8s.io/v1beta2"),
            what="OpenAPI v3 has ours",
            seconds=SECONDS,
        )
        groups = (await api.get("/apis"))["groups"]
    versions = await kubectl(plane.hub, "api-versions")
    resources = await kubectl(plane.hub, "api-resources", "--no-headers", "--cached=false")

    assert set(VERSIONS) <= set(versions.out.split())
    assert {"PodMetrics", "NodeMetrics"} <= {line.split()[-1] for line in resources.out.splitlines()}
    assert paths <= index
    assert any(
        name.endswith("custom_metrics.v1beta2.MetricValueList") for name in explained["components"]["schemas"]
    )
    assert {g["name"]: g["preferredVersion"]["version"] for g in groups}["custom.metrics.k8s.io"] == "v1beta2"
    assert set(VERSIONS) <= discovered


async def aggregated(api: PlaneApi) -> set[str]:
    """The group versions of the hub's aggregated discovery document that are not stale."""
    _, _, body = await api.request("GET", "/apis", accept=DISCOVERY)
    document = json.loads(body)
    assert document["kind"] == "APIGroupDiscoveryList"
    return {
        f"{group['metadata']['name']}/{version['version']}"
        for group in document["items"]
        for version in group["versions"]
        if version.get("freshness") == "Current"
    }


async def test_kubectl_says_who_is_missing(plane: Plane, pod: str) -> None:
    """A member that hangs costs one deadline. A warning of kubectl names it until it answers again."""

    async def shown() -> tuple[str, str]:
        answer = await plane.hub.kubectl("top", "pods", "-n", SPACE)
        return answer.out, answer.err

    async def missing() -> bool:
        out, err = await shown()
        return "Warning: member2 did not answer" in err and pod in out

    async def complete() -> bool:
        out, err = await shown()
        return "Warning" not in err and len(out.splitlines()) == 4

    plane.run.signal("member2.kube-apiserver", signal.SIGSTOP)
    try:
        await eventually(missing, what="kubectl warns of member2", seconds=SECONDS, every=1)
    finally:
        plane.run.signal("member2.kube-apiserver", signal.SIGCONT)
    await eventually(complete, what="member2 is back", seconds=SECONDS, every=1)
