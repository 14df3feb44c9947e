"""Keeps the CA, the serving certificates and the CA bundles of the webhook and the metrics adapter.

One process does so at a time: the holder of the Lease `fedhpa-controller-certificates`. It looks at what is
stored every few seconds, and makes the writes that `certs.keeping` finds due. docs/how-to/certificates.md is
for people.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import functools
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, Literal

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from certs.authority import LEAF_VALIDITY
from certs.certificate_store import SERVICES, CertificateStore
from certs.keeping import CA, EXPIRED, UNFINISHED, Now, Write, ca_problem, due
from certs.stored import CA_SECRET, Problem, Reading
from controller.failure_log import FailureLog, Lines
from controller.flags import (
    CERTIFICATES_HOSTS,
    CERTIFICATES_KUBECONFIG,
    CERTIFICATES_LIFETIME,
    CERTIFICATES_NAMESPACE,
    MANAGE_CERTIFICATES,
)
from fedhpa.api.errors import ConfigError, Conflict
from fedhpa.kube import (
    ApiClient,
    ApiConfig,
    Clock,
    EventRecorder,
    InvolvedObject,
    contain,
    follow_config,
    load_config,
    supervise,
)
from fedhpa.kube.config import in_cluster_config
from fedhpa.serving.flags import Values, common
from fedhpa.serving.flags.members import own_namespace

# Its holder keeps the certificates.
CERTIFICATES_LEASE: Final = "fedhpa-controller-certificates"
# A registration that is created, or an upgrade that empties its caBundle, waits at most this long.
PERIOD_SECONDS: Final = 10.0
# After a write, which others may depend on. API servers read a changed registration within this time, so they
# know a CA before a pod can serve the first certificate of it.
SOON_SECONDS: Final = 1.0
HOUR, DAY = 3_600.0, 86_400.0
# Twice the error of clocks that TLS, tokens and Leases bear.
CLOCK_SKEW: Final = dt.timedelta(minutes=5)
COMPONENT: Final = "fedhpa-certificates"
LINES: Final = Lines("certificates fail", "certificates still fail", "certificates are well again")

log = structlog.get_logger(__name__)


class CertificateMetrics:
    """The series in one registry. Only the leader shows expiries."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._expires = Gauge(
            "fedhpa_controller_certificate_expiration_timestamp_seconds",
            "When a stored certificate expires, as POSIX seconds: ca (the CA that signs), webhook, "
            "metrics-adapter. Only the process that keeps the certificates shows it.",
            ("certificate",),
            registry=registry,
        )
        self._failing = Gauge(
            "fedhpa_controller_certificate_objects_failing",
            "Secrets and registrations that cannot be read or written, or belong to somebody else.",
            registry=registry,
        )
        self._issued = Counter(
            "fedhpa_controller_certificates_issued",
            "Certificates that were created, by certificate; ca is that of the CA.",
            ("certificate",),
            registry=registry,
        )
        for certificate in (CA, *SERVICES):
            self._issued.labels(certificate)

    def show(self, reading: Reading, failing: int) -> None:
        """Shows what is stored, and how many objects fail."""
        found = {CA: reading.ca.signer, **{each.server: each.pair for each in reading.serving}}
        for name, each in found.items():
            if each is None:
                self._expires.remove_by_labels({"certificate": name})
            else:
                self._expires.labels(name).set(each.certificate.not_valid_after_utc.timestamp())
        self._failing.set(failing)

    def clear(self) -> None:
        """Shows nothing, because another process keeps the certificates."""
        self._expires.clear()
        self._failing.set(0)

    def count_issued(self, certificate: str) -> None:
        """Counts a certificate that was created."""
        self._issued.labels(certificate).inc()


