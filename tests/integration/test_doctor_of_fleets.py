"""The doctor reaches members that ClusterProfiles register, and says what keeps them away."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedhpa.api.member_sources import MemberSources
from fedhpa.doctor.members import Members, check_fleet
from fedhpa.doctor.report import Commands, Report
from fedhpa.doctor.session import Session
from fedhpa.doctor.site import Site
from fedhpa.kube import SYSTEM, ApiClient
from tests.support.fakeapi import eventually
from tests.support.fleets import (
    FLEET,
    PROFILES,
    fleet_of,
    plugin,
    printing,
    profile,
    profiles_of,
    provider_file,
)


async def found_by(client: ApiClient, sources: MemberSources) -> Report:
    """Returns what the doctor says about the members of these sources."""
    report = Report()
    site = Site(Session(client, 30.0), report, Commands(), 0.0, 0.0, "", sources)
    await site.read_objects()
    async with Members(site, SYSTEM, None) as members:
        await check_fleet(site, SYSTEM, members)
    return report


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
        report = await found_by(client, sources)
        provider_file(tmp_path, plugin(tmp_path, printing("m1-token")), servers=[])
        again = await found_by(client, sources)

    kinds = [(one.id, one.subject) for one in report.findings]
    assert sorted(kinds) == [("member-control-plane-unhealthy", "m2"), ("member-source-unusable", "m2")]
    assert report.versions["m1"] == "v1.36.3"
    assert ("provider-any-server", "tokens") in [(one.id, one.subject) for one in again.findings]


@pytest.mark.parametrize(
    ("allowed", "kind"), [(False, "member-rights-missing"), (True, "member-metrics-not-served")]
)
async def test_such_a_member_is_looked_into_as_a_cluster_is(tmp_path: Path, allowed: bool, kind: str) -> None:
    """Missing rights and metrics are named, and what its profile says of it is shown."""
    sources = profiles_of(provider_file(tmp_path, plugin(tmp_path, printing("m1-token"))))
    async with fleet_of(sources, "m1") as fleet, ApiClient(fleet.hub.config()) as client:
        server = fleet.servers["m1"]
        told = profile("m1", server.url, server.ca_pem)
        told["status"]["properties"] = [{"name": "cluster.clusterset.k8s.io", "value": "prod"}]
        fleet.hub.put(PROFILES, told)
        server.faults.status = {"/apis/metrics.k8s.io": 404}
        review = json.dumps({"status": {"allowed": allowed}}).encode()
        server.faults.body = {"/apis/authorization.k8s.io": review}
        await fleet.ready("m1")
        report = await found_by(client, sources)

    (found,) = report.findings
    assert (found.id, found.subject) == (kind, "m1")
    assert allowed or "fedhpa rbac member" in found.advice
    shown = f"member m1: ClusterProfile {FLEET}/m1, v1.36.3, cluster.clusterset.k8s.io=prod"
    assert shown in report.to_text()
    assert report.to_json()["members"]["m1"]["properties"] == {"cluster.clusterset.k8s.io": "prod"}
