"""Properties of the members on which later tests rely."""

from testbed.real.plane import Plane
from tests.real.settling import settled
from tests.real.workloads import deployment, namespace


async def test_usage_that_kwok_reports_is_what_kubectl_top_shows(plane: Plane) -> None:
    """A container's usage in kwok appears in `kubectl top pods`, through the member's metrics-server."""
    member = plane.members["member1"]
    await member.set_usage("usage", {"web": {"cpu": "123m", "memory": "64Mi"}})
    async with member.api() as api:
        await api.apply_all([namespace("usage"), deployment("web", "usage", replicas=2)])

    async def shown() -> list[list[str]]:
        answer = await member.kubectl("top", "pods", "-n", "usage", "--no-headers")
        return [line.split()[1:] for line in answer.out.splitlines()]

    def as_written(rows: list[list[str]]) -> bool:
        # The rate's window starts when metrics-server sends the scrape, not when kwok answers.
        return len(rows) == 2 and all(
            abs(int(cpu.removesuffix("m")) - 123) <= 6 and memory == "64Mi" for cpu, memory in rows
        )

    rows = await settled(shown, as_written)

    assert as_written(rows), rows


async def test_hubs_token_reads_and_scales_but_does_not_delete(plane: Plane) -> None:
    """The hub's credentials allow reading pods and metrics and writing scales. They allow no deletion."""
    member = plane.members["member2"]
    credentials = await member.credentials()
    requests = {
        ("GET", "/readyz"): 200,
        ("GET", "/api/v1/pods"): 200,
        ("GET", "/apis/metrics.k8s.io/v1beta1/pods"): 200,
        ("GET", "/api/v1/secrets"): 403,
        ("DELETE", "/api/v1/namespaces/kube-system/pods/node-agent-1"): 403,
    }
    async with member.api(token=credentials.token) as api:

        async def asked() -> dict[tuple[str, str], int]:
            return {(method, path): (await api.request(method, path))[0] for method, path in requests}

        # After another test killed this API server, its metrics appear a moment later.
        answers = await settled(asked, lambda found: found == requests)

    assert answers == requests


async def test_stopped_api_server_comes_back_with_its_data(plane: Plane) -> None:
    """A killed API server of a member starts again on the same port with the same objects."""
    member = plane.members["member2"]
    async with member.api() as api:
        before = await api.get("/api/v1/nodes/member2-node1")
    await member.kill_component("kube-apiserver")
    await member.start_api_server()
    await member.metrics_work()
    async with member.api() as api:
        after = await api.get("/api/v1/nodes/member2-node1")

    assert before["metadata"]["uid"] == after["metadata"]["uid"]