class CertificateManager:
    """Keeps the certificates while `leads()` is true. `lifetime` is that of new certificates."""

    def __init__(
        self,
        store: CertificateStore,
        events: EventRecorder,
        metrics: CertificateMetrics,
        *,
        lifetime: dt.timedelta = LEAF_VALIDITY,
        leads: Callable[[], bool] = lambda: True,
        clock: Clock,
    ) -> None:
        self._store = store
        self._lifetime = lifetime
        self._events = events
        self._metrics = metrics
        self._leads = leads
        self._clock = clock
        self._failures: FailureLog[str] = FailureLog(LINES, clock.monotonic, lambda name: {"object": name})
        self._known: dict[str, Problem] = {}
        self._noticed: tuple[str, float] = "", 0.0

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
        reading = await self._store.read()
        now, problems = self._now(reading), dict(reading.problems)
        if not now.agreed:
            text = "the clocks of this process and of the hub differ by more than five minutes: nothing is "
            problems["clocks"] = Problem("ClockSkew", f"{text}renewed until they agree")
        notice = ca_problem(reading, now) or Problem("", "")
        if notice.reason == EXPIRED:
            problems[f"secrets/{CA_SECRET}"] = notice
        elif notice.reason:
            self._notice(notice)
        else:
            self._noticed = "", 0.0
        seconds = PERIOD_SECONDS
        for write in due(reading, self._store.namespace, self._lifetime, now):
            if not self._leads():
                return PERIOD_SECONDS
            task = functools.partial(self._write, write)
            failure = await contain("certificate-write", task, lambda reason: Problem("NotWritten", reason))
            if failure is None:
                seconds = SOON_SECONDS
            else:
                problems[write.name] = failure
        self._tell(problems)
        self._metrics.show(reading, len(problems))
        return seconds

    def _now(self, reading: Reading) -> Now:
        """The hub's time, because API servers verify the certificates. Without it, this process's time."""
        own = dt.datetime.fromtimestamp(self._clock.wall(), dt.UTC)
        return Now(reading.date or own, reading.date is None or abs(reading.date - own) <= CLOCK_SKEW)

    async def _write(self, write: Write) -> Problem | None:
        """Makes one write. After a conflict the next look finds what another client has written."""
        try:
            await self._store.write(write.name, write.body)
        except Conflict:
            return None
        log.info("certificates written", object=write.name, reason=write.reason, detail=write.message)
        if write.issued:
            self._metrics.count_issued(write.issued)
            self._record(write.name, "Normal", write.reason, write.message)
        return None

    def _tell(self, problems: Mapping[str, Problem]) -> None:
        """Tells of each problem when it begins and when it ends, and now and then while it lasts."""
        for name, problem in problems.items():
            self._failures.failing(name, problem.reason, problem.text)
            if self._known.get(name, Problem("", "")).reason != problem.reason:
                self._record(CA_SECRET, "Warning", problem.reason, f"{name}: {problem.text}")
        for name in self._known.keys() - problems.keys():
            self._failures.well(name)
        self._known = dict(problems)

    def _notice(self, notice: Problem) -> None:
        """Tells every day that a person should replace the CA, or finish that, which takes some minutes."""
        now, (reason, due_at) = self._clock.monotonic(), self._noticed
        if reason != notice.reason:
            due_at = now + (HOUR if notice.reason == UNFINISHED else 0.0)
        if now >= due_at:
            due_at = now + DAY
            log.warning("the CA needs a person", reason=notice.reason, detail=notice.text)
            self._record(CA_SECRET, "Warning", notice.reason, notice.text)
        self._noticed = notice.reason, due_at

    def _record(self, name: str, type_: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        about = InvolvedObject("v1", "Secret", name.rpartition("/")[2], self._store.namespace)
        self._events.event(about, type_, reason, message)


async def keep_certificates(
    values: Values,
    hub: ApiClient,
    secrets_at: ApiConfig | None,
    metrics: CertificateMetrics,
    leads: Callable[[], bool],
    clock: Clock,
) -> None:
    """Keeps the certificates while `leads()` is true, until cancelled.

    `secrets_at` is the answer of `secrets_config`.
    """
    namespace = values[CERTIFICATES_NAMESPACE] or own_namespace()
    lifetime = dt.timedelta(seconds=values[CERTIFICATES_LIFETIME])
    async with _secrets_api(secrets_at, values[CERTIFICATES_KUBECONFIG], hub, clock) as secrets_api:
        hosts = values[CERTIFICATES_HOSTS]
        store = CertificateStore(secrets_api, hub, namespace, hosts)
        events = EventRecorder(secrets_api, COMPONENT, wall=clock.wall)
        await CertificateManager(store, events, metrics, lifetime=lifetime, leads=leads, clock=clock).run()


async def secrets_config(values: Values, clock: Clock) -> ApiConfig | None:
    """Returns how to reach the API server that has the Secrets; None if the hub has them.

    Raises ConfigError, which names the flag, if the kubeconfig cannot be used.
    """
    kubeconfig = values[CERTIFICATES_KUBECONFIG]
    in_pod = bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and bool(values[common.KUBECONFIG])
    if not values[MANAGE_CERTIFICATES] or not (kubeconfig or in_pod):
        return None
    if not kubeconfig:
        return in_cluster_config(clock)
    try:
        return await load_config(kubeconfig, clock=clock, flag=f"--{CERTIFICATES_KUBECONFIG.name}")
    except ConfigError as error:
        raise ConfigError(f"--{CERTIFICATES_KUBECONFIG.name}: {error}") from error


@asynccontextmanager
async def _secrets_api(
    config: ApiConfig | None, kubeconfig: str, hub: ApiClient, clock: Clock
) -> AsyncIterator[ApiClient]:
    """Yields the client of the API server that has the Secrets: the hub's, unless another is configured."""
    if config is None:
        yield hub
        return
    async with ApiClient(
        dataclasses.replace(config, name="certificates", connector=hub.config.connector)
    ) as client:
        if not kubeconfig:  # the token is read again when it changes
            yield client
            return
        async with asyncio.TaskGroup() as group:
            follower = group.create_task(
                supervise("certificates-config", lambda: follow_config(client, kubeconfig, clock=clock))
            )
            try:
                yield client
            finally:
                follower.cancel()
