"""The doctor reaches members that ClusterProfiles register, and says what keeps them away."""

from __future__ import annotations

from pathlib import Path

from fedhpa.doctor.fleet import check_fleet
from fedhpa.doctor.report import Commands, Report
from fedhpa.doctor.session import Session
from fedhpa.doctor.site import Site
from fedhpa.kube import SYSTEM, ApiClient
from tests.support.fakeapi import eventually
from tests.support.fleets import (
    PROFILES,
    fleet_of,
    plugin,
    printing,
    profile,
    profiles_of,
    provider_file,
)


async def test_what_keeps_a_member_of_a_profile_away_is_named(tmp_path: Path) -> None:
    """A healthy member gives no finding. A provider that sends credentials anywhere gives one."""
    sources = profiles_of(provider_file(tmp_path, plugin(tmp_path, printing("m1-token"))))
    async with fleet_of(sources, "m1") as fleet, ApiClient(fleet.hub.config()) as client:
        await fleet.ready("m1")
        server = fleet.servers["m1"]
        none = profile("m2", server.url, server.ca_pem)
        none["status"]["accessProviders"][0]["name"] = "other"
        ill = {"type": "ControlPlaneHealthy", "status": "False", "reason": "Down", "message": "etcd"}
        none["status"]["conditions"] = [ill]
        fleet.hub.put(PROFILES, none)
        await eventually(lambda: "m2" in fleet.registry.registered)
        report = Report()
        site = Site(Session(client, 30.0), report, Commands(), 0.0, 0.0, "", sources)
        await check_fleet(site, SYSTEM)
        provider_file(tmp_path, plugin(tmp_path, printing("m1-token")), servers=[])
        again = Report()
        await check_fleet(Site(Session(client, 5.0), again, Commands(), 0.0, 0.0, "", sources), SYSTEM)

    kinds = [(one.id, one.subject) for one in report.findings]
    assert sorted(kinds) == [("member-control-plane-unhealthy", "m2"), ("member-source-unusable", "m2")]
    assert report.versions["m1"] == "v1.36.3"
    assert ("provider-any-server", "tokens") in [(one.id, one.subject) for one in again.findings]
