"""The author of a ClusterProfile cannot have the credentials of members sent elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trustme

from controller.accepted_servers import keep_servers
from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import decode_json
from fedhpa.api.member_sources import SERVERS_MAP, AcceptedServer, MemberSources
from fedhpa.kube import SYSTEM, ApiClient, EventRecorder
from fedhpa.kube.config import is_local_address
from fedhpa.members.sources.addresses import ServerPattern, checked_proxy, checked_server, patterns_of
from tests.support.fakeapi import FakeApi, eventually, fake_api
from tests.support.fleets import (
    CONFIG_MAPS,
    FLEET,
    NAMESPACE,
    PROFILES,
    Fleet,
    fleet_of,
    plugin,
    printing,
    profile,
    profiles_of,
    provider_file,
)
from tests.support.timing import background

EVENTS = ("v1", "events")


def noting_plugin(folder: Path) -> str:
    """Returns a plugin that notes each run, and prints the token of m1 whatever it is told."""
    return plugin(folder, f"echo run >> {folder}/runs\n{printing('m1-token')}")


def runs(folder: Path) -> int:
    """Returns how often the plugin ran."""
    file = folder / "runs"
    return len(file.read_text().split()) if file.exists() else 0


def kept(fleet: Fleet, name: str) -> AcceptedServer | None:
    """Returns the note about the server of a member."""
    found = fleet.hub.find(CONFIG_MAPS, SERVERS_MAP, NAMESPACE) or {}
    text = (found.get("data") or {}).get(name)
    return None if text is None else decode_json(text, AcceptedServer)


def keeping(fleet: Fleet, client: ApiClient, sources: MemberSources) -> Any:
    """Returns the task of the leader that notes servers, and writes events."""
    events = EventRecorder(client, "test", wall=SYSTEM.wall)

    async def run() -> None:
        async with background(events.run()):
            await keep_servers(client, fleet.registry, sources, events)

    return background(run())


async def test_another_clusters_token_goes_to_no_other_server(tmp_path: Path) -> None:
    """A profile names the provider of m1 and its author's own server. The plugin does not even run."""
    file = provider_file(tmp_path, noting_plugin(tmp_path), servers=["127.0.0.1:1", "*.example.com"])
    async with fake_api() as thief, fleet_of(profiles_of(file)) as fleet:
        fleet.hub.put(PROFILES, profile("mine", thief.url, thief.ca_pem))
        reason = await fleet.away("mine", "matches no pattern")

        assert "servers of provider tokens" in reason
        assert runs(tmp_path) == 0
        assert thief.seen == []


async def test_a_redirect_gets_no_token(tmp_path: Path) -> None:
    """An answer that names another server is an error, and nothing is sent there."""
    file = provider_file(tmp_path, noting_plugin(tmp_path))
    async with fake_api() as thief, fleet_of(profiles_of(file), "m1") as fleet:
        server = fleet.servers["m1"]
        server.faults.headers = {"Location": f"{thief.url}/readyz"}
        server.faults.status = {"/": 302}
        await fleet.away("m1", "302")

        assert thief.seen == []


@pytest.mark.parametrize("swap", ["server", "ca"])
async def test_a_changed_server_or_ca_waits_for_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swap: str
) -> None:
    """The member that answered is noted. Another server or CA gets an event, and no credentials."""
    monkeypatch.setattr("controller.accepted_servers.PERIOD_SECONDS", 0.1)
    file = provider_file(tmp_path, noting_plugin(tmp_path))
    sources = profiles_of(file)
    async with fake_api() as thief, fleet_of(sources, "m1") as fleet, ApiClient(fleet.hub.config()) as client:
        server = fleet.servers["m1"]
        url = thief.url if swap == "server" else server.url
        async with keeping(fleet, client, sources):
            await fleet.ready("m1")
            await eventually(lambda: kept(fleet, "m1") is not None)
            before = runs(tmp_path)
            fleet.hub.put(PROFILES, profile("m1", url, thief.ca_pem))
            reason = await fleet.away("m1", "fedhpa join --accept m1")
            await eventually(lambda: (kept(fleet, "m1") or AcceptedServer()).changed is not None)
            await eventually(lambda: bool(fleet.hub.all(EVENTS)))

        note = kept(fleet, "m1")
        assert note is not None
        assert note.server == server.url
        assert ("server" if swap == "server" else "CA") in reason
        assert fleet.hub.all(EVENTS)[0]["reason"] == "ServerChanged"
        assert thief.seen == []
        assert runs(tmp_path) == before


