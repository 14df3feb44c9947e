"""Following a kubeconfig, a CA file or a client certificate that is replaced while we run."""

from __future__ import annotations

import asyncio
import dataclasses

import structlog

from fedhpa.api.errors import ConfigError
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import file_fingerprint, load_config

log = structlog.get_logger(__name__)

# Certificates are replaced hours before they expire; a minute is soon enough, and four small files cheap.
PERIOD_SECONDS = 60.0


async def follow_config(
    client: ApiClient, kubeconfig: str | None, context: str | None = None, *, period: float = PERIOD_SECONDS
) -> None:
    """Reload the client's configuration whenever a file that it came from changes; until cancelled.

    A new configuration that cannot be used is logged each time, and the old one kept. (Tokens need none
    of this: their source reads them again, `fedhpa.kube.credentials`.)
    """
    while True:
        await asyncio.sleep(period)
        now = await asyncio.to_thread(file_fingerprint, client.config.files)
        if now == client.config.fingerprint:
            continue
        try:
            fresh = await load_config(kubeconfig, context)
        except ConfigError as error:
            log.warning("changed configuration cannot be used", api=client.config.name, error=str(error))
            continue
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
