"""A member follows changes of its Cluster and Secret, and errors name the remedy."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controller.cluster_status import write_cluster_status
from fedhpa.api.errors import MemberUnavailable
from fedhpa.kube import SYSTEM
from fedhpa.kube.client import ApiClient
from fedhpa.members.member import ACCESS_INVALID, PROBE_FAILED, PROBE_SUCCEEDED
from fedhpa.members.registry import MemberRegistry
from tests.support.fakeapi import CLUSTERS, SECRETS, cluster, eventually, fake_api, secret
from tests.support.members import FollowedMembers, federation, federation_on_sockets
from tests.support.timing import background

VERSION = "/version"
NOW = 1773235397.0  # 2026-03-11T13:23:17Z


async def _written(world: FollowedMembers, name: str) -> bool:
    """Let the leader write a member's status. Returns True if it wrote."""
    async with ApiClient(world.hub.config()) as client:
        return await write_cluster_status(client, world[name], NOW)


async def test_a_rotated_token_is_used_without_a_failing_call() -> None:
    """A new token in the Secret is used as soon as the watch delivers it; connections stay open."""
    async with federation_on_sockets("member1") as world:
        api, member = world.members["member1"], world["member1"]
        generation = member.client.generation
        world.hub.put(SECRETS, secret("member1", token="new", ca=api.ca_pem))
        await eventually(lambda: member.access is not None and member.access.token == "new")
        api.token = "new"

        assert await member.client.get_json(VERSION)
        assert member.client.generation == generation


def rotate_silently(world: FollowedMembers) -> None:
    """Give member1 another token without an event in the watch of its Secret."""
    api = world.members["member1"]
    stored = secret("member1", token="new", ca=api.ca_pem)
    world.hub._objects[SECRETS][("creds", "member1")] = {
        "kind": "Secret",
        "apiVersion": "v1",
        **stored,
        "metadata": {**stored["metadata"], "resourceVersion": "101"},
    }
    api.token = "new"


async def test_after_a_401_the_secret_is_read_at_once() -> None:
    """The call that got the 401 reads a token that the watch has not delivered yet."""
    async with federation_on_sockets("member1") as world:
        rotate_silently(world)

        assert await world["member1"].client.get_json(VERSION)


@pytest.mark.looptime(noop_cycles=0)
async def test_concurrent_calls_with_a_401_wait_for_the_new_token() -> None:
    """This also holds while another registration is applied, which delays the new token."""
    async with federation("member1") as world:
        rotate_silently(world)
        async with world.registry._applying:
            calls = [asyncio.create_task(world["member1"].client.get_json(VERSION)) for _ in range(3)]
            await asyncio.sleep(0.1)
        answers = await asyncio.gather(*calls, return_exceptions=True)

        assert answers == [{"gitVersion": "v1.36.3"}] * 3


async def test_a_revoked_token_makes_the_member_unavailable() -> None:
    """Without a new token the member is unavailable, and the reason says why."""
    async with federation_on_sockets("member1") as world:
        world.members["member1"].token = "revoked"
        reason = await world.away("member1")
        with pytest.raises(MemberUnavailable, match="refuses our token"):
            await world["member1"].client.get_json(VERSION)

        assert reason == "its API server refuses our token (HTTP 401)"


async def test_a_rotated_authority() -> None:
    """A member with a certificate of another CA is reached once the Secret has that CA."""
    async with federation_on_sockets("member1") as world:
        api = world.members["member1"]
        await api.stop()
        async with fake_api() as other:
            api.ca = other.ca
        await api.start()
        reason = await world.away("member1")
        await eventually(lambda: "certificate not accepted" in world["member1"].state.message)
        world.hub.put(SECRETS, secret("member1", token=api.token, ca=api.ca_pem))
        await world.ready("member1")

        assert reason


