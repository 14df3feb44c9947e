"""The members as the controller reads them, for its process and for single readings."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection
from typing import Final

from controller.flags import Settings
from fedhpa.api.errors import ApiError, ConfigError
from fedhpa.api.member_sources import (
    ALL,
    ARGOCD,
    CLUSTER_PROFILES,
    CLUSTERS,
    PROFILE_API_VERSION,
    PROFILES,
    MemberSources,
)
from fedhpa.api.wire import WithMetadata
from fedhpa.kube import ApiClient, Clock, resource_path
from fedhpa.members import CLUSTERS_PATH, Cluster, MemberRegistry

# Enough to list the clusters and to wait for each member's deadline.
SYNC_SECONDS: Final = 20.0
HUB_SECONDS: Final = 10.0


def member_registry(hub: ApiClient, settings: Settings, clock: Clock) -> MemberRegistry:
    """Returns the registry of the members, with the sources, the deadline and the limits of the settings."""
    return MemberRegistry(
        hub,
        deadline=settings.member_deadline,
        qps=settings.cluster_qps,
        burst=settings.cluster_burst,
        sources=settings.sources,
        clock=clock,
    )


@contextlib.asynccontextmanager
async def members_once(hub: ApiClient, settings: Settings, clock: Clock) -> AsyncIterator[MemberRegistry]:
    """Yields the members, with the permissions of `hub`'s user. Raises ConfigError if one is missing."""
    await _check_permissions(hub, settings.sources)
    registry = member_registry(hub, settings, clock)
    task = asyncio.create_task(registry.run())
    try:
        # A member that is not known by then is missing, with its reason.
        await until(registry.synced)
        yield registry
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _check_permissions(hub: ApiClient, sources: MemberSources) -> None:
    """A cluster whose Secret must not be read would look unavailable, and change the decision."""
    try:
        if CLUSTERS in sources.names:
            await _check_clusters(hub)
        if CLUSTER_PROFILES in sources.names:
            for namespace in sources.profile_namespaces:
                path = resource_path(PROFILE_API_VERSION, PROFILES, namespace)
                await hub.list(path, WithMetadata, idle=HUB_SECONDS)
        if ARGOCD in sources.names:
            await _check_secrets(hub, {(sources.argocd_namespace, name) for name in sources.argocd_secrets})
    except ApiError as error:
        needed = {
            CLUSTERS: "Clusters and the Secrets that they name",
            CLUSTER_PROFILES: "the ClusterProfiles",
            ARGOCD: "Argo CD's cluster Secrets",
        }
        what = " and ".join(needed[name] for name in sources.names)
        raise ConfigError(
            f"the members cannot be read: {error}; the caller needs permission to list and watch {what}"
        ) from error


async def _check_clusters(hub: ApiClient) -> None:
    clusters = (await hub.list(CLUSTERS_PATH, Cluster, idle=HUB_SECONDS)).items
    references = [one.spec.secretRef for one in clusters if one.spec.secretRef is not None]
    await _check_secrets(hub, {(one.namespace, one.name) for one in references})


async def _check_secrets(hub: ApiClient, wanted: Collection[tuple[str, str]]) -> None:
    for namespace, name in sorted(wanted):
        selector = "" if name == ALL else f"metadata.name={name}"
        await hub.list(
            resource_path("v1", "secrets", namespace), WithMetadata, field_selector=selector, idle=HUB_SECONDS
        )


async def until(is_known: Callable[[], bool]) -> None:
    """Wait until something is known, or for long enough."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SYNC_SECONDS):
            while not is_known():  # noqa: ASYNC110  # depends on deadlines, for which there is no event
                await asyncio.sleep(0.05)
