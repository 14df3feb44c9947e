"""Cluster Secrets of Argo CD register members."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from controller.placement.argocd import argocd_name
from fedhpa.api.errors import ApiError, ConfigError
from tests.support.fakeapi import SECRETS, eventually, fake_api
from tests.support.fleets import ARGOCD, argocd_of, cluster_secret, fleet_of


async def test_a_secret_is_a_member() -> None:
    """Its labels select it, and its token and CA reach it. After a 401 the Secret is read again. It is listed
    and watched by its name, so a right by resourceName suffices.
    """
    async with fleet_of(argocd_of("m1"), "m1", profiles=False) as fleet:
        server = fleet.servers["m1"]
        fleet.hub.put(SECRETS, cluster_secret("m1", server.url, "m1-token", server.ca_pem))
        await fleet.ready("m1")
        assert await fleet["m1"].client.get_json("/version")
        assert fleet["m1"].known.labels["region"] == "eu"
        server.token = "new"
        fleet.hub.put(SECRETS, cluster_secret("m1", server.url, "new", server.ca_pem))
        await eventually(lambda: fleet["m1"].access is not None and fleet["m1"].access.token == "new")
        await fleet.ready("m1")
        queries = [seen.query for seen in fleet.hub.seen if seen.path.endswith("/secrets")]

        assert {query.get("fieldSelector") for query in queries} == {"metadata.name=cluster-m1"}


UNUSABLE: list[tuple[dict[str, Any], str]] = [
    (
        {"config": {"execProviderConfig": {"command": "x"}}},
        "execProviderConfig is not supported: register",
    ),
    ({"config": {"awsAuthConfig": {"clusterName": "x"}}}, "eks, get-token"),
    ({"config": {"username": "a", "password": "b"}}, "username and password are not supported"),
    ({"config": {}}, "neither bearerToken nor certData"),
    ({"config": {"bearerToken": "a\nb"}}, "characters that no token has"),
    ({"config": {"bearerToken": "a", "tlsClientConfig": {"insecure": True}}}, "tlsClientConfig.insecure"),
    ({"config": {"bearerToken": "a", "tlsClientConfig": {"caData": "!"}}}, "caData of its Secret is no"),
    (
        {"config": {"bearerToken": "a", "proxyUrl": "http://127.0.0.1"}},
        "proxyUrl of its Secret 127.0.0.1",
    ),
    ({"config": {"bearerToken": 7}}, "config of its Secret cannot be read"),
    ({"server": "http://127.0.0.1"}, "use https"),
    ({"server": "https://169.254.169.254"}, "matches no pattern of --argocd-servers"),
]


async def test_a_secret_that_cannot_be_used_is_named() -> None:
    """The reason is that of its member, and says what to write instead. No token is in it."""
    async with fleet_of(argocd_of("m1"), "m1", profiles=False) as fleet:
        server = fleet.servers["m1"]
        for more, words in UNUSABLE:
            fields = {"server": server.url, **more}
            address = fields.pop("server")
            fleet.hub.put(SECRETS, cluster_secret("m1", address, "m1-token", server.ca_pem, **fields))
            reason = await fleet.away("m1", words)

            assert "m1-token" not in reason, words
        assert server.seen == []


async def test_only_its_namespaces_are_read() -> None:
    """Another namespace runs nothing for us, and what has no namespace is refused."""
    async with fleet_of(argocd_of("m1"), "m1", profiles=False) as fleet:
        server = fleet.servers["m1"]
        secret = cluster_secret("m1", server.url, "m1-token", server.ca_pem, namespaces="shop, cart")
        fleet.hub.put(SECRETS, secret)
        await fleet.ready("m1")
        server.seen.clear()
        client = fleet["m1"].client
        assert (await client.get_json("/api/v1/namespaces/shop/pods"))["kind"] == "PodList"
        with pytest.raises(ApiError, match="opens only namespaces shop, cart") as absent:
            await client.get_json("/api/v1/namespaces/other/pods")
        with pytest.raises(ApiError) as refused:
            await client.get_json("/api/v1/nodes")

        assert (absent.value.status, refused.value.status) == (404, 403)
        paths = {seen.path for seen in server.seen}
        assert not {"/api/v1/namespaces/other/pods", "/api/v1/nodes"} & paths


async def test_a_free_name_gives_way_to_that_of_the_secret() -> None:
    """Argo CD allows names that no Cluster can have, such as those of EKS. A Placement has Argo CD's name."""
    async with fleet_of(argocd_of("m1"), "m1", profiles=False) as fleet:
        server = fleet.servers["m1"]
        secret = cluster_secret(
            "m1", server.url, "m1-token", server.ca_pem, shown="arn:aws:eks:eu:1:cluster/m1"
        )
        fleet.hub.put(SECRETS, secret)
        await fleet.ready("cluster-m1")

        assert list(fleet.registry.members) == ["cluster-m1"]
        assert argocd_name("cluster-m1", fleet.registry.members) == "arn:aws:eks:eu:1:cluster/m1"


@pytest.mark.parametrize("own", [False, True])
async def test_the_adapter_reads_with_another_token(own: bool) -> None:
    """It takes the Secret NAME-metrics. Without one the member is left out, unless a flag says otherwise."""
    sources = argocd_of("m1", "m2", reads_metrics=True, argocd_own_tokens=own)
    async with fleet_of(sources, "m1", "m2", profiles=False) as fleet:
        for name, server in fleet.servers.items():
            server.token = None
            fleet.hub.put(SECRETS, cluster_secret(name, server.url, "admin", server.ca_pem))
        first = fleet.servers["m1"]
        only = cluster_secret("m1", first.url, "only-metrics", first.ca_pem, ending="-metrics")
        fleet.hub.put(SECRETS, only)
        await fleet.ready("m1", *(["m2"] if own else []))
        await eventually(fleet.registry.synced)
        asked = {seen.query.get("fieldSelector", "") for seen in fleet.hub.seen if "/secrets" in seen.path}

        access = fleet["m1"].access
        assert access is not None
        assert access.token == "only-metrics"
        assert sorted(fleet.registry.members) == (["m1", "m2"] if own else ["m1"])
        assert ("metadata.name=cluster-m1" in asked) is own


async def test_the_whole_namespace_is_read_by_label() -> None:
    """With * each Secret of Argo CD's label is a member. The adapter must be told names."""
    sources = replace(argocd_of("m1"), argocd_secrets=("*",))
    async with fleet_of(sources, "m1", profiles=False) as fleet, fake_api():
        server = fleet.servers["m1"]
        fleet.hub.put(SECRETS, cluster_secret("m1", server.url, "m1-token", server.ca_pem))
        other = {"metadata": {"name": "argocd-secret", "namespace": ARGOCD}, "data": {}}
        fleet.hub.put(SECRETS, {**other, "data": {"name": base64.b64encode(b"x").decode()}})
        await fleet.ready("m1")

        assert list(fleet.registry.registered) == ["m1"]
    with pytest.raises(ConfigError, match="it needs the names"):
        replace(sources, reads_metrics=True).check()
