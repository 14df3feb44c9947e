"""The bearer token with which a member is called."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

# A 401 this soon after the token was replaced may concern the old token.
JUST_NOW_SECONDS: Final = 5.0


class MemberToken:
    """The bearer token of a member; after a 401 its source is asked for another one at once."""

    def __init__(self, token: str, reread: Callable[[], Awaitable[None]], clock: Callable[[], float]) -> None:
        self._header = _header(token)
        self._reread = reread
        self._clock = clock
        self._replaced_at = float("-inf")

    def __repr__(self) -> str:
        return "MemberToken(...)"

    def replace(self, token: str) -> None:
        """Use another token from now on. Connections and watches stay open."""
        self._header = _header(token)
        self._replaced_at = self._clock()

    async def authorization(self) -> str | None:
        """Returns the header with the token; None for a member without one."""
        return self._header

    async def renew(self) -> bool:
        """Ask the source. Returns True if the token has changed, also if it changed a moment ago."""
        before = self._header
        if self._clock() - self._replaced_at >= JUST_NOW_SECONDS:
            await self._reread()
        return self._header != before or self._clock() - self._replaced_at < JUST_NOW_SECONDS


def _header(token: str) -> str | None:
    return f"Bearer {token}" if token else None
