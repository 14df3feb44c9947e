"""Where the Authorization header of a request comes from, and how it is renewed.

A source is asked before every request, so a rotated token is used without rebuilding a client; after
a 401 the client calls `renew` and tries once more if that brought something new. No source ever shows
its secret in a repr.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from fedhpa.api.errors import ConfigError

# The kubelet writes a bound service account token anew at 80 % of its life (at least minutes ahead), so
# a file need not be looked at more often than this (client-go: once a minute).
FILE_PERIOD_SECONDS = 60.0
# An exec plugin may ask a person or a slow identity provider; kubectl waits for ever, a daemon must not.
PLUGIN_DEADLINE_SECONDS = 60.0
# A credential is renewed this long before it expires, so that a request in flight does not meet the end.
EXPIRY_LEEWAY_SECONDS = 60.0


class Credentials(Protocol):
    """A source of the Authorization header."""

    async def authorization(self) -> str | None:
        """The header's value, or None to send none."""
        ...

    async def renew(self) -> bool:
        """Look for a newer credential after a 401; True if there is one."""
        ...


class NoCredentials:
    """Sends no Authorization header: a client certificate, or nothing, says who we are."""

    async def authorization(self) -> str | None:
        """Always None."""
        return None

    async def renew(self) -> bool:
        """Never anything newer."""
        return False


class StaticCredentials:
    """A header value that never changes."""

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return "StaticCredentials(...)"

    async def authorization(self) -> str | None:
        """The value given."""
        return self._value

    async def renew(self) -> bool:
        """Never anything newer."""
        return False


class FileToken:
    """A bearer token in a file that somebody else rotates."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._token = ""
        self._read_at = float("-inf")

    def __repr__(self) -> str:
        return f"FileToken({str(self._path)!r})"

    async def authorization(self) -> str | None:
        """The file's token, read at most once a minute. ConfigError if it was never readable."""
        if self._clock() - self._read_at >= FILE_PERIOD_SECONDS:
            self._read()
        return f"Bearer {self._token}"

    async def renew(self) -> bool:
        """Read the file at once; True if the token in it is another."""
        before = self._token
        self._read()
        return self._token != before

    def _read(self) -> None:
        try:
            token = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            token, cause = "", f"cannot be read ({error})"
        else:
            cause = "is empty"
        if token:
            self._token, self._read_at = token, self._clock()
        elif not self._token:
            # A file that vanishes for a moment in a rotation does not void the token already known.
            raise ConfigError(f"token file {self._path} {cause}: mount the token or correct tokenFile")


class PluginCredentials:
    """A header from an exec plugin or an identity provider, run again before it expires and after a 401.

    `load` runs the plugin and gives (header value or None, expiry as POSIX seconds or None).
    """

    def __init__(
        self,
        load: Callable[[], Awaitable[tuple[str | None, float | None]]],
        first: tuple[str | None, float | None],
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._load = load
        self._value, self._expiry = first
        self._wall = wall
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        return "PluginCredentials(...)"

    async def authorization(self) -> str | None:
        """The current header; runs the plugin first when the known one is about to expire."""
        if self._expiry is not None and self._wall() >= self._expiry - EXPIRY_LEEWAY_SECONDS:
            await self.renew()
        return self._value

    async def renew(self) -> bool:
        """Run the plugin, once for all who ask at the same time; True if the header is another."""
        before = self._value
        async with self._lock:
            if self._value == before:
                async with asyncio.timeout(PLUGIN_DEADLINE_SECONDS):
                    self._value, self._expiry = await self._load()
            return self._value != before
