"""Asks a member for the identity of its cluster: the UID of its namespace kube-system."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from fedhpa.api.errors import ApiError
from fedhpa.api.identity import IDENTITY_PATH, valid_uid
from fedhpa.api.wire import WithMetadata
from fedhpa.kube import (
    FORBIDDEN,
    MULTIPLE_CHOICES,
    SERVER_ERRORS,
    TOO_MANY_REQUESTS,
    UNAUTHORIZED,
    Backoff,
)
from fedhpa.members.client import MemberClient

log = structlog.get_logger(__name__)

RETRY_SECONDS: Final = (1.0, 60.0)
# A right that was granted meanwhile is noticed after this.
REFUSED_SECONDS: Final = 600.0


class IdentityReader:
    """Asks a member for its UID whenever it is `due`, while `run` runs.

    `uid` is the last answer, "" if the member did not give one. `asked` is True once the member has answered
    or refused to, and is set back when its access changes. No breaker counts the request, so a member that
    leaves it unanswered stays as it is.
    """

    def __init__(self, client: MemberClient, on_change: Callable[[], None]) -> None:
        self.uid = ""
        self.asked = False
        self._client = client
        self._on_change = on_change
        self._due = asyncio.Event()
        self._refused = ""

    def due(self) -> None:
        """Ask soon, because the member has appeared."""
        self._due.set()

    async def run(self) -> None:
        """Ask until cancelled."""
        retry, wait = Backoff(*RETRY_SECONDS), None
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._due.wait()
            if self._due.is_set():
                self._due.clear()
                retry.reset()
            wait = await self._ask(retry)

    async def _ask(self, retry: Backoff) -> float | None:
        """Ask once. Returns the seconds until the next question; None until the member appears again."""
        generation = self._client.generation
        uid, refused, forbidden = "", "", False
        try:
            answer = await self._client.probe(IDENTITY_PATH)
            uid = valid_uid(answer.decode(WithMetadata).metadata.uid)
        except ApiError as error:
            if _is_no_answer(error):
                return None if self._client.breaker.reason is not None else retry.next()
            forbidden = error.status == FORBIDDEN
            if error.status >= MULTIPLE_CHOICES:
                # Not the error's text, which the member has written.
                refused = f"{IDENTITY_PATH} answers HTTP {error.status}"
        if generation != self._client.generation:
            return None  # the access has changed meanwhile
        if not uid and not refused:
            refused = f"{IDENTITY_PATH} is answered without a usable UID"
        if refused and refused != self._refused:
            write = log.warning if forbidden else log.info
            remedy = ": allow the member's token to get the namespace kube-system" if forbidden else ""
            write(f"cluster identity not read{remedy}", cluster=self._client.config.name, error=refused)
        self._refused = refused
        if self.asked:
            uid = uid or self.uid  # the access is that of the last answer, and so is the cluster
        changed = (uid, True) != (self.uid, self.asked)
        self.uid, self.asked = uid, True
        if changed:
            self._on_change()
        return REFUSED_SECONDS if refused else None


def _is_no_answer(error: ApiError) -> bool:
    status = error.status
    return not status or status >= SERVER_ERRORS or status in (UNAUTHORIZED, TOO_MANY_REQUESTS)
