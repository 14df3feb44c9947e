"""Reloads a kubeconfig, a CA file or a client certificate that is replaced while the process runs."""

from __future__ import annotations

import asyncio
import dataclasses

import structlog

from fedhpa.api.errors import ConfigError
from fedhpa.kube.client import ApiClient
from fedhpa.kube.clock import Clock
from fedhpa.kube.config import file_fingerprint, load_config
from fedhpa.kube.supervision import report_failure

log = structlog.get_logger(__name__)

# Certificates are replaced hours before they expire, so checking once a minute is soon enough.
PERIOD_SECONDS = 60.0


async def follow_config(
    client: ApiClient,
    kubeconfig: str | None,
    *,
    clock: Clock,
    period: float = PERIOD_SECONDS,
) -> None:
    """Reload the client's configuration whenever one of its files changes, until cancelled.

    If the new configuration cannot be used, this is logged and the old one stays in use. Token files are
    read again by `fedhpa.kube.credentials` and need no reload.
    """
    while True:
        await asyncio.sleep(period)
        try:
            await _reload_if_changed(client, kubeconfig, clock)
        except Exception as error:
            report_failure("hub-config", error, api=client.config.name)


async def _reload_if_changed(client: ApiClient, kubeconfig: str | None, clock: Clock) -> None:
    now = await asyncio.to_thread(file_fingerprint, client.config.files)
    if now == client.config.fingerprint:
        return
    try:
        fresh = await load_config(kubeconfig, clock=clock)
    except ConfigError as error:
        log.warning("changed configuration cannot be used", api=client.config.name, error=str(error))
        return
    old = client.config
    await client.use(
        dataclasses.replace(
            fresh,
            name=old.name,
            compression=old.compression,
            qps=old.qps,
            burst=old.burst,
            connector=old.connector,
        )
    )
    log.info("configuration reloaded", api=old.name)
