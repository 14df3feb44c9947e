"""Exec plugins and identity providers that are slow, or fail in any way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from benchmarks.world.network import MemoryNetwork
from fedhpa.api.errors import ApiError, ConfigError
from fedhpa.kube import SYSTEM
from fedhpa.kube.client import ApiClient
from fedhpa.kube.credentials import PLUGIN_DEADLINE_SECONDS, PluginCredentials
from fedhpa.kube.reflector import Reflector
from fedhpa.kube.transport import CREDENTIALS
from tests.support.fakeapi import PODS, FakeApi, fake_api, pod

pytestmark = pytest.mark.looptime(noop_cycles=0)

PATH = "/api/v1/pods"
Answer = tuple[str | None, float | None]


def clock() -> float:
    return asyncio.get_running_loop().time()


class Plugin:
    """A plugin whose runs take a while, and end as they are told."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.runs = 0
        self.cancelled = 0
        self.error: BaseException | None = None
        self.lifetime: float | None = 300.0

    async def load(self) -> Answer:
        self.runs += 1
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return f"Bearer {self.runs}", None if self.lifetime is None else clock() + self.lifetime


def client_of(api: FakeApi, plugin: Plugin, first: Answer = ("Bearer 0", 0.0)) -> ApiClient:
    return ApiClient(api.config(PluginCredentials(plugin.load, first, wall=clock)))


async def test_a_slow_plugin_runs_once_for_all_callers_and_ends() -> None:
    """Calls of 10 s give up and blame the plugin. Its one run of 30 s goes on and serves later calls."""
    plugin = Plugin(30)
    async with fake_api(network=MemoryNetwork()) as api, client_of(api, plugin) as client:
        failures = await asyncio.gather(
            *(client.get_json("/version") for _ in range(5)), return_exceptions=True
        )
        await asyncio.sleep(10)
        with pytest.raises(ApiError, match="exec plugin"):
            await client.get_json("/version")
        found = await client.get_json("/version")

    assert {getattr(error, "reason", None) for error in failures} == {CREDENTIALS}
    assert all("exec plugin" in str(error) for error in failures)
    assert found == {"gitVersion": "v1.36.3"}
    assert (plugin.runs, plugin.cancelled) == (1, 0)
    assert api.seen[-1].authorization == "Bearer 1"


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no token"),
        KeyError("id-token"),
        RuntimeError("boom"),
        OSError(2, "No such file or directory"),
        TypeError("'NoneType' object is not subscriptable"),
        RecursionError("too deep"),
        ConfigError("exec plugin x failed"),
        ExceptionGroup("several", [ValueError("one")]),
    ],
    ids=repr,
)
async def test_a_plugin_that_fails_in_any_way_ends_no_reflector(error: Exception) -> None:
    """The reflector shows that the credentials fail, and lists once the plugin answers again."""
    plugin = Plugin()
    plugin.error = error
    async with fake_api(network=MemoryNetwork()) as api, client_of(api, plugin) as client:
        api.put(PODS, pod("a"))
        reflector = Reflector(
            client, PATH, dict[str, Any], lambda item: item["metadata"]["name"], clock=SYSTEM.monotonic
        )
        task = asyncio.create_task(reflector.run())
        await asyncio.sleep(120)

        assert not task.done()
        assert "credentials" in str(reflector.problem)
        assert plugin.runs <= 120 / 5 + 1
        plugin.error = None
        await asyncio.sleep(60)
        assert list(reflector.store.values()) == ["a"]
        assert reflector.problem is None
        task.cancel()
        await asyncio.wait([task])


async def test_renewal_goes_on_after_a_failure() -> None:
    """A failed renewal before the expiry is repeated while the old token is still used, without a 401."""
    plugin = Plugin()
    plugin.error = ValueError("identity provider is down")
    source = PluginCredentials(plugin.load, ("Bearer 0", clock() + 300), wall=clock)
    await asyncio.sleep(245)
    during = [await source.authorization() for _ in range(3)]
    plugin.error = None
    await asyncio.sleep(6)

    assert during == ["Bearer 0"] * 3
    assert await source.authorization() == "Bearer 2"
    assert plugin.runs == 2


async def test_a_valid_token_does_not_wait_for_a_slow_renewal() -> None:
    """In the minute before the expiry calls go on with the old token, while the plugin runs once."""
    plugin = Plugin(20)
    source = PluginCredentials(plugin.load, ("Bearer 0", clock() + 300), wall=clock)
    await asyncio.sleep(245)
    began = clock()
    tokens = [await source.authorization() for _ in range(3)]
    took = clock() - began
    await asyncio.sleep(20)

    assert tokens == ["Bearer 0"] * 3
    assert took < 5
    assert await source.authorization() == "Bearer 1"
    assert plugin.runs == 1


async def test_a_plugin_that_hangs_is_given_up_and_run_again() -> None:
    """A run ends at its deadline. The error says so, and a later call runs the plugin again."""
    plugin = Plugin(10_000)
    source = PluginCredentials(plugin.load, ("Bearer 0", 0.0), wall=clock)
    began = clock()
    with pytest.raises(ConfigError, match="no answer within 60 s"):
        await source.authorization()
    assert clock() - began == pytest.approx(PLUGIN_DEADLINE_SECONDS, abs=1)
    plugin.seconds = 1
    await asyncio.sleep(6)

    assert await source.authorization() == "Bearer 2"


async def test_a_401_whose_renewal_fails_blames_the_credentials() -> None:
    """The error of a call that got 401 names the credentials, if they cannot be renewed."""
    plugin = Plugin()
    plugin.error = KeyError("status")
    async with fake_api(network=MemoryNetwork()) as api:
        api.token = "new"
        async with client_of(api, plugin, ("Bearer old", None)) as client:
            with pytest.raises(ApiError, match="credentials cannot be renewed") as failed:
                await client.get_json("/version")

    assert failed.value.reason == CREDENTIALS
