"""Requests to an API server end for any behaviour of the server."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from benchmarks.world.network import MemoryNetwork
from fedhpa.api.errors import ApiError, Conflict
from fedhpa.api.wire import Pod
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import ApiConfig, tls_context
from fedhpa.kube.resources import get_scale, patch_status, put_scale, resource_path, update_with_retry
from fedhpa.kube.transport import INVALID_RESPONSE
from tests.support.fakeapi import PATIENCE, PODS, fake_api, pod
from tests.support.timing import loop_time

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


async def test_many_requests_share_one_connection() -> None:
    """Requests one after the other reuse the connection."""
    async with fake_api() as api, ApiClient(api.config()) as client:
        for _ in range(5):
            await client.request("GET", "/readyz")

        assert len({seen.peer for seen in api.seen}) == 1


async def test_an_answer_that_is_not_http() -> None:
    """The error is one line, because conditions and Warning headers show it."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 \x1b[2J x\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with ApiClient(ApiConfig(server=f"http://127.0.0.1:{port}")) as client:
            with pytest.raises(ApiError, match="answer is not HTTP: ") as caught:
                await client.request("GET", "/readyz")

    assert str(caught.value).isprintable()


async def test_a_connection_closed_during_the_handshake() -> None:
    """The error says why there is no connection, although the loop's own error has no text."""

    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.close()

    server = await asyncio.start_server(leave, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        config = ApiConfig(server=f"https://127.0.0.1:{port}", ssl=tls_context())
        async with ApiClient(config) as client:
            with pytest.raises(ApiError, match=r"cannot connect: \w+"):
                await client.request("GET", "/readyz")


async def test_truncated_json() -> None:
    """The error for an incomplete object names the problem and does not quote the content."""
    async with fake_api() as api, ApiClient(api.config()) as client:
        api.faults.body["/api/v1"] = b'{"metadata":{"name":"s3cret'

        with pytest.raises(ApiError, match="answer cannot be read") as caught:
            await client.get("/api/v1/namespaces/default/pods/a", Pod)

        assert caught.value.reason == INVALID_RESPONSE
        assert "s3cret" not in str(caught.value)


async def test_error_status_bodies_become_errors() -> None:
    """The error has the reason and message of the Status; a 409 is a Conflict."""
    async with fake_api() as api, ApiClient(api.config()) as client:
        api.put(("v1", "configmaps"), {"metadata": {"name": "a", "namespace": "default"}})

        with pytest.raises(ApiError, match='configmaps "b" not found') as missing:
            await client.get_json(f"{CONFIGMAPS}/b")
        with pytest.raises(Conflict) as exists:
            await client.post(CONFIGMAPS, {"metadata": {"name": "a"}})

        assert (missing.value.status, missing.value.reason) == (404, "NotFound")
        assert exists.value.reason == "AlreadyExists"


async def test_an_error_without_a_status_body() -> None:
    """The error for a 500 with any other body has client-go's message and nothing of the body."""
    async with fake_api() as api, ApiClient(api.config()) as client:
        api.faults.status["/"] = 500

        with pytest.raises(ApiError, match="an error on the server prevented") as caught:
            await client.request("GET", "/readyz")

        assert (caught.value.status, caught.value.reason) == (500, "InternalError")
        assert "out of order" not in str(caught.value)


async def test_long_messages_are_bounded() -> None:
    """A Status message is truncated, because conditions, events and logs contain it."""
    async with fake_api() as api, ApiClient(api.config()) as client:
        with pytest.raises(ApiError) as caught:
            await client.get_json(f"{CONFIGMAPS}/{'x' * 4000}")

        assert len(str(caught.value)) == 512


@pytest.mark.looptime(noop_cycles=0)
async def test_a_retry_after_beyond_the_deadline_fails_at_once() -> None:
    """The error is raised without waiting if the wait would exceed the deadline."""
    async with fake_api(network=MemoryNetwork()) as api, ApiClient(api.config()) as client:
        api.faults.status["/"] = 429
        api.faults.headers["Retry-After"] = "30"
        began = loop_time()

        with pytest.raises(ApiError) as caught:
            await client.request("GET", "/readyz", deadline=5)

        assert caught.value.status == 429
        assert loop_time() - began < 0.1


class Rotating:
    """Credentials that have a new token after each `renew`."""

    def __init__(self, *tokens: str) -> None:
        self._tokens = list(tokens)

    async def authorization(self) -> str | None:
        return f"Bearer {self._tokens[0]}"

    async def renew(self) -> bool:
        if len(self._tokens) == 1:
            return False
        del self._tokens[0]
        return True


async def test_a_rotated_token_is_tried_once() -> None:
    """After a 401 the same call is repeated with the new token; a second 401 is raised."""
    async with fake_api() as api:
        api.token = "new"
        async with ApiClient(api.config(Rotating("old", "new"))) as client:
            response = await client.request("GET", "/readyz")
        async with ApiClient(api.config(Rotating("older", "old", "new"))) as client:
            with pytest.raises(ApiError) as caught:
                await client.request("GET", "/readyz")

    assert response.status == 200
    assert caught.value.status == 401


async def test_names_are_percent_encoded() -> None:
    """A name stays one segment of the path; `..` is refused."""
    path = resource_path("apps/v1", "deployments", "team a", "../../secrets?x=1", "scale")

    assert path == "/apis/apps/v1/namespaces/team%20a/deployments/..%2F..%2Fsecrets%3Fx%3D1/scale"
    with pytest.raises(ValueError, match="no name of a Kubernetes object"):
        resource_path("v1", "pods", "default", "..")


async def test_a_list_whose_continue_token_expires() -> None:
    """After a 410 the list starts again; the last try requests all items in one page."""
    async with fake_api() as api, ApiClient(api.config()) as client:
        for number in range(4):
            api.put(PODS, pod(f"web-{number}"))
        api.faults.expired_continues = 2

        listing = await client.list("/api/v1/pods", Pod, page_size=2, idle=PATIENCE)

        assert len(listing.items) == 4
        assert [query.get("limit") for query in api.queries("/pods")] == ["2"] * 4 + [None]


async def test_concurrent_updates_lose_nothing() -> None:
    """The changes of three concurrent writers are all in the object at the end."""
    async with fake_api() as api, ApiClient(api.config()) as client:
        api.put(("v1", "configmaps"), {"metadata": {"name": "a", "namespace": "default"}, "data": {"n": 0}})

        def count(obj: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
            obj["data"]["n"] += 1
            return obj

        path = f"{CONFIGMAPS}/a"
        await asyncio.gather(*(update_with_retry(client, path, count) for _ in range(3)))

        assert (await client.get_json(path))["data"] == {"n": 3}


async def test_an_update_gives_up_after_its_tries() -> None:
    """An object that changes all the time ends in a Conflict after the last try."""
    async with fake_api() as api, ApiClient(api.config()) as client:
        obj = {"metadata": {"name": "a", "namespace": "default"}}
        api.put(("v1", "configmaps"), obj)

        def disturbed(fresh: dict[str, object]) -> dict[str, object]:
            api.put(("v1", "configmaps"), dict(obj))
            return fresh

        with pytest.raises(Conflict):
            await update_with_retry(client, f"{CONFIGMAPS}/a", disturbed)

        assert len([seen for seen in api.seen if seen.method == "PUT"]) == 5


async def test_scale_and_status() -> None:
    """Scale writes carry the version that was read; a status patch does not change the spec."""
    async with fake_api() as api, ApiClient(api.config()) as client:
        deployments = ("apps/v1", "deployments")
        api.put(deployments, {"metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 2}})
        path = resource_path("apps/v1", "deployments", "default", "web")

        read = await get_scale(client, path)
        written = await put_scale(client, path, read, 5)
        with pytest.raises(Conflict):
            await put_scale(client, path, read, 6)
        patched = await patch_status(client, path, {"readyReplicas": 5})

        assert (read.spec.replicas, read.status.selector, written.spec.replicas) == (2, "app=web", 5)
        assert (patched["spec"], patched["status"]) == ({"replicas": 5}, {"readyReplicas": 5})


async def test_swapping_the_configuration() -> None:
    """Requests after the swap go to the new server; requests before it finish on the old one."""
    async with fake_api() as old, fake_api() as new, ApiClient(old.config()) as client:
        await client.request("GET", "/readyz")

        async def slow() -> int:
            return (await client.request("GET", "/version")).status

        async with asyncio.TaskGroup() as group:
            under_way = group.create_task(slow())
            await asyncio.sleep(0)
            await client.use(new.config())
            await client.request("GET", "/readyz")

        assert under_way.result() == 200
        assert [seen.path for seen in new.seen][-1] == "/readyz"


def test_a_context_that_verifies_nothing_has_no_cas() -> None:
    """The CAs of the system are not loaded for it, which would take up to 0.2 s for each member."""
    context = tls_context(verify=False)

    assert context.cert_store_stats()["x509"] == 0
    assert context.verify_mode == ssl.CERT_NONE
    assert not context.check_hostname
