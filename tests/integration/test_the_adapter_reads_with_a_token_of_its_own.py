"""The adapter reaches a member with the token that only reads metrics, else with the controller's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from benchmarks.world.network import MemoryNetwork
from fedhpa.api.member_sources import MemberSources
from fedhpa.api.membership import METRICS_ANNOTATION
from fedhpa.kube.client import ApiClient
from fedhpa.members.registry import MemberRegistry
from tests.support.fakeapi import CLUSTERS, SECRETS, FakeApi, cluster, eventually, secret
from tests.support.members import DEADLINE, PROBE_PERIOD
from tests.support.timing import background, virtual_clock

pytestmark = pytest.mark.looptime(noop_cycles=0)


class Seen:
    """A hub with one member, as the adapter or the controller follows them."""

    def __init__(self, hub: FakeApi, member: FakeApi, registry: MemberRegistry) -> None:
        self.hub, self.member, self.registry = hub, member, registry

    @property
    def token(self) -> str | None:
        """The token in use; None without one."""
        found = self.registry.registered.get("m1")
        return None if found is None or found.access is None else found.access.token

    async def uses(self, token: str) -> None:
        """Waits until the member is reached with the token."""
        self.member.token = token
        await eventually(lambda: self.token == token)
        await eventually(lambda: self.registry.registered["m1"].state.ready)


@asynccontextmanager
async def followed(
    *tokens: str, annotation: str = "", refused: str = "", reads_metrics: bool = True
) -> AsyncIterator[Seen]:
    """Yields the world. `tokens` are the names of Secrets in `creds`, each with a token of its name."""
    network = MemoryNetwork()
    async with AsyncExitStack() as stack:
        hub, member = [await stack.enter_async_context(FakeApi(network=network)) for _ in range(2)]
        if refused:
            hub.faults.status[refused] = 403
        for name in tokens:
            hub.put(SECRETS, secret(name, token=name))
        registered = cluster("m1", member.url)
        if annotation:
            registered["metadata"]["annotations"] = {METRICS_ANNOTATION: annotation}
        hub.put(CLUSTERS, registered)
        client = await stack.enter_async_context(ApiClient(hub.config()))
        registry = MemberRegistry(
            client,
            deadline=DEADLINE,
            probe_period=PROBE_PERIOD,
            sources=MemberSources(reads_metrics=reads_metrics),
            clock=virtual_clock(),
        )
        await stack.enter_async_context(background(registry.run()))
        yield Seen(hub, member, registry)


async def test_the_adapter_has_a_token_of_its_own() -> None:
    """The Secret with the ending -metrics comes first, also if it appears or goes later."""
    async with followed("m1") as seen:
        await seen.uses("m1")
        seen.hub.put(SECRETS, secret("m1-metrics", token="m1-metrics"))
        await seen.uses("m1-metrics")
        seen.hub.remove(SECRETS, "m1-metrics", "creds")
        await seen.uses("m1")


async def test_the_controller_never_takes_it() -> None:
    async with followed("m1", "m1-metrics", reads_metrics=False) as seen:
        await seen.uses("m1")


async def test_an_annotation_names_it() -> None:
    async with followed("m1", "m1-metrics", "reader", annotation="creds/reader") as seen:
        await seen.uses("reader")


@pytest.mark.parametrize("annotation", ["other/m1", "no-namespace", "../m1"])
async def test_a_secret_that_cannot_be_had_is_no_obstacle(annotation: str) -> None:
    """The hub refuses it, as where the rights are older than the Secret, or the name is none."""
    async with followed("m1", annotation=annotation, refused="/api/v1/namespaces/other/") as seen:
        await seen.uses("m1")


async def test_after_a_401_the_token_in_use_is_read_again() -> None:
    async with followed("m1", "m1-metrics") as seen:
        await seen.uses("m1-metrics")
        seen.hub.put(SECRETS, secret("m1-metrics", token="renewed"))
        seen.member.token = "renewed"

        assert await seen.registry.registered["m1"].client.get_json("/version")
        await seen.uses("renewed")
