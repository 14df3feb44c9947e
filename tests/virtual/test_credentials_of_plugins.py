"""When exec plugins run: at 80 % of the life of their credential, after a 401, and again after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fedhpa.api.errors import ConfigError
from fedhpa.api.times import format_time
from fedhpa.kube.exec_plugin import Credential, ExecPlugin
from fedhpa.members.sources import plugins
from fedhpa.members.sources.plugins import PluginRun, Plugins
from fedhpa.members.sources.providers import VERSION, Provider
from tests.support.timing import virtual_clock

pytestmark = pytest.mark.looptime(noop_cycles=0)

PROVIDER = Provider("tokens", ExecPlugin(VERSION, "plugin"), ())


class Runs:
    """The plugin: the seconds at which it ran, and what it prints next."""

    def __init__(self) -> None:
        self.at: list[float] = []
        self.life: float | None = 100.0
        self.fails = False
        self.clock = virtual_clock()
        self._began = self.clock.monotonic()

    async def run(self, *_: object, **__: object) -> Credential:
        self.at.append(round(self.clock.monotonic() - self._began, 1))
        if self.fails:
            raise ConfigError("exec plugin plugin failed: exit code 1")
        expiry = None if self.life is None else format_time(self.clock.wall() + self.life)
        return Credential(expiration_timestamp=expiry, token=f"token-{len(self.at)}")


@asynccontextmanager
async def following(
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[tuple[Runs, PluginRun, Callable[[], Any]]]:
    """Keeps the credential of one member."""
    runs = Runs()
    monkeypatch.setattr(plugins, "run_plugin", runs.run)
    made = Plugins((), lambda _: None, clock=runs.clock.monotonic, wall=runs.clock.wall)
    async with asyncio.TaskGroup() as group:
        made.within(group)
        known = made.of("m1", PROVIDER, {})
        yield runs, known, lambda: made.renew("m1")
        made.release("m1")


async def test_a_credential_is_renewed_at_80_per_cent_of_its_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not expire is not renewed at all."""
    async with following(monkeypatch) as (runs, known, _):
        await asyncio.sleep(170)
        runs.life = None
        await asyncio.sleep(10_000)

        assert runs.at == [0.0, 80.0, 160.0, 240.0]
        assert known.credential is not None
        assert known.credential.token == "token-4"


async def test_a_401_runs_the_plugin_at_most_every_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many calls that got a 401 at once wait for one run."""
    async with following(monkeypatch) as (runs, _, renew):
        await asyncio.sleep(10)
        first = await asyncio.gather(*(renew() for _ in range(5)))
        again = await renew()
        await asyncio.sleep(6)
        later = await renew()

        assert runs.at == [0.0, 10.0, 16.0]
        assert (first[0], again, later) == (True, False, True)


async def test_a_failed_renewal_keeps_the_credential_while_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin is tried again with growing pauses of at most a minute."""
    async with following(monkeypatch) as (runs, known, _):
        await asyncio.sleep(50)
        runs.fails = True
        await asyncio.sleep(45)
        alive = known.credential
        await asyncio.sleep(400)
        gone, reason = known.credential, known.reason
        pauses = [after - before for before, after in zip(runs.at, runs.at[1:], strict=False)]
        runs.fails = False
        await asyncio.sleep(61)

        assert alive is not None
        assert (gone, reason) == (None, "exec plugin plugin failed: exit code 1")
        assert all(pause <= 61 for pause in pauses[1:])
        assert known.credential is not None
