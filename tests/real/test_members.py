"""The members as such: what later tests take for granted."""

from realplane.plane import Plane
from stage.waiting import eventually
from tests.real.workloads import deployment, namespace


async def test_usage_that_kwok_reports_is_what_kubectl_top_shows(plane: Plane) -> None:
    """A usage written for a container reaches `kubectl top pods` through the member's metrics-server."""
    member = plane.members["member1"]
    await member.set_usage("usage", {"web": {"cpu": "123m", "memory": "64Mi"}})
    async with member.api() as api:
        await api.apply(namespace("usage"))
        await api.apply(deployment("web", "usage", replicas=2))

    async def look() -> list[str] | None:
        answer = await member.kubectl("top", "pods", "-n", "usage", "--no-headers")
        rows = [line.split()[1:] for line in answer.out.splitlines()]
        return [" ".join(row) for row in rows] if len(rows) == 2 and rows[0][0] == "123m" else None

    rows = await eventually(look, what="usage seen by kubectl top", seconds=60, every=1)

    assert rows == ["123m 64Mi", "123m 64Mi"]


async def test_hubs_token_reads_and_scales_but_does_not_delete(plane: Plane) -> None:
    """The credentials that a hub gets are enough for pods, metrics and scale, and not for anything
    destructive."""
    member = plane.members["member2"]
    credentials = await member.credentials()
    async with member.api(token=credentials.token) as api:
        ready, _, _ = await api.request("GET", "/readyz")
        pods, _, _ = await api.request("GET", "/api/v1/pods")
        metrics, _, _ = await api.request("GET", "/apis/metrics.k8s.io/v1beta1/pods")
        secrets, _, _ = await api.request("GET", "/api/v1/secrets")
        deleted, _, _ = await api.request("DELETE", "/api/v1/namespaces/kube-system/pods/node-agent-1")

    assert (ready, pods, metrics, secrets, deleted) == (200, 200, 200, 403, 403)


async def test_stopped_api_server_comes_back_with_its_data(plane: Plane) -> None:
    """A member's API server that was killed starts again on the same port with the same objects."""
    member = plane.members["member2"]
    async with member.api() as api:
        before = await api.get("/api/v1/nodes/member2-node1")
    await member.kill_component("kube-apiserver")
    await member.start_api_server()
    async with member.api() as api:
        after = await api.get("/api/v1/nodes/member2-node1")

    assert before["metadata"]["uid"] == after["metadata"]["uid"]
