"""Whether a target is there: asked of the hub, remembered for seconds, waited for no longer than a blink.

An answer that comes too late serves the next request; while the hub does not answer it is not waited for at
all. Many different targets at once cannot make more than a few calls, nor fill the memory.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import structlog

from fedhpa.api.errors import ApiError, FedHPAError, InvalidObject
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

Asked = tuple[Target, str]


class Targets:
    """Looks targets up on the hub, while `run` runs."""

    def __init__(self, client: ApiClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._mapper = ResourceMapper(client, clock=clock)
        self._kinds: set[tuple[str, str]] = set()
        self._answers: OrderedDict[Asked, tuple[float, str | None]] = OrderedDict()
        self._calls: dict[Asked, asyncio.Task[None]] = {}
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
        asked = (target, api_version)
        until, answer = self._answers.get(asked, (float("-inf"), None))
        if self._clock() < until:
            return answer
        call = self._calls.get(asked) or self._start(asked)
        if call is None or self._clock() < self._quiet_until:
            return None
        await asyncio.wait([call], timeout=PATIENCE_SECONDS)
        if not call.done():
            self._stay_quiet("no answer yet")
            return None
        return self._answers.get(asked, (0.0, None))[1]

    def _start(self, asked: Asked) -> asyncio.Task[None] | None:
        if self._group is None or len(self._calls) >= MAX_CALLS:
            return None
        call = self._group.create_task(self._call(asked))
        self._calls[asked] = call
        call.add_done_callback(lambda _: self._calls.pop(asked, None))
        return call

    async def _call(self, asked: Asked) -> None:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                answer = await self._look(*asked)
        except (TimeoutError, FedHPAError) as error:
            self._stay_quiet(str(error) or "no answer")
            return
        except Exception:
            # A defect that somebody's odd target meets must end neither other calls nor admission.
            log.exception("target not looked up", kind=asked[0].kind[:40])
            self._stay_quiet("defect")
            return
        lifetime = FOUND_SECONDS if answer is None else MISSING_SECONDS
        self._answers[asked] = (self._clock() + lifetime, answer)
        self._answers.move_to_end(asked)
        while len(self._answers) > MAX_REMEMBERED:
            self._answers.popitem(last=False)

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
