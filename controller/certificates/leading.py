"""Keeps the certificates of the webhook and the adapter, with the API server that has their Secrets."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from certs.certificate_store import CertificateStore
from controller.certificates.manager import COMPONENT, CertificateManager, CertificateMetrics
from controller.flags import (
    CERTIFICATES_HOSTS,
    CERTIFICATES_KUBECONFIG,
    CERTIFICATES_LIFETIME,
    CERTIFICATES_NAMESPACE,
    MANAGE_CERTIFICATES,
)
from fedhpa.api.errors import ConfigError
from fedhpa.kube import (
    ApiClient,
    ApiConfig,
    Clock,
    EventRecorder,
    follow_config,
    load_config,
    supervise,
)
from fedhpa.kube.config import in_cluster_config
from fedhpa.serving.flags import Values, common
from fedhpa.serving.flags.members import own_namespace

# Its holder keeps the certificates.
CERTIFICATES_LEASE: Final = "fedhpa-controller-certificates"


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
        store = CertificateStore(secrets_api, hub, namespace, values[CERTIFICATES_HOSTS])
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
