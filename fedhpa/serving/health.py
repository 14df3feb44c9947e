"""Liveness and readiness in the form Kubernetes' own servers give them.

A check that latches stays true once it was: an aggregated API server that turned unready because a member
is away would be called unavailable by the hub, which then blocks the deletion of namespaces.
"""

from __future__ import annotations

import structlog
from aiohttp import web

logger = structlog.get_logger(__name__)


class ReadinessCheck:
    """One named condition of being ready; not met until `succeed` was called."""

    def __init__(self, name: str, *, latches: bool, reason: str) -> None:
        self.name = name
        self.ok = False
        self.reason = reason
        self._latches = latches

    def succeed(self) -> None:
        """The condition is met."""
        if not self.ok:
            logger.info("readiness check passed", check=self.name)
        self.ok, self.reason = True, ""

    def fail(self, reason: str) -> None:
        """The condition is not met, because of `reason`; without effect once a latching check has passed."""
        if self.ok and self._latches:
            return
        if self.ok:
            logger.warning("readiness check failed", check=self.name, reason=reason)
        self.ok, self.reason = False, reason


class Health:
    """The checks of a process and the three paths that show them."""

    def __init__(self) -> None:
        self._checks: dict[str, ReadinessCheck] = {}
        self._shutdown = self.readiness("shutdown", latches=False)
        self._shutdown.ok = True

    def readiness(self, name: str, *, latches: bool, reason: str = "not yet") -> ReadinessCheck:
        """Register a check that /readyz waits for; `reason` is shown until it passes."""
        check = ReadinessCheck(name, latches=latches, reason=reason)
        self._checks[name] = check
        return check

    @property
    def ready(self) -> bool:
        """Whether every check passes."""
        return all(check.ok for check in self._checks.values())

    def drain(self) -> None:
        """From now on not ready: the process is about to stop."""
        self._shutdown.ok, self._shutdown.reason = False, "the process is stopping"

    def routes(self) -> list[web.RouteDef]:
        """/livez, /healthz and /readyz, each also with a trailing slash and by check."""
        handlers = {"livez": self._live, "healthz": self._live, "readyz": self._ready}
        return [
            web.get(f"/{name}{tail}", handler)
            for name, handler in handlers.items()
            for tail in ("", "/", "/{check}")
        ]

    async def _live(self, request: web.Request) -> web.Response:
        return self._answer(request, [])

    async def _ready(self, request: web.Request) -> web.Response:
        return self._answer(request, list(self._checks.values()))

    def _answer(self, request: web.Request, checks: list[ReadinessCheck]) -> web.Response:
        endpoint = request.path.strip("/").partition("/")[0]
        ping = ReadinessCheck("ping", latches=True, reason="")
        ping.ok = True
        checks = [ping, *checks]
        wanted = request.match_info.get("check")
        if wanted is not None:
            checks = [check for check in checks if check.name == wanted]
            if not checks:
                return web.Response(status=404, text="404 page not found\n")
        passed = all(check.ok for check in checks)
        lines = [
            f"[+]{check.name} ok" if check.ok else f"[-]{check.name} failed: {check.reason}"
            for check in checks
        ]
        if passed and "verbose" not in request.query:
            return web.Response(text="ok")
        verdict = f"{endpoint} check {'passed' if passed else 'failed'}"
        return web.Response(status=200 if passed else 500, text="\n".join([*lines, verdict, ""]))
