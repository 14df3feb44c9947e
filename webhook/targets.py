"""Looks up on the hub if a scale target exists, without delaying admission.

An admission request waits only a moment for the hub. A late answer serves the next request, and while the
hub does not answer, requests do not wait at all. Concurrent calls and cached answers are bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from fedhpa.api.autoscalers import Target, quoted_name
from fedhpa.api.errors import ApiError, FedHPAError, InvalidObject
from fedhpa.cache import Cache, Fetched
from fedhpa.kube import NOT_FOUND, ApiClient, ResourceMapper, get_scale

log = structlog.get_logger(__name__)

# The time for which an admission request waits for the hub.
PATIENCE_SECONDS: Final = 0.15
# The deadline of a call, whose answer then serves later requests.
CALL_SECONDS: Final = 2.0
# The time without waiting after a call that took too long or failed.
QUIET_SECONDS: Final = 5.0
# A missing target is cached briefly, because it is often created moments later.
FOUND_SECONDS: Final = 10.0
MISSING_SECONDS: Final = 1.0
MAX_CACHED: Final = 1000
MAX_CALLS: Final = 8
# Statuses that say nothing about the target, mostly because of missing permissions for its kind.
REFUSED: Final = (400, 401, 403, 405, 406)
# Kubernetes names are not longer; longer ones are not looked up.
MAX_TEXT: Final = 253


class _NotLookedUpError(Exception):
    """The hub did not answer in time, or too many calls are under way."""


class Targets:
    """Looks up targets on the hub while `run` runs."""

    def __init__(self, client: ApiClient, *, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._mapper = ResourceMapper(client, clock=clock)
        self._answers: Cache[tuple[Target, str], str | None] = Cache(clock=clock, max_entries=MAX_CACHED)
        self._quiet_until = float("-inf")
        self._generation = client.generation
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Run the calls until cancelled, also those that no request waits for any more."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                await asyncio.Event().wait()
            finally:
                self._group = None

    async def problem(self, target: Target, api_version: str) -> str | None:
        """Returns why a target is missing or cannot be scaled; None if it is fine or nothing is known."""
        if not api_version or max(map(len, (api_version, *target))) > MAX_TEXT:
            return None
        if self._generation != self._client.generation:
            self._forget()
        key = (target, api_version)
        known = self._answers.peek(key)
        if known is not None or self._group is None:
            return None if known is None else known.value
        look_up = partial(self._call, target, api_version)
        try:
            if self._clock() < self._quiet_until:
                self._answers.start(key, look_up, admit=self._admit, group=self._group)
                return None
            async with asyncio.timeout(PATIENCE_SECONDS):
                return (await self._answers.get(key, look_up, admit=self._admit, group=self._group)).value
        except TimeoutError:
            self._stay_quiet("no answer yet")
        except _NotLookedUpError:
            pass
        return None

    def _admit(self) -> None:
        if self._answers.in_flight >= MAX_CALLS:
            raise _NotLookedUpError

    async def _call(self, target: Target, api_version: str) -> Fetched[str | None]:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                answer = await self._look_up(target, api_version)
        except Exception as error:
            if not isinstance(error, TimeoutError | FedHPAError):
                # A bug that an odd target triggers must not end other calls or admission.
                log.exception("target not looked up", kind=target.kind[:40])
            self._stay_quiet(str(error) or "no answer")
            raise _NotLookedUpError from error
        return Fetched(answer, self._clock(), ttl=FOUND_SECONDS if answer is None else MISSING_SECONDS)

    async def _look_up(self, target: Target, api_version: str) -> str | None:
        try:
            resource = await self._mapper.resolve(api_version, target.kind, deadline=CALL_SECONDS)
        except InvalidObject:
            return f"the hub serves no kind {quoted_name(target.kind)} of {quoted_name(api_version)}"
        if not resource.scale:
            return f"{target.kind[:30]} has no scale subresource, so nothing can scale it"
        try:
            await get_scale(self._client, resource.path(target.namespace, target.name), deadline=CALL_SECONDS)
        except ApiError as error:
            if error.status == NOT_FOUND:
                return f"{target} does not exist in namespace {quoted_name(target.namespace)}"
            if error.status not in REFUSED:
                raise
            log.debug("target not read", kind=target.kind[:40], error=str(error))
        return None

    def _forget(self) -> None:
        """Forget everything, because the client may use another server now."""
        self._generation = self._client.generation
        self._answers.clear()
        self._mapper = ResourceMapper(self._client, clock=self._clock)

    def _stay_quiet(self, reason: str) -> None:
        log.debug("targets are not waited for", reason=reason, seconds=QUIET_SECONDS)
        self._quiet_until = self._clock() + QUIET_SECONDS
