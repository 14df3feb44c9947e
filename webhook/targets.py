"""Whether a target is there: asked of the hub, remembered for seconds, waited for no longer than a blink.

An answer that comes too late serves the next request; while the hub does not answer it is not waited for at
all. Many different targets at once cannot make more than a few calls, nor fill the memory.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from fedhpa.api.errors import ApiError, FedHPAError, InvalidObject
from fedhpa.cache import Cache, Fetched
from fedhpa.kube.client import ApiClient
from fedhpa.kube.mapping import Resource, ResourceMapper
from webhook.owners import Target, named

log = structlog.get_logger(__name__)

# How long an admission request waits for an answer of the hub.
PATIENCE_SECONDS: Final = 0.15
# How long the answer may take to be of use to somebody else.
CALL_SECONDS: Final = 2.0
# After a call that took too long or failed, for how long none is waited for.
QUIET_SECONDS: Final = 5.0
# A target that is there stays for a while; one that is missing is about to be created.
FOUND_SECONDS: Final = 10.0
MISSING_SECONDS: Final = 1.0
MAX_REMEMBERED: Final = 1000
MAX_CALLS: Final = 8
# Kinds that discovery was asked about; more of them than any hub serves are somebody's inventions.
MAX_KINDS: Final = 500
NOT_FOUND: Final = 404
# Answers that say nothing about the target, and that waiting does not mend: no rights on this kind, mostly.
REFUSED: Final = (400, 401, 403, 405, 406)
# Longer ones than this are no names, and nothing to ask about.
MAX_TEXT: Final = 253


class _NotLookedUpError(Exception):
    """The hub did not answer in time, or was not asked because too many calls are under way."""


class Targets:
    """Looks targets up on the hub, while `run` runs."""

    def __init__(self, client: ApiClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._mapper = ResourceMapper(client, clock=clock)
        self._kinds: set[tuple[str, str]] = set()
        self._answers: Cache[tuple[Target, str], str | None] = Cache(clock=clock, max_entries=MAX_REMEMBERED)
        self._quiet_until = float("-inf")
        self._generation = client.generation
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Keep the calls that nobody waits for any more; until cancelled, which ends them."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                await asyncio.Event().wait()
            finally:
                self._group = None

    async def problem(self, target: Target, api_version: str) -> str | None:
        """What is wrong with a target: it is not there, or cannot be scaled. None if nothing is known."""
        if not api_version or max(map(len, (api_version, *target))) > MAX_TEXT:
            return None
        if self._generation != self._client.generation:
            self._forget()
        key = (target, api_version)
        known = self._answers.peek(key)
        if known is not None:
            return known.value
        if self._group is None:
            return None
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
                answer = await self._look(target, api_version)
        except (TimeoutError, FedHPAError) as error:
            self._stay_quiet(str(error) or "no answer")
            raise _NotLookedUpError from error
        except Exception as error:
            # A defect that somebody's odd target meets must end neither other calls nor admission.
            log.exception("target not looked up", kind=target.kind[:40])
            self._stay_quiet("defect")
            raise _NotLookedUpError from error
        return Fetched(answer, self._clock(), ttl=FOUND_SECONDS if answer is None else MISSING_SECONDS)

    async def _look(self, target: Target, api_version: str) -> str | None:
        self._kinds.add((api_version, target.kind))
        if len(self._kinds) > MAX_KINDS:
            self._forget_kinds()
        try:
            resource = await self._mapper.resolve(api_version, target.kind, deadline=CALL_SECONDS)
        except InvalidObject:
            return f"the hub serves no kind {named(target.kind)} of {named(api_version)}"
        if not resource.scale:
            return f"{target.kind[:30]} has no scale subresource, so nothing can scale it"
        return await self._scale_problem(target, resource)

    async def _scale_problem(self, target: Target, resource: Resource) -> str | None:
        path = resource.path(target.namespace, target.name, "scale")
        try:
            await self._client.request("GET", path, deadline=CALL_SECONDS)
        except ApiError as error:
            if error.status == NOT_FOUND:
                return f"{target} does not exist in namespace {named(target.namespace)}"
            if error.status in REFUSED:
                return None
            raise
        return None

    def _forget(self) -> None:
        """Another server may be behind the client from now on."""
        self._generation = self._client.generation
        self._answers.clear()
        self._forget_kinds()

    def _forget_kinds(self) -> None:
        self._kinds.clear()
        self._mapper = ResourceMapper(self._client, clock=self._clock)

    def _stay_quiet(self, reason: str) -> None:
        log.debug("targets are not waited for", reason=reason, seconds=QUIET_SECONDS)
        self._quiet_until = self._clock() + QUIET_SECONDS