async def test_a_profile_that_is_made_anew_is_no_new_member(tmp_path: Path) -> None:
    """Deleting the profile does not make its name free for another server."""
    file = provider_file(tmp_path, noting_plugin(tmp_path))
    async with fake_api() as thief, fleet_of(profiles_of(file), "m1") as fleet:
        await fleet.ready("m1")
        server = fleet.servers["m1"]
        fleet.note(SERVERS_MAP, m1=json.dumps({"server": server.url, "ca": "0" * 64}))
        fleet.hub.remove(PROFILES, "m1", FLEET)
        fleet.hub.put(PROFILES, profile("m1", thief.url, thief.ca_pem))
        await fleet.away("m1", "has changed")

        assert thief.seen == []


async def test_a_managed_fleet_may_change_its_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --accept-changed-servers the new server is used at once, and noted with an event."""
    monkeypatch.setattr("controller.accepted_servers.PERIOD_SECONDS", 0.1)
    file = provider_file(tmp_path, noting_plugin(tmp_path))
    sources = profiles_of(file, accepts_changed_servers=True)
    async with fleet_of(sources, "m1", "m2") as fleet, ApiClient(fleet.hub.config()) as client:
        other: FakeApi = fleet.servers["m2"]
        other.token = "m1-token"
        async with keeping(fleet, client, sources):
            await eventually(lambda: kept(fleet, "m1") is not None)
            fleet.hub.put(PROFILES, profile("m1", other.url, other.ca_pem))
            await eventually(lambda: (kept(fleet, "m1") or AcceptedServer()).server == other.url)
            await fleet.ready("m1")
            await eventually(lambda: bool(fleet.hub.all(EVENTS)))

        assert fleet.hub.all(EVENTS)[0]["type"] == "Normal"


async def test_credentials_wait_where_nobody_knows_what_was_accepted(tmp_path: Path) -> None:
    """Without the right to read the note, no server is known to be the right one."""
    file = provider_file(tmp_path, noting_plugin(tmp_path))
    async with fleet_of(profiles_of(file)) as fleet, fake_api() as server:
        fleet.hub.faults.status = {f"/api/v1/namespaces/{NAMESPACE}/configmaps": 403}
        fleet.hub.end_watches()
        fleet.note(SERVERS_MAP, m1="rubbish")
        fleet.hub.faults.clear()
        server.token = "m1-token"
        fleet.hub.put(PROFILES, profile("m1", server.url, server.ca_pem))
        await fleet.away("m1", "remove the key")

        assert runs(tmp_path) == 0


async def test_credentials_come_once_the_notes_are_read(tmp_path: Path) -> None:
    """A right that is granted later, to a ConfigMap without any note, ends the wait of all members."""
    file = provider_file(tmp_path, noting_plugin(tmp_path))
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    async with fleet_of(profiles_of(file), "m1", refused=path) as fleet:
        await fleet.away("m1", "its accepted server is not known")
        before = runs(tmp_path)
        fleet.hub.faults.clear()
        await fleet.ready("m1")

        assert before == 0


async def test_a_name_that_is_a_path_is_no_member(tmp_path: Path) -> None:
    """A hub may store any name. The others are members all the same."""
    file = provider_file(tmp_path, noting_plugin(tmp_path))
    async with fleet_of(profiles_of(file), "m1") as fleet:
        server = fleet.servers["m1"]
        for name in ("../m1", "a/b", "M1", "x" * 64, ""):
            hostile = profile("m2", "https://127.0.0.1:1", "")
            hostile["metadata"]["name"] = name
            fleet.hub.put(PROFILES, hostile)
        fleet.hub.put(PROFILES, profile("last", server.url, server.ca_pem))
        await fleet.ready("m1", "last")

        assert sorted(fleet.registry.registered) == ["last", "m1"]


async def test_the_certificate_of_a_server_is_verified(tmp_path: Path) -> None:
    """A profile cannot switch that off, because any server between could take the credentials then."""
    file = provider_file(tmp_path, noting_plugin(tmp_path))
    async with fleet_of(profiles_of(file), "m1") as fleet:
        server = fleet.servers["m1"]
        fleet.hub.put(PROFILES, profile("m2", server.url, trustme.CA().cert_pem.bytes().decode()))
        await fleet.away("m2", "certificate not accepted")
        more = {"insecure-skip-tls-verify": True}
        fleet.hub.put(PROFILES, profile("m1", server.url, server.ca_pem, **more))
        await fleet.away("m1", "insecure-skip-tls-verify")


@pytest.mark.parametrize(
    "server",
    [
        "http://example.com",
        "https://127.0.0.1:6443",
        "https://[::1]:6443",
        "https://[::ffff:127.0.0.1]",
        "https://169.254.169.254",
        "https://0.0.0.0",
        "https://localhost:1",
        "https://x.localhost",
        "https://user@example.com",
        "https://example.com/?q=1",
        "ftp://example.com",
        "example.com",
        "https://" + "x" * 3000,
        "",
    ],
)
def test_only_https_to_other_machines(server: str) -> None:
    """The address of a member is checked before anything is asked for or sent."""
    with pytest.raises(InvalidObject):
        checked_server(server, (), "server", "servers")
    if not server.startswith(("http://", "ftp", "example")) and server:
        with pytest.raises(InvalidObject):
            checked_proxy(server, "proxy-url")


async def test_a_name_that_resolves_to_this_machine_is_refused() -> None:
    """The owner of a name may let it resolve to anything, at any time."""
    from fedhpa.kube.transport import _RemoteResolver

    resolver = _RemoteResolver()
    with pytest.raises(OSError, match="loopback or link-local"):
        await resolver.resolve("localhost", 443)
    assert is_local_address("fe80::1%eth0")
    assert not is_local_address("10.0.0.1")


@pytest.mark.parametrize(
    ("pattern", "host", "port", "expected"),
    [
        ("*.example.com", "a.example.com", 443, True),
        ("*.example.com", "a.b.example.com", 6443, True),
        ("*.example.com", "example.com", 443, False),
        ("*.example.com", "evilexample.com", 443, False),
        ("*.example.com", "a.example.com.evil.org", 443, False),
        ("https://a.example.com:6443", "A.Example.com.", 6443, True),
        ("a.example.com:6443", "a.example.com", 443, False),
        ("10.0.0.0/8", "10.2.3.4", 443, True),
        ("10.0.0.0/8", "11.2.3.4", 443, False),
        ("10.0.0.0/8", "10.example.com", 443, False),
        ("[fd00::1]:6443", "fd00::1", 6443, True),
        ("fd00::/8", "fd00::1", 443, True),
    ],
)
def test_patterns_of_servers(pattern: str, host: str, port: int, expected: bool) -> None:
    """A star stands for whole labels at the beginning, so no other domain looks like it."""
    assert ServerPattern(pattern).matches(host, port) is expected


@pytest.mark.parametrize("text", ["*", "a*.example.com", "https://a/b", "*.*.com", "", "a b"])
def test_a_pattern_that_means_too_much_is_refused(text: str) -> None:
    """A path or a star within a name would match what nobody meant."""
    with pytest.raises(InvalidObject, match="is no pattern of servers"):
        patterns_of([text], "servers")


def test_a_pattern_may_name_this_machine() -> None:
    """An administrator who writes its very address into the provider file means it."""
    local = patterns_of(["127.0.0.1"], "servers")
    assert checked_server("https://127.0.0.1:6443", local, "server", "servers") == (
        "https://127.0.0.1:6443",
        False,
    )
    with pytest.raises(InvalidObject, match="this machine"):
        checked_server("https://127.0.0.1", patterns_of(["127.0.0.0/8"], "servers"), "server", "servers")
