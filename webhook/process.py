"""The process fedhpa-webhook: its parts, readiness and life cycle. It has no leader: every replica serves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fedhpa.kube import Clock
from fedhpa.serving import (
    Health,
    Peers,
    ServingTls,
    Signals,
    TlsFiles,
    TlsServer,
    http_listeners,
    register_certificate,
    run_program,
)
from fedhpa.serving.flags import Values, common
from webhook.application import build_application
from webhook.hub_reader import HubReader, reading_hub
from webhook.review_series import Telemetry
from webhook.settings import ABOUT, FLAGS, KARMADA, PROGRAM, PROPAGATION
from webhook.warnings import AdmissionWarnings


class Webhook:
    """A webhook configured by the flags."""

    def __init__(self, values: Values, clock: Clock) -> None:
        """Loads the certificate. Raises FedHPAError if it cannot be used."""
        self._values = values
        self._clock = clock
        self.health = Health()
        self._certificate = self.health.readiness("certificate", latches=True)
        self.telemetry = Telemetry()
        self.tls = ServingTls(TlsFiles.of(values), minimum_version=values[common.TLS_MIN_VERSION])
        register_certificate(self.telemetry.registry, lambda: self.tls.expires)
        self.warnings = AdmissionWarnings(clock.date)
        karmada = values[PROPAGATION] == KARMADA
        application = build_application(self.health, self.telemetry, self.warnings, clock, karmada=karmada)
        self._peers = Peers()
        self.server = TlsServer.of(application, self.tls, values, self._peers)

    @asynccontextmanager
    async def running(self, stop: asyncio.Event | None = None) -> AsyncIterator[None]:
        """Serves within the context. On exit it is not ready, accepts no connections, and ends its requests.

        The context is entered when the certificate is loaded, or when `stop` is set before. Readiness does
        not depend on the hub.
        """
        async with reading_hub(self._values, self._clock) as hub:
            if hub is not None:
                self._use(hub)
            registry = self.telemetry.registry
            self._certificate.fail(self.tls.awaits)
            async with http_listeners(self._values, self.health, registry, peers=self._peers):
                if not await self.tls.filled(stop or asyncio.Event()):
                    yield
                    return
                async with self.server:
                    self._certificate.succeed()
                    try:
                        yield
                    finally:
                        self.health.drain()

    def _use(self, hub: HubReader) -> None:
        self.warnings.hub = hub
        for kind in hub.reflectors:
            self.telemetry.follow_hub(kind, hub.knows)


async def serve(
    values: Values, signals: Signals, started: Callable[[Webhook], None] = lambda _: None, *, clock: Clock
) -> None:
    """Serves until `signals.stop`. Calls `started` once the secure port is bound."""
    webhook = Webhook(values, clock)
    signals.on_reload(webhook.tls.reload)
    async with webhook.running(signals.stop):
        if not signals.stop.is_set():
            started(webhook)
        await signals.stop.wait()


def main() -> None:
    """Runs fedhpa-webhook."""
    run_program(PROGRAM, ABOUT, FLAGS, serve)
