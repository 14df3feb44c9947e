"""The members that ClusterProfiles or Argo CD register: reached as the processes reach them, and reported."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from fedhpa.api.errors import FedHPAError
from fedhpa.api.member_sources import CLUSTER_PROFILES
from fedhpa.doctor.members import Member as Followed
from fedhpa.doctor.members import Members
from fedhpa.doctor.site import Site
from fedhpa.kube import Clock
from fedhpa.members import ForeignCluster, Member, MemberRegistry, read_providers

# A plugin has ten seconds, and four run at once.
SYNC_SECONDS: Final = 20.0
LOOK_SECONDS: Final = 0.1


async def check_fleet(site: Site, clock: Clock, members: Members) -> list[Followed]:
    """Checks the members that are no Clusters, and returns those that answer.

    Plugins run with the caller's environment, so the rights are those of the caller's credentials.
    """
    if not site.sources.has_foreign:
        return []
    with suppress(FedHPAError):  # the registry says why
        for provider in (
            read_providers(site.sources.provider_file) if CLUSTER_PROFILES in site.sources.names else ()
        ):
            if not provider.servers:
                site.add("provider-any-server", provider.name)
    try:
        registry = MemberRegistry(
            site.hub.client, deadline=site.hub.seconds, sources=site.sources, clock=clock
        )
    except FedHPAError as error:
        site.skip("the members from other sources", str(error))
        return []
    task = asyncio.create_task(registry.run())
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(SYNC_SECONDS):
                # Readiness depends on deadlines, for which there is no event.
                while not (  # noqa: ASYNC110
                    registry.synced() and all(map(_is_told, registry.registered.values()))
                ):
                    await asyncio.sleep(LOOK_SECONDS)
        if registry.unlisted is not None:
            site.skip("the members from other sources", registry.unlisted)
        followed = []
        for name, member in sorted(registry.registered.items()):
            cluster = member.cluster
            if not isinstance(cluster, ForeignCluster) or member.same_as:
                continue
            _report(site, name, member, cluster)
            # One that may be read in some namespaces only lacks the other rights on purpose.
            if member.ready and member.access is not None and not cluster.namespaces:
                followed.append(members.look_inside(cluster, member.access))
        return await asyncio.gather(*followed)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _is_told(member: Member) -> bool:
    """True once the member is ready, or there is a reason that says more than that it was not asked yet."""
    return member.ready or (member.settled and member.state.message != "not asked yet")


def _report(site: Site, name: str, member: Member, cluster: ForeignCluster) -> None:
    report, origin, sources = site.report, cluster.source, site.sources
    report.counts["members"] = report.counts.get("members", 0) + 1
    where = f"{origin.kind} {origin.namespace}/{origin.name}"
    version = site.hub.line(cluster.status.kubernetesVersion, 64)
    report.versions |= {name: version} if version else {}
    report.members[name] = {"source": where, "version": version, "properties": dict(cluster.properties)}
    if not member.ready:
        message = member.state.message
        waits = "fedhpa join --accept" in message
        fix = site.commands.fedhpa("join {} --accept -n {}", name, sources.namespace) if waits else ""
        site.add("member-source-unusable", name, fix, source=where, problem=message)
    if cluster.health:
        site.add("member-control-plane-unhealthy", name, source=where, problem=cluster.health)
