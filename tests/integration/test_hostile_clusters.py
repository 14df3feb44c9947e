"""A Cluster or Secret of any content makes at most its own member unready, with a reason and a remedy."""

from __future__ import annotations

import asyncio
import base64

import pytest

from fedhpa.api.errors import InvalidObject, MemberUnavailable
from fedhpa.kube.credentials import StaticCredentials
from fedhpa.members.cluster import (
    Access,
    Cluster,
    ClusterSpec,
    SecretData,
    SecretReference,
    api_config,
    read_access,
)
from fedhpa.members.member import ACCESS_INVALID
from tests.support.fakeapi import CLUSTERS, SECRETS, Object, cluster, eventually, secret
from tests.support.members import federation, federation_on_sockets

LONG = "a" * 64
ENDPOINT = "spec.apiEndpoint is no URL of the form https://HOST[:PORT][/PATH]"
PROXY = "spec.proxyURL cannot be used: a proxy URL has the form http://HOST:PORT"


ERRORS: list[tuple[Object, str]] = [
    ({"apiEndpoint": "https://foo..bar"}, ENDPOINT),
    ({"apiEndpoint": f"https://{LONG}.example"}, ENDPOINT),
    ({"apiEndpoint": "https://" + "a." * 127 + "example"}, ENDPOINT),
    ({"apiEndpoint": "https://."}, ENDPOINT),
    ({"apiEndpoint": "https://a\\b"}, ENDPOINT),
    ({"apiEndpoint": "https://a b"}, ENDPOINT),
    ({"apiEndpoint": "https://a\nb"}, ENDPOINT),
    ({"apiEndpoint": "https://\u2028"}, ENDPOINT),
    ({"apiEndpoint": "https://m\u00fcnchen"}, ENDPOINT),
    ({"apiEndpoint": "https://[::1"}, ENDPOINT),
    ({"apiEndpoint": "https://[fe80::zz]"}, ENDPOINT),
    ({"apiEndpoint": "https://host:-1"}, ENDPOINT),
    ({"apiEndpoint": "https://host:x"}, ENDPOINT),
    ({"apiEndpoint": "https://%00"}, ENDPOINT),
    ({"apiEndpoint": "://"}, ENDPOINT),
    ({"proxyURL": "http://foo..bar"}, PROXY),
    ({"proxyURL": f"http://{LONG}"}, PROXY),
    ({"proxyURL": "http://."}, PROXY),
    ({"proxyURL": "http://a\\b:3128"}, PROXY),
    ({"proxyURL": "http://p:0"}, PROXY),
    ({"proxyURL": "http://p", "proxyHeader": {"a b": "c"}}, "spec.proxyHeader has a name or value"),
    ({"proxyURL": "http://p", "proxyHeader": {"": "c"}}, "spec.proxyHeader has a name or value"),
    ({"secretRef": {"namespace": "..", "name": "x"}}, "spec.secretRef is not set"),
    ({"secretRef": {"namespace": "x", "name": "."}}, "spec.secretRef is not set"),
]


@pytest.mark.looptime(noop_cycles=0)
async def test_a_typing_error_in_a_cluster() -> None:
    """The member is unready with a reason that names the field and what belongs there; others stay ready."""
    async with federation("member1") as world:
        api = world.members["member1"]
        for number, (spec, _) in enumerate(ERRORS):
            world.hub.put(SECRETS, secret(f"bad{number}", token="t"))
            made = cluster(f"bad{number}", api.url)
            world.hub.put(CLUSTERS, {**made, "spec": {**made["spec"], **spec}})
        await eventually(lambda: len(world.registry.members) == len(ERRORS) + 1)
        await asyncio.sleep(5)
        for number, (spec, says) in enumerate(ERRORS):
            with pytest.raises(MemberUnavailable, match="bad"):
                await world[f"bad{number}"].client.get_json("/version")
            state = world[f"bad{number}"].state

            assert (state.ready, state.reason) == (False, ACCESS_INVALID), spec
            assert state.message.startswith(says), spec
        assert world["member1"].state.ready


@pytest.mark.parametrize("endpoint", ["10.0.0.1", "https://[::1]:6443", "https://a_b.c-d.e.:6443/x/y"])
def test_usual_endpoints_are_used(endpoint: str) -> None:
    """Addresses, names with underscores, a trailing dot, ports and paths are accepted."""
    spec = ClusterSpec(
        apiEndpoint=endpoint, secretRef=SecretReference("a", "b"), insecureSkipTLSVerification=True
    )
    access = read_access(Cluster(spec=spec), SecretData("token", None))

    assert access.endpoint.removeprefix("https://") == endpoint.removeprefix("https://")


async def test_an_authority_with_comments_in_any_language() -> None:
    """Text between certificates is skipped, as in Go, also beyond ASCII and in an unknown encoding."""
    async with federation_on_sockets("member1") as world:
        api = world.members["member1"]
        for number, comment in enumerate(("# Z\u00fcrich\n".encode(), b"# Z\xfcrich\n")):
            stored = secret(f"commented{number}", token=api.token)
            stored["data"]["caBundle"] = base64.b64encode(comment + api.ca_pem.encode()).decode()
            world.hub.put(SECRETS, stored)
            world.hub.put(CLUSTERS, cluster(f"commented{number}", api.url))

        await world.ready("commented0", "commented1", "member1")


@pytest.mark.parametrize(
    "bundle", ["", "x", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----", "\u00fc"]
)
def test_an_authority_without_a_certificate_is_refused(bundle: str) -> None:
    """A caBundle without a certificate is an error: the system's authorities are not trusted in its place."""
    access = Access("https://10.0.0.1", "t", bundle, None, ())
    with pytest.raises(InvalidObject, match="caBundle"):
        api_config("bad", access, StaticCredentials("Bearer t"))


async def test_a_token_is_never_sent_in_the_clear() -> None:
    """The process sends nothing to a Cluster whose endpoint is http. The reason says what to do."""
    async with federation_on_sockets("member1") as world:
        received: list[bytes] = []

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            received.append(await reader.read(1000))
            writer.close()

        server = await asyncio.start_server(listen, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            world.hub.put(SECRETS, secret("bad", token="t"))
            world.hub.put(CLUSTERS, cluster("bad", f"http://127.0.0.1:{port}"))
            await eventually(lambda: "bad" in world.registry.members)
            await eventually(lambda: "use https" in world["bad"].state.message)
            with pytest.raises(MemberUnavailable, match="use https"):
                await world["bad"].client.get_json("/version")

        assert not received
        assert world["member1"].state.ready