async def test_a_changed_secret_reference() -> None:
    """If a Cluster names another Secret, that one is used."""
    async with federation_on_sockets("member1") as world:
        api, member = world.members["member1"], world["member1"]
        world.hub.put(SECRETS, secret("other", token="other-token", ca=api.ca_pem))
        world.hub.put(
            CLUSTERS, cluster("member1", api.url, secretRef={"namespace": "creds", "name": "other"})
        )
        await eventually(lambda: member.access is not None and member.access.token == "other-token")
        api.token = "other-token"

        assert await member.client.get_json(VERSION)


async def test_only_named_secrets_are_read() -> None:
    """Secrets are listed and watched only by name."""
    async with federation_on_sockets("member1", "member2") as world:
        world.hub.put(SECRETS, secret("unrelated", token="x"))

        queries = world.hub.queries("/secrets")
        assert {query["fieldSelector"] for query in queries} == {
            "metadata.name=member1",
            "metadata.name=member2",
        }


async def test_a_deregistered_member() -> None:
    """A deleted Cluster leaves the registry, and one with a deletion timestamp, too. Calls through the old
    member raise.
    """
    async with federation_on_sockets("member1", "member2") as world:
        member = world["member1"]
        told: list[str] = []
        world.registry.subscribe(told.append)
        world.hub.remove(CLUSTERS, "member1")
        await eventually(lambda: set(world.registry.members) == {"member2"})

        with pytest.raises(MemberUnavailable, match="no longer registered"):
            await member.client.get_json(VERSION)
        assert told == ["member1"]
        obj = cluster("member2", world.members["member2"].url)
        obj["metadata"]["deletionTimestamp"] = "2026-03-11T13:23:17Z"
        world.hub.put(CLUSTERS, obj)

        await eventually(lambda: not world.registry.members)


UNUSABLE: list[tuple[str | None, str | None, dict[str, Any], str]] = [
    (None, "ca", {}, "secret creds/bad has no key token, or it is empty"),
    ("t", None, {}, "secret creds/bad has no key caBundle, and insecureSkipTLSVerification is not set"),
    ("t", "no certificate", {}, "caBundle holds no usable PEM certificate"),
    ("t\nX: y", "ca", {}, "secret creds/bad: the token has characters that no token has"),
    ("t", "ca", {"secretRef": None}, "spec.secretRef is not set: name the Secret with the token"),
    ("t", "ca", {"endpoint": ""}, "spec.apiEndpoint is not set"),
    ("t", "ca", {"endpoint": "file:///etc/passwd"}, "spec.apiEndpoint is no URL of the form"),
    ("t", "ca", {"endpoint": "https://user:pw@10.0.0.1"}, "spec.apiEndpoint is no URL of the form"),
    ("t", "ca", {"endpoint": "https://10.0.0.1:99999"}, "spec.apiEndpoint is no URL of the form"),
    ("t", "ca", {"proxyURL": "socks5://p"}, "spec.proxyURL cannot be used"),
    (
        "t",
        "ca",
        {"proxyURL": "http://p", "proxyHeader": {"X": "a\r\nB: c"}},
        "spec.proxyHeader has a name or value that no HTTP header can have",
    ),
    (
        "t",
        "ca",
        {"secretRef": {"namespace": "creds", "name": "absent"}},
        "secret creds/absent does not exist",
    ),
]


async def test_an_unusable_access() -> None:
    """The reason names the fault of a registration; others are not affected, and a correction helps."""
    async with federation_on_sockets("member1") as world:
        api = world.members["member1"]
        for token, ca, spec, says in UNUSABLE:
            world.hub.put(SECRETS, secret("bad", token=token, ca=api.ca_pem if ca == "ca" else ca))
            world.hub.put(CLUSTERS, cluster("bad", **{"endpoint": api.url, **spec}))
            await eventually(lambda: "bad" in world.registry.members)
            await eventually(lambda says=says: world["bad"].state.message.startswith(says))  # type: ignore[misc]
            with pytest.raises(MemberUnavailable, match="bad"):
                await world["bad"].client.get_json(VERSION)
            state = world["bad"].state

            assert (state.ready, state.reason) == (False, ACCESS_INVALID), says
            assert world["member1"].state.ready
            world.hub.put(SECRETS, secret("bad", token=api.token, ca=api.ca_pem))
            world.hub.put(CLUSTERS, cluster("bad", api.url))
            await world.ready("bad")


