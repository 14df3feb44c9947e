"""Liveness and readiness endpoints in the form of Kubernetes' own servers.

A latching check never fails again after it has passed. If an aggregated API server became unready because a
member cluster is lost, the hub would mark its API unavailable and block the deletion of namespaces.
"""

from __future__ import annotations

import structlog
from aiohttp import web

logger = structlog.get_logger(__name__)


class ReadinessCheck:
    """One named readiness condition. It fails until `succeed` is called."""

    def __init__(self, name: str, *, latches: bool, reason: str) -> None:
        self.name = name
        self.ok = False
        self.reason = reason
        # A warning for operators that fails no check.
        self.note = ""
        self._latches = latches

    def succeed(self) -> None:
        """Marks the check as passed."""
        if not self.ok:
            logger.info("readiness check passed", check=self.name)
        self.ok, self.reason = True, ""

    def fail(self, reason: str) -> None:
        """Marks the check as failed; has no effect on a latching check that has passed."""
        if self.ok and self._latches:
            return
        if self.ok:
            logger.warning("readiness check failed", check=self.name, reason=reason)
        self.ok, self.reason = False, reason


class Health:
    """The readiness checks of a process and the three paths that serve them."""

    def __init__(self) -> None:
        self._checks: dict[str, ReadinessCheck] = {}
        self._shutdown = self.readiness("shutdown", latches=False)
        self._shutdown.ok = True

    def readiness(self, name: str, *, latches: bool, reason: str = "not yet") -> ReadinessCheck:
        """Registers a check that /readyz requires; `reason` is shown until the check passes."""
        check = ReadinessCheck(name, latches=latches, reason=reason)
        self._checks[name] = check
        return check

    @property
    def ready(self) -> bool:
        """True if every check passes."""
        return all(check.ok for check in self._checks.values())

    def drain(self) -> None:
        """Makes the process unready because it is about to stop."""
        self._shutdown.ok, self._shutdown.reason = False, "the process is stopping"

    def routes(self) -> list[web.RouteDef]:
        """Returns /livez, /healthz and /readyz, each also with a trailing slash and per check."""
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
            _passed_line(check) if check.ok else f"[-]{check.name} failed: {check.reason}" for check in checks
        ]
        if passed and "verbose" not in request.query:
            return web.Response(text="ok")
        verdict = f"{endpoint} check {'passed' if passed else 'failed'}"
        return web.Response(status=200 if passed else 500, text="\n".join([*lines, verdict, ""]))


def _passed_line(check: ReadinessCheck) -> str:
    return f"[+]{check.name} ok" + (f" ({check.note})" if check.note else "")
