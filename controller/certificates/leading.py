"""Leads the Lease of the certificates, and keeps them while this process holds it."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import functools
import os
import socket
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import structlog

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
from fedhpa.api.rights import NAMESPACE
from fedhpa.kube import (
    ApiClient,
    ApiConfig,
    Clock,
    EventRecorder,
    LeaderElector,
    LeaseTiming,
    follow_config,
    load_config,
    supervise,
)
from fedhpa.kube.config import SERVICE_ACCOUNT, in_cluster_config
from fedhpa.serving.flags import Values, common

LEASE: Final = "fedhpa-controller-certificates"

log = structlog.get_logger(__name__)


async def lead_certificates(
    values: Values,
    hub: ApiClient,
    secrets_at: ApiConfig | None,
    metrics: CertificateMetrics,
    lease_namespace: str,
    timing: LeaseTiming,
    set_leader: Callable[[str, bool], None] = lambda *_: None,
    *,
    clock: Clock,
) -> None:
    """Keeps the certificates whenever this process holds the Lease, until cancelled.

    `secrets_at` is the answer of `secrets_config`. `set_leader` is called with "certificates" when this
    process begins or ends to hold the Lease.
    """
    on_lead = functools.partial(set_leader, "certificates")
    namespace = values[CERTIFICATES_NAMESPACE] or _pod_namespace()
    lifetime = dt.timedelta(seconds=values[CERTIFICATES_LIFETIME])
    async with _secrets_api(secrets_at, values[CERTIFICATES_KUBECONFIG], hub, clock) as secrets_api:
        hosts = values[CERTIFICATES_HOSTS]
        store = CertificateStore(secrets_api, hub, namespace, hosts)

        async def keep(leads: Callable[[], bool]) -> None:
            events = EventRecorder(secrets_api, COMPONENT, wall=clock.wall)
            # A machine that was suspended must not write on an old claim.
            steady = clock.counting_suspension()
            await CertificateManager(
                store, events, metrics, lifetime=lifetime, leads=leads, clock=steady
            ).run()

        on_lead(not values[common.LEADER_ELECT])
        if not values[common.LEADER_ELECT]:
            await keep(lambda: True)
            return
        elector = LeaderElector(
            hub,
            lease_namespace,
            LEASE,
            f"{socket.gethostname()}_{uuid.uuid4()}",
            timing=timing,
            on_change=on_lead,
            clock=clock.boot,
            wall=clock.wall,
        )
        await elector.run(lambda: keep(elector.leads))


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


def _pod_namespace() -> str:
    if namespace := os.environ.get("POD_NAMESPACE"):
        return namespace
    mounted = SERVICE_ACCOUNT / "namespace"
    return mounted.read_text().strip() if mounted.is_file() else NAMESPACE
