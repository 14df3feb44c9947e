"""Looks at the stored certificates every few seconds, and makes the writes that are due."""

from __future__ import annotations

import asyncio
import datetime as dt
import functools
from collections.abc import Callable, Mapping
from typing import Final, Literal

import structlog

from certs.hub import SERVING_SECRETS, CertificateStore, Problem, Reading
from certs.secrets import AUTHORITY_SECRET
from certs.stages import Action, Observed, Publish, StoreAuthority, plan
from certs.state import Now, Settings
from controller.certificates.telemetry import CA, CertificateMetrics
from controller.failure_log import FailureLog, Lines
from fedhpa.api.errors import Conflict
from fedhpa.kube import Clock, EventRecorder, InvolvedObject, contain, supervise

# A registration that is created, or an upgrade that empties its caBundle, waits at most this long.
PERIOD_SECONDS: Final = 10.0
# After a conflict, or when a settle time ends.
SOON_SECONDS: Final = 0.5
# A first start has four: the root, the bundles, the new signer, the certificates.
MAX_PASSES: Final = 10
# Twice the error of clocks that TLS, tokens and Leases bear.
CLOCK_SKEW: Final = dt.timedelta(minutes=5)
COMPONENT: Final = "fedhpa-certificates"
LINES: Final = Lines("certificates fail", "certificates still fail", "certificates are well again")
CLOCKS: Final = "clocks"

log = structlog.get_logger(__name__)


class CertificateManager:
    """Keeps the certificates while `leads()` is true."""

    def __init__(
        self,
        store: CertificateStore,
        settings: Settings,
        events: EventRecorder,
        metrics: CertificateMetrics,
        *,
        leads: Callable[[], bool] = lambda: True,
        clock: Clock,
    ) -> None:
        self._store = store
        self._settings = settings
        self._events = events
        self._metrics = metrics
        self._leads = leads
        self._clock = clock
        self._memory = Observed()
        self._failures: FailureLog[str] = FailureLog(LINES, clock.monotonic, _about)
        self._known: dict[str, Problem] = {}
        self._awaited: set[str] = set()

    async def run(self) -> None:
        """Keeps the certificates until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(supervise("certificate-events", self._events.run))
                group.create_task(supervise("certificate-reminders", self._failures.remind))
                group.create_task(supervise("certificates", self._follow))
        finally:
            self._metrics.clear()

    async def _follow(self) -> None:
        while True:
            seconds = await self.reconcile()
            await asyncio.sleep(seconds)

    async def reconcile(self) -> float:
        """Makes the writes that are due. Returns the seconds after which to look again."""
        for _ in range(MAX_PASSES):
            reading = await self._store.read()
            now, problems = self._now(reading), dict(reading.problems)
            if not now.agreed:
                problems[CLOCKS] = Problem(
                    "ClockSkew",
                    "the clocks of this process and of the hub differ by more than five minutes: nothing is "
                    "renewed until they agree",
                )
            planned = plan(reading.state, self._settings, now, self._clock.monotonic(), self._memory)
            self._memory = planned.memory
            changed = False
            for action in planned.actions:
                if not self._leads():
                    return PERIOD_SECONDS
                failure = await contain(
                    "certificate-write", functools.partial(self._write, action, reading), _failed
                )
                if failure is None:
                    changed = True
                elif failure.text:
                    problems[object_of(action)] = failure
            self._tell(problems)
            self._tell_unregistered(reading)
            self._metrics.show(reading, len(problems))
            if not changed:
                waits = [min(PERIOD_SECONDS, self._settings.settle)]
                if planned.wait is not None:
                    waits.append(max(planned.wait, SOON_SECONDS))
                return min(waits)
        return SOON_SECONDS

    def _now(self, reading: Reading) -> Now:
        """The hub's time, because API servers verify the certificates. Without it, this process's time."""
        own = dt.datetime.fromtimestamp(self._clock.wall(), dt.UTC)
        if not reading.dates:
            return Now(own)
        return Now(reading.dates[0], agreed=abs(reading.dates[0] - own) <= CLOCK_SKEW)

    async def _write(self, action: Action, reading: Reading) -> Problem | None:
        """Makes one write. Returns why it was not made, without a text if it is only tried again."""
        try:
            await self._store.write(action, reading)
        except Conflict:
            return Problem("Conflict", "")  # the next look finds what another client has written
        self._report(action)
        return None

    def _report(self, action: Action) -> None:
        if isinstance(action, Publish):
            log.info("CA published", object=action.name, roots=len(action.roots))
            return
        if isinstance(action, StoreAuthority):
            log.info("root changed", reason=action.reason, detail=action.message)
            if action.reason in CREATING:
                self._metrics.count_issued(CA)
            self._record(AUTHORITY_SECRET, "Normal", action.reason, action.message)
        elif action.issued:
            end = action.pair.certificate.not_valid_after_utc
            message = f"issued until {end:%Y-%m-%d %H:%M} UTC: {action.reason}"
            log.info("certificate issued", server=action.server, reason=action.reason, until=str(end))
            self._metrics.count_issued(action.server)
            self._record(SERVING_SECRETS[action.server], "Normal", "CertificateIssued", message)

    def _tell(self, problems: Mapping[str, Problem]) -> None:
        """Tells of each problem when it begins and when it ends, and now and then while it lasts."""
        for name, problem in problems.items():
            self._failures.failing(name, problem.reason, problem.text)
            if self._known.get(name, Problem("", "")).reason != problem.reason:
                message = f"{name}: {problem.text}"
                self._record(AUTHORITY_SECRET, "Warning", problem.reason, message)
        for name in self._known.keys() - problems.keys():
            self._failures.well(name)
        self._known = dict(problems)

    def _tell_unregistered(self, reading: Reading) -> None:
        """Tells once of a server that the hub does not call yet; it may be installed later."""
        unregistered = set(reading.unregistered)
        for server in sorted(unregistered - self._awaited):
            log.info(
                "the hub has no registration of this server yet; its CA is published there", server=server
            )
        self._awaited = unregistered

    def _record(self, secret: str, type_: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        about = InvolvedObject("v1", "Secret", secret, self._store.namespace)
        self._events.event(about, type_, reason, message)


CREATING: Final = frozenset({"RootCreated", "RootReplaced", "RootRotationStarted"})


def object_of(action: Action) -> str:
    """Returns the name of the object that an action writes, as `Reading.objects` has it."""
    if isinstance(action, Publish):
        return action.name
    secret = AUTHORITY_SECRET if isinstance(action, StoreAuthority) else SERVING_SECRETS[action.server]
    return f"secrets/{secret}"


def _failed(reason: str) -> Problem:
    return Problem("NotWritten", reason)


def _about(name: str) -> dict[str, str]:
    return {"object": name}
