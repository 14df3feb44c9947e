"""Credentials that exec plugins print, each kept fresh for one member while somebody uses it.

A plugin is bounded: four run at once, each for ten seconds at most, and its process group ends with it. One
that hangs or prints rubbish costs its own member its credentials, and no other one anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import structlog

from fedhpa.api.errors import ConfigError
from fedhpa.kube import Backoff, supervise
from fedhpa.kube.exec_plugin import Credential, run_plugin
from fedhpa.members.sources.providers import Provider, plugin_environment
from fedhpa.members.sources.source import Changes

log = structlog.get_logger(__name__)

DEADLINE_SECONDS: Final = 10.0
MAX_AT_ONCE: Final = 4
# A credential is renewed when this part of its life is over.
RENEWED_AT: Final = 0.8
# Two runs for one member are at least so far apart, whatever its plugin says and its server refuses.
LEAST_SECONDS: Final = 5.0
FAILED_SECONDS: Final = (5.0, 60.0)
NOT_RUN: Final = "its credentials were not made yet"


class PluginRun:
    """The credential of one member. `reason` says why there is none; `pending` before the first result."""

    def __init__(self, provider: Provider, cluster: Mapping[str, Any]) -> None:
        self.provider, self.cluster = provider, cluster
        self.credential: Credential | None = None
        self.reason = NOT_RUN
        self.pending = True
        self.ran_at = float("-inf")
        self.due = asyncio.Event()
        self.result = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class Plugins:
    """Runs plugins in the task group of `within`. `changed` is called with each member that got a result."""

    def __init__(
        self,
        further: tuple[str, ...],
        changed: Changes,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._further = further
        self._changed = changed
        self._clock = clock
        self._wall = wall
        self._slots = asyncio.Semaphore(MAX_AT_ONCE)
        self._runs: dict[str, PluginRun] = {}
        self._group: asyncio.TaskGroup | None = None

    def within(self, group: asyncio.TaskGroup) -> None:
        """Start the tasks of the plugins in this group."""
        self._group = group

    def of(self, name: str, provider: Provider, cluster: Mapping[str, Any]) -> PluginRun:
        """Returns the credential of a member, which is made anew if provider or cluster have changed."""
        known = self._runs.get(name)
        if known is not None and (known.provider, known.cluster) == (provider, cluster):
            return known
        self.release(name)
        made = self._runs[name] = PluginRun(provider, cluster)
        assert self._group is not None, "records come only while the source runs"
        made.task = self._group.create_task(
            supervise("exec-plugin", lambda: self._follow(name, made), cluster=name)
        )
        return made

    def release(self, name: str) -> None:
        """Forget the credential of a member. Its plugin is ended."""
        known = self._runs.pop(name, None)
        if known is not None and known.task is not None:
            known.task.cancel()
            known.result.set()

    async def renew(self, name: str) -> bool:
        """Make the credential of a member anew, unless that was done a moment ago. True after a run."""
        known = self._runs.get(name)
        if known is None or self._clock() - known.ran_at < LEAST_SECONDS:
            return False
        known.result.clear()
        known.due.set()
        await known.result.wait()
        return True

    async def _follow(self, name: str, run: PluginRun) -> None:
        failed = Backoff(*FAILED_SECONDS)
        while True:
            async with self._slots:
                wait = await self._make(name, run, failed)
            run.pending, run.ran_at = False, self._clock()
            run.due.clear()
            run.result.set()
            self._changed(name)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await run.due.wait()

    async def _make(self, name: str, run: PluginRun, failed: Backoff) -> float | None:
        """Runs the plugin. Returns the seconds until the next run; None if only a 401 asks for one."""
        now = self._wall()
        try:
            found = await run_plugin(
                run.provider.plugin,
                run.cluster,
                deadline=DEADLINE_SECONDS,
                environment=plugin_environment(self._further),
            )
            expiry = found.expiry
            if expiry is not None and expiry <= now:
                raise ConfigError(
                    f"exec plugin {run.provider.plugin.shown} failed: its credential has expired"
                )
        except ConfigError as error:
            log.debug("credentials not made", cluster=name, error=str(error))
            run.reason = str(error)
            known = run.credential
            if known is not None and known.expiry is not None and known.expiry <= now:
                run.credential = None
            return failed.next()
        failed.reset()
        run.credential, run.reason = found, ""
        return None if expiry is None else max((expiry - now) * RENEWED_AT, LEAST_SECONDS)


def usable_text(credential: Credential) -> str:
    """Returns the token of a credential; "" without one. Raises ConfigError if no header can have it."""
    token = credential.token or ""
    if token and not (token.isascii() and token.isprintable() and " " not in token):
        raise ConfigError("its plugin printed a token with characters that no token has")
    return token
