"""Sources of the Authorization header, and their renewal.

A client calls its source before every request, so that a rotated token is used at once. After a 401 the
client calls `renew` and repeats the request if the header has changed. No repr contains a secret.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import structlog

from fedhpa.api.errors import ConfigError
from fedhpa.kube.supervision import explain

log = structlog.get_logger(__name__)

# The kubelet replaces a service account token at 80 % of its lifetime, minutes before it expires. client-go
# reads the file once a minute, too.
FILE_PERIOD_SECONDS = 60.0
# An exec plugin may wait for a person or a slow identity provider; unlike kubectl, a daemon must not hang.
PLUGIN_DEADLINE_SECONDS = 60.0
# A credential is renewed this long before it expires, so that it stays valid during a request.
EXPIRY_LEEWAY_SECONDS = 60.0
# A valid credential is used on while the plugin takes longer than this.
QUICK_SECONDS = 1.0
# A plugin that failed runs again after this.
FAILURE_SECONDS = 5.0


class Credentials(Protocol):
    """A source of the Authorization header."""

    async def authorization(self) -> str | None:
        """Returns the header's value; None means no header."""
        ...

    async def renew(self) -> bool:
        """Look for a new credential after a 401. Returns True if there is one."""
        ...


class NoCredentials:
    """Sends no Authorization header, for clients with a certificate or without credentials."""

    _value: str | None = None

    async def authorization(self) -> str | None:
        """Returns the header's value, which never changes."""
        return self._value

    async def renew(self) -> bool:
        """Returns False: there is nothing to renew."""
        return False


class StaticCredentials(NoCredentials):
    """A header value that never changes."""

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return "StaticCredentials(...)"


class FileToken:
    """A bearer token in a file that is rotated from outside, e.g. by the kubelet."""

    def __init__(self, path: Path, *, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._token = ""
        self._read_at = float("-inf")

    def __repr__(self) -> str:
        return f"FileToken({str(self._path)!r})"

    async def authorization(self) -> str | None:
        """Returns the token, read at most once a minute. Raises ConfigError if it was never readable."""
        if self._clock() - self._read_at >= FILE_PERIOD_SECONDS:
            self._read()
        return f"Bearer {self._token}"

    async def renew(self) -> bool:
        """Read the file now. Returns True if the token has changed."""
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
            # During a rotation the file may be missing for a moment; the last token stays in use.
            raise ConfigError(f"token file {self._path} {cause}: mount the token or correct tokenFile")


class PluginCredentials:
    """A header from an exec plugin or an identity provider, renewed before it expires and after a 401.

    `load` runs the plugin and returns (header value or None, expiry in POSIX seconds or None). A run belongs
    to no caller: all callers share it, and a caller that gives up does not end it.
    """

    def __init__(
        self,
        load: Callable[[], Awaitable[tuple[str | None, float | None]]],
        first: tuple[str | None, float | None],
        *,
        wall: Callable[[], float],
    ) -> None:
        self._load = load
        self._value, self._expiry = first
        self._wall = wall
        self._run: asyncio.Task[None] | None = None
        self._failure: str | None = None
        self._failed_at = float("-inf")

    def __repr__(self) -> str:
        return "PluginCredentials(...)"

    async def authorization(self) -> str | None:
        """Returns the header. Renews one that is about to expire; while it is valid, that is not waited for.

        Raises ConfigError if the header has expired and the plugin fails.
        """
        now = self._wall()
        if self._expiry is None or now < self._expiry - EXPIRY_LEEWAY_SECONDS:
            return self._value
        if now >= self._expiry:
            await self._renewed()
        elif self._may_run():
            # Most plugins are quick.
            await asyncio.wait([self._running()], timeout=QUICK_SECONDS)
        return self._value

    async def renew(self) -> bool:
        """Run the plugin, once for concurrent callers. Returns True if the header has changed.

        Raises ConfigError if the plugin fails.
        """
        before = self._value
        await self._renewed()
        return self._value != before

    async def _renewed(self) -> None:
        if self._may_run():
            await asyncio.wait([self._running()])
        if self._failure is not None:
            raise ConfigError(
                f"its credentials cannot be renewed: {self._failure}: run the exec plugin of the kubeconfig"
                " by hand, or check its identity provider"
            )

    def _may_run(self) -> bool:
        return self._run is not None or self._wall() - self._failed_at >= FAILURE_SECONDS

    def _running(self) -> asyncio.Task[None]:
        if self._run is None:
            # No caller's task group may own the run, because it must outlive the caller. It has a deadline.
            self._run = asyncio.create_task(self._run_once())
        return self._run

    async def _run_once(self) -> None:
        try:
            async with asyncio.timeout(PLUGIN_DEADLINE_SECONDS):
                self._value, self._expiry = await self._load()
            self._failure, self._failed_at = None, float("-inf")
        except TimeoutError:
            self._failed(f"no answer within {PLUGIN_DEADLINE_SECONDS:g} s")
        # Plugins, identity providers and the library that calls them raise errors of any kind.
        except Exception as error:
            self._failed(explain(error))
        finally:
            self._run = None

    def _failed(self, failure: str) -> None:
        log.warning("credentials not renewed", error=failure)
        self._failure, self._failed_at = failure, self._wall()