async def test_verification_can_be_switched_off() -> None:
    """With insecureSkipTLSVerification no CA is needed, and an endpoint without a scheme is https."""
    async with federation_on_sockets() as world, fake_api() as api:
        api.token = "t"
        world.hub.put(SECRETS, secret("member1", token="t"))
        endpoint = api.url.removeprefix("https://")
        world.hub.put(CLUSTERS, cluster("member1", endpoint, insecureSkipTLSVerification=True))
        await world.ready("member1")


async def test_no_cluster_api_on_the_hub() -> None:
    """A hub without the Cluster API leaves the registry unsynced, with the reason, until it is installed."""
    async with fake_api() as hub, ApiClient(hub.config()) as client:
        hub.faults.status["/apis/cluster.karmada.io"] = 404
        registry = MemberRegistry(client, clock=SYSTEM)
        async with background(registry.run()):
            await eventually(lambda: "could not find" in (registry.problem or ""))
            assert not registry.synced()
            hub.faults.clear()
            await eventually(registry.synced)

        assert dict(registry.members) == {}


async def test_another_controllers_ready_condition_decides() -> None:
    """A member that Karmada calls unready gets no request, even if it would answer."""
    async with federation_on_sockets("member1") as world:
        obj = cluster("member1", world.members["member1"].url)
        unready = {"type": "Ready", "status": "False", "reason": "ClusterNotReachable", "message": "gone"}
        obj["status"] = {"conditions": [unready]}
        world.hub.put(CLUSTERS, obj)
        reason = await world.away("member1")
        with pytest.raises(MemberUnavailable, match="its Ready condition is False: gone"):
            await world["member1"].client.get_json(VERSION)
        written = await _written(world, "member1")
        ready = {**unready, "status": "True", "reason": "ClusterReady", "message": ""}
        world.hub.put(CLUSTERS, {**obj, "status": {"conditions": [ready]}})
        await world.ready("member1")

        assert reason == "its Ready condition is False: gone"
        assert world["member1"].state.reason == "ClusterReady"
        assert written is False


async def test_our_own_ready_condition_does_not_decide() -> None:
    """A condition that FedHPA wrote an hour ago does not decide about the present."""
    async with federation_on_sockets("member1") as world:
        obj = cluster("member1", world.members["member1"].url)
        obj["status"] = {"conditions": [{"type": "Ready", "status": "False", "reason": PROBE_FAILED}]}
        world.hub.put(CLUSTERS, obj)
        await eventually(lambda: world["member1"].cluster.condition("Ready") is not None)

        assert world["member1"].state.ready


async def test_the_leader_writes_the_condition() -> None:
    """On a plain hub the condition and the version are written once per change."""
    async with federation_on_sockets("member1") as world:
        first = await _written(world, "member1")
        second = await _written(world, "member1")
        obj = world.hub.find(CLUSTERS, "member1")
        assert obj is not None
        up = obj["status"]
        await world.members["member1"].stop()
        await world.away("member1")
        third = await _written(world, "member1")
        obj = world.hub.find(CLUSTERS, "member1")
        assert obj is not None
        down = obj["status"]["conditions"][0]

        assert (first, second, third) == (True, False, True)
        assert up["kubernetesVersion"] == "v1.36.3"
        assert up["conditions"] == [
            {
                "type": "Ready",
                "status": "True",
                "reason": PROBE_SUCCEEDED,
                "message": "the API server answers",
                "lastTransitionTime": "2026-03-11T13:23:17Z",
            }
        ]
        assert (down["status"], down["reason"]) == ("False", PROBE_FAILED)
