"""The doctor: checks what stands between a FederatedHPA and its pods, and names the commands that fix it.

A module a topic probes and reports. `session` reads one API server, `site` has what all topics need, `report`
collects, and `bundle` packs what a bug report needs.
"""

from __future__ import annotations

import asyncio
from typing import Final

from fedhpa.api.member_sources import ONLY_CLUSTERS, MemberSources
from fedhpa.api.rights import CONTROLLER
from fedhpa.doctor.bundle import check_bundle, write_bundle
from fedhpa.doctor.certificates import check_certificates
from fedhpa.doctor.hub import check_controllers, check_definitions, check_hub, check_installed, check_rights
from fedhpa.doctor.members import Members, check_fleet
from fedhpa.doctor.objects import check_objects
from fedhpa.doctor.report import TABLE, Commands, Report
from fedhpa.doctor.servers import check_admission, check_aggregation
from fedhpa.doctor.session import Session
from fedhpa.doctor.site import Site
from fedhpa.kube import ApiClient, Clock
from fedhpa.kube.config import ConnectorFactory

# A healthy server answers within this. A hung member costs it once.
ANSWER_SECONDS: Final = 3.0


async def examine(
    client: ApiClient,
    *,
    clock: Clock,
    commands: Commands | None = None,
    context: str = "",
    system: str = "",
    only: str = "",
    seconds: float = ANSWER_SECONDS,
    connector: ConnectorFactory | None = None,
    sources: MemberSources = ONLY_CLUSTERS,
) -> Report:
    """Returns what the caller of `client` can find out about an installation. Never raises ApiError.

    `system` is its namespace, which is looked for if it is "". `only` is a namespace: then the objects in it
    are checked and nothing else, which needs rights in that namespace alone. `seconds` is the deadline of
    each answer. `connector` makes the connections to the members, which `sources` register.
    """
    report = Report(context, client.config.server)
    try:
        secret = await client.config.credentials.authorization() or ""
    except Exception as error:  # an exec plugin may fail in any way
        report.add("hub-login-refused", report.server, what=Session(client, 0.0).problem(error).text)
        return report
    hub = Session(client, seconds, secret=secret)
    found = await check_hub(hub, report, clock)
    if found is None:
        return report
    site = Site(hub, report, commands or Commands(), *found, only, sources)
    if only:
        report.is_limited = True
        await site.read_objects()
        await check_objects(site)
        return report
    await asyncio.gather(site.read_objects(), site.read(system))
    if not check_installed(site):
        return report
    report.counts["members"] = len(site.clusters)
    absent = check_definitions(site)
    async with Members(site, clock, connector) as members:
        followed, webhooks, apis, _, foreign = await asyncio.gather(
            members.check(),
            check_admission(site, absent),
            check_aggregation(site),
            check_rights(site),
            check_fleet(site, clock, members),
        )
        site.members = [*followed, *foreign]
        if not report.has("component-rights-missing", CONTROLLER):  # which explains that it does not lead
            check_controllers(site)
        await check_objects(site)
    check_certificates(site, [*webhooks, *apis, *(one for each in followed for one in each.certificates)])
    return report
