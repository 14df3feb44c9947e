"""The process fedhpa-metrics-adapter: wiring, readiness and life cycle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

import structlog

from fedhpa.api.errors import ApiError
from fedhpa.kube import FAILURE_OBSERVER, ApiClient, Clock, background, follow_config, supervise
from fedhpa.members import MemberRegistry, SharedLists
from fedhpa.serving import (
    CallerSeries,
    Health,
    LiveTrust,
    Peers,
    ReadinessCheck,
    ServingTls,
    Signals,
    TlsFiles,
    TlsServer,
    TrustFiles,
    http_listeners,
    hub_config,
    register_certificate,
    review_problem,
    run_program,
)
from fedhpa.serving.authentication import Authenticator, TokenReviewer
from fedhpa.serving.authorization import Authorizer, Guard
from fedhpa.serving.flags import Values, common
from metrics_adapter import settings
from metrics_adapter.adapter_series import Telemetry
from metrics_adapter.members.discovery_cache import MetricDiscoveryCache
from metrics_adapter.members.probes import MemberProbes
from metrics_adapter.members.source import MembersSource
from metrics_adapter.server.application import build_application
from metrics_adapter.server.caller_limits import CallerLimits
from metrics_adapter.settings import (
    ABOUT,
    FLAGS,
    METRICS_MAX_AGE,
    METRICS_SOURCE,
    PROGRAM,
    PROMETHEUS,
    without_effect,
)

if TYPE_CHECKING:
    from metrics_adapter.prometheus.source import PrometheusBackend

logger = structlog.get_logger(__name__)

HUB_PROBE_SECONDS = 2.0
HUB_PROBE_DEADLINE = 3.0
REVIEW_SECONDS = 10.0
# One failure may be a connection that was just closed. Two failures in a row mean that the hub is lost.
HUB_FAILURES = 2
SYNC_POLL_SECONDS = 0.1


class Adapter:
    """One running adapter, assembled as the flags set it."""

    def __init__(
        self, values: Values, hub: ApiClient, reviews: tuple[ApiClient, ApiClient], clock: Clock
    ) -> None:
        """`reviews` are the clients for authentication and for authorization."""
        self._values = values
        self._hub = hub
        self._clock = clock
        self._authentication, self._authorization = reviews
        self.tls = ServingTls(
            TlsFiles.of(values),
            minimum_version=values[common.TLS_MIN_VERSION],
            request_client_certificates=True,
        )
        self.trust = LiveTrust(TrustFiles.of(values), self.tls, clock)
        self.health = Health()
        self._certificate_check = self.health.readiness("certificate", latches=True, reason=self.tls.awaits)
        self._hub_check = self.health.readiness("hub", latches=False, reason="not reached yet")
        self._trust_check = self.health.readiness("authentication", latches=True)
        self._reviews_check = self.health.readiness("reviews", latches=False, reason="not made yet")
        self.trust.synced = values[common.AUTHENTICATION_SKIP_LOOKUP]
        self._members_check = self.health.readiness("members", latches=True)
        self._registry = MemberRegistry(
            hub,
            deadline=values[common.MEMBER_DEADLINE],
            qps=values[common.CLUSTER_API_QPS],
            burst=values[common.CLUSTER_API_BURST],
            sources=settings.member_sources(values),
            clock=clock,
        )
        self._lists = SharedLists(clock=clock.monotonic)
        self.telemetry = Telemetry(lambda: self._registry.members)
        self._probes = MemberProbes(
            lambda: self._registry.members, self.telemetry.probed, clock=clock.monotonic
        )
        self.telemetry.suspect = self._probes.suspect
        register_certificate(self.telemetry.registry, lambda: self.tls.expires)
        limits = CallerLimits.of(values, self.telemetry.registry, clock.monotonic)
        open_paths = values[common.ALWAYS_ALLOW_PATHS]
        guard = Guard(
            Authenticator(
                lambda: self.trust.peers,
                TokenReviewer(self._authentication, values[common.TOKEN_CACHE_TTL], clock=clock.monotonic),
            ),
            Authorizer(
                self._authorization,
                allowed_seconds=values[common.AUTHORIZED_TTL],
                denied_seconds=values[common.UNAUTHORIZED_TTL],
                clock=clock.monotonic,
            ),
            open_paths,
            limits.fairness,
            CallerSeries(self.telemetry.registry),
            clock=clock.monotonic,
        )
        source = MembersSource(
            lambda: self._registry.members,
            self._lists,
            max_age=values[METRICS_MAX_AGE],
            clock=clock.monotonic,
            observer=self.telemetry,
            unlisted=lambda: self._registry.unlisted,
        )
        self._store = self._prometheus_backend(source)
        if self._store is not None:
            source = self._store.source
        self._discovery_cache = MetricDiscoveryCache(source, clock=clock.monotonic)
        source.is_listed = self._discovery_cache.is_listed
        application = build_application(
            source,
            guard,
            self.health,
            self.telemetry,
            discovery_cache=self._discovery_cache,
            limits=limits,
            audit=bool(values[common.AUDIT_LOG_PATH]),
        )
        self._peers = Peers()
        self.server = TlsServer.of(application, self.tls, values, self._peers)

    def _prometheus_backend(self, members: MembersSource) -> PrometheusBackend | None:
        if self._values[METRICS_SOURCE] != PROMETHEUS:
            unused = without_effect(self._values)
            if unused:
                logger.warning(
                    "flags without effect", flags=unused, need=f"--{METRICS_SOURCE.name}={PROMETHEUS}"
                )
            return None
        # Imported only if there is a store: its client library costs memory and a tenth of a second.
        from metrics_adapter.prometheus.source import PrometheusBackend

        return PrometheusBackend(self._values, members, self.telemetry.registry, self._clock)

    @asynccontextmanager
    async def running(self, stop: asyncio.Event | None = None) -> AsyncIterator[None]:
        """Serves, and follows the hub and the members. Leaving the context drains requests.

        The context is entered when the certificate is loaded, or when `stop` is set before.
        """
        FAILURE_OBSERVER.set(self.telemetry.task_failed)
        tasks = self._tasks()
        for task in tasks:
            self.telemetry.task_known(task)
        async with (
            self._lists,
            self._store.store if self._store is not None else nullcontext(),
            background(*(supervise(name, work) for name, work in tasks.items())),
            http_listeners(self._values, self.health, self.telemetry.registry, peers=self._peers),
        ):
            if not await self.tls.filled(stop or asyncio.Event()):
                yield
                return
            async with self.server:
                self._certificate_check.succeed()
                try:
                    yield
                finally:
                    self.health.drain()

    def _tasks(self) -> dict[str, Callable[[], Awaitable[None]]]:
        tasks: dict[str, Callable[[], Awaitable[None]]] = {
            "members": self._registry.run,
            "hub-config": partial(
                follow_config, self._hub, self._values[common.KUBECONFIG] or None, clock=self._clock
            ),
            "trust-files": self.trust.follow_files,
            "trust-readiness": self._watch_trust,
            "review-readiness": self._watch_reviews,
            "hub-readiness": self._watch_hub,
            "member-readiness": self._watch_members,
            "discovery": self._discovery_cache.run,
            "metrics-probes": self._probes.run,
        }
        if not self._values[common.AUTHENTICATION_SKIP_LOOKUP]:
            tasks["trust"] = partial(self.trust.follow_hub, self._authentication)
        if self._store is not None:
            tasks["metrics-rules"] = self._store.rules.follow
        for client, flag in (
            (self._authentication, common.AUTHENTICATION_KUBECONFIG),
            (self._authorization, common.AUTHORIZATION_KUBECONFIG),
        ):
            if client is not self._hub:
                tasks[flag.name] = partial(follow_config, client, self._values[flag], clock=self._clock)
        return tasks

    async def _watch_trust(self) -> None:
        """Keeps the check of authentication up to date: once passed it stays, and a problem is a note."""
        while True:
            problem = self.trust.problem
            if problem:
                self._trust_check.fail(problem)
            elif self.trust.synced:
                self._trust_check.succeed()
            refusal = self.trust.peers.refusal
            self._trust_check.note = (
                f"keeping the CAs of before: {problem}"
                if problem
                else f"a client certificate passed TLS and proves nothing: {refusal}" * bool(refusal)
            )
            await asyncio.sleep(SYNC_POLL_SECONDS)

    async def _watch_reviews(self) -> None:
        probe = partial(review_problem, self._authentication, self._authorization)
        async for problem in _noted(self._reviews_check, probe):
            await asyncio.sleep(REVIEW_SECONDS if problem is None else HUB_PROBE_SECONDS)

    async def _watch_members(self) -> None:
        while not self._registry.synced():  # noqa: ASYNC110 - no event marks a passed deadline
            await asyncio.sleep(SYNC_POLL_SECONDS)
        self._members_check.succeed()

    async def _watch_hub(self) -> None:
        async def problem() -> str | None:
            return self._registry.problem or await _hub_problem(self._hub)

        async for _ in _noted(self._hub_check, problem):
            await asyncio.sleep(HUB_PROBE_SECONDS if self._hub_check.ok else SYNC_POLL_SECONDS * 5)


async def _noted(
    check: ReadinessCheck, probe: Callable[[], Awaitable[str | None]]
) -> AsyncIterator[str | None]:
    """Probes for ever and keeps the check up to date. Yields each problem, None if there is none."""
    failures = 0
    while True:
        problem = await probe()
        failures = failures + 1 if problem else 0
        if problem is None:
            check.succeed()
        elif failures >= HUB_FAILURES or not check.ok:
            check.fail(problem)
        yield problem


async def _hub_problem(hub: ApiClient) -> str | None:
    """Returns why the hub does not serve, or None. A 403 for /readyz also proves that the hub answers."""
    try:
        await hub.request("GET", "/readyz", deadline=HUB_PROBE_DEADLINE)
    except ApiError as error:
        return None if error.status == 403 else str(error)
    return None


async def serve(
    values: Values, signals: Signals, started: Callable[[Adapter], None] = lambda _: None, *, clock: Clock
) -> None:
    """Runs until `signals.stop`. Calls `started` once the secure port is bound."""
    settings.check(values)
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(ApiClient(await hub_config(values, clock)))
        clients = []
        for flag in (common.AUTHENTICATION_KUBECONFIG, common.AUTHORIZATION_KUBECONFIG):
            own = ApiClient(await hub_config(values, clock, flag)) if values[flag] else hub
            clients.append(hub if own is hub else await stack.enter_async_context(own))
        adapter = Adapter(values, hub, (clients[0], clients[1]), clock)
        signals.on_reload(adapter.tls.reload)
        signals.on_reload(adapter.trust.reload)
        async with adapter.running(signals.stop):
            if not signals.stop.is_set():
                started(adapter)
            await signals.stop.wait()


def main() -> None:
    """Runs fedhpa-metrics-adapter: its console script."""
    run_program(PROGRAM, ABOUT, FLAGS, serve)
