"""Discovery lists the metrics of all members from memory, so that no client waits for a member."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fedhpa.kube import SYSTEM
from metrics_adapter.members.discovery_cache import (
    MAX_NAMES,
    REFRESH_SECONDS,
    RETRY_SECONDS,
    MetricDiscoveryCache,
)
from tests.support.adapter.application import CUSTOM, EXTERNAL, client_of, members_source, serving

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
VERSIONS = [f"{CUSTOM}/v1beta1", f"{CUSTOM}/v1beta2"]


def resources(*names: str, namespaced: bool = True) -> dict[str, Any]:
    return {"resources": [{"name": name, "namespaced": namespaced} for name in names]}


def lists(
    custom: Iterable[str] = (), external: Iterable[str] = (), *, version: str = "v1beta2", **more: bool
) -> dict[str, Any]:
    """Returns the responses of a member with these metrics."""
    return serving(version) | {
        f"{CUSTOM}/{version}": resources(*custom, **more),
        EXTERNAL: resources(*external),
    }


class Clock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def names(client: Any, path: str) -> list[tuple[str, bool]]:
    body = await (await client.get(path)).json()
    return [(entry["name"], entry["namespaced"]) for entry in body["resources"]]


async def test_the_metrics_of_all_members_are_listed_once() -> None:
    """They are sorted, in both versions, from members of either. Invalid names are left out."""
    worlds = {
        "m1": lists(["pods/rps", "nodes/load"], ["depth"]),
        "m2": lists(
            ["pods/rps", "bad", "a/b/c", "pods/", "jobs.batch/x"], ["lag", "a/b", ""], version="v1beta1"
        ),
        "m3": {"*": 500},
        "m4": {},
        "m5": None,
    }
    async with members_source(worlds) as (source, _):
        catalogue = MetricDiscoveryCache(source, clock=SYSTEM.monotonic)
        await catalogue.refresh()
        async with client_of(source, catalogue) as client:
            custom = [await names(client, path) for path in VERSIONS]
            external = await names(client, EXTERNAL)
            full = (await (await client.get(VERSIONS[0])).json())["resources"][0]

    assert custom == [[("jobs.batch/x", True), ("nodes/load", True), ("pods/rps", True)]] * 2
    assert external == [("depth", True), ("lag", True)]
    assert full == {
        "name": "jobs.batch/x",
        "singularName": "",
        "namespaced": True,
        "kind": "MetricValueList",
        "verbs": ["get"],
    }


async def test_all_groups_are_in_the_aggregated_document() -> None:
    """A custom metric is a subresource there, as in Kubernetes' own conversion."""
    async with members_source({"m1": lists(["pods/rps", "pods/lag"], ["depth"])}) as (source, _):
        catalogue = MetricDiscoveryCache(source, clock=SYSTEM.monotonic)
        await catalogue.refresh()
        async with client_of(source, catalogue) as client:
            document = await (await client.get("/apis", headers={"Accept": AGGREGATED})).json(
                content_type=None
            )
            plain = await (await client.get("/apis")).json()
            group = await (await client.get(CUSTOM)).json()

    def kind(name: str) -> dict[str, str]:
        return {"group": "", "version": "", "kind": name}

    found = {
        (item["metadata"]["name"], version["version"]): version["resources"]
        for item in document["items"]
        for version in item["versions"]
    }
    pods = {
        "resource": "pods",
        "responseKind": kind(""),
        "scope": "Namespaced",
        "singularResource": "",
        "verbs": [],
        "subresources": [
            {"subresource": name, "responseKind": kind("MetricValueList"), "verbs": ["get"]}
            for name in ("lag", "rps")
        ],
    }
    assert list(found) == [
        ("custom.metrics.k8s.io", "v1beta2"),
        ("custom.metrics.k8s.io", "v1beta1"),
        ("external.metrics.k8s.io", "v1beta1"),
        ("metrics.k8s.io", "v1beta1"),
    ]
    assert (
        found[("custom.metrics.k8s.io", "v1beta1")] == found[("custom.metrics.k8s.io", "v1beta2")] == [pods]
    )
    assert [entry["resource"] for entry in found[("external.metrics.k8s.io", "v1beta1")]] == ["depth"]
    assert [entry["name"] for entry in plain["groups"]] == [
        item["metadata"]["name"] for item in document["items"]
    ]
    assert [version["version"] for version in group["versions"]] == ["v1beta2", "v1beta1"]
    assert group["preferredVersion"]["version"] == "v1beta2"


async def test_who_discovers_never_asks_a_member() -> None:
    """Members are listed in the background.

    A member is listed once when it joins, and then at most once a minute while discovery is read.
    """
    clock = Clock()
    async with members_source({"m1": lists(["pods/rps"])}) as (source, stubs):
        catalogue = MetricDiscoveryCache(source, clock=clock)
        seen: list[int] = []

        async def poll(*, reads: bool, after: float) -> None:
            clock.now += after
            if reads:
                async with client_of(source, catalogue) as client:
                    await names(client, VERSIONS[0])
            before = len(stubs["m1"].seen)
            await catalogue.refresh()
            seen.append(len(stubs["m1"].seen) - before)

        async with client_of(source, catalogue) as client:
            first = await names(client, VERSIONS[0])
        asked_by_reader = len(stubs["m1"].seen)
        await poll(reads=False, after=0)
        await poll(reads=True, after=REFRESH_SECONDS / 2)
        await poll(reads=False, after=REFRESH_SECONDS / 2)
        await poll(reads=False, after=REFRESH_SECONDS)

    assert (first, asked_by_reader) == ([], 0)
    # This is one request for its versions, which are cached, and one for each of its two lists.
    assert seen == [3, 0, 2, 0]


async def test_a_member_that_fails_keeps_what_it_served() -> None:
    """A member whose API is gone does not keep its metrics, nor does a member that left."""
    clock = Clock()
    worlds = {"m1": lists(["pods/a"], ["x"]), "m2": lists(["pods/b"], ["y"]), "m3": lists(["pods/c"], ["z"])}
    async with members_source(worlds) as (source, stubs):
        catalogue = MetricDiscoveryCache(source, clock=clock)
        await catalogue.refresh()
        stubs["m1"].responses[EXTERNAL] = stubs["m1"].responses[f"{CUSTOM}/v1beta2"] = 500
        stubs["m2"].responses[EXTERNAL] = stubs["m2"].responses[f"{CUSTOM}/v1beta2"] = 404
        source.members().pop("m3")  # type: ignore[attr-defined]  # the test's own dictionary
        catalogue.metrics("custom.metrics.k8s.io")
        clock.now += REFRESH_SECONDS
        await catalogue.refresh()
        known = [
            [entry.name for entry in catalogue.metrics(group)]
            for group in ("custom.metrics.k8s.io", "external.metrics.k8s.io")
        ]

    assert known == [["pods/a"], ["x"]]


async def test_a_member_that_could_not_be_listed_is_asked_again_soon() -> None:
    """Otherwise a member that is busy when it joins would be missing for a minute. This needs a reader."""
    clock = Clock()
    served = lists(["pods/a"], ["x"])
    async with members_source({"m1": {}}) as (source, stubs):
        stubs["m1"].responses.update(dict.fromkeys(served, 500))
        catalogue = MetricDiscoveryCache(source, clock=clock)
        await catalogue.refresh()
        stubs["m1"].responses = served
        clock.now += RETRY_SECONDS
        asked = len(stubs["m1"].seen)
        await catalogue.refresh()
        unread = len(stubs["m1"].seen) - asked
        catalogue.metrics("external.metrics.k8s.io")
        await catalogue.refresh()
        known = [entry.name for entry in catalogue.metrics("external.metrics.k8s.io")]

    assert (unread, known) == (0, ["x"])


async def test_a_list_that_cannot_be_read_is_none() -> None:
    """The metrics of the other members are listed."""
    answers = ("[]", '{"resources": [{"name": 1}]}', "{", '{"resources": {}}')
    worlds = {answer: serving("v1beta2") | {f"{CUSTOM}/v1beta2": answer} for answer in answers}
    async with members_source(worlds | {"m5": lists(["pods/b"])}) as (source, _):
        catalogue = MetricDiscoveryCache(source, clock=SYSTEM.monotonic)
        await catalogue.refresh()

        assert [entry.name for entry in catalogue.metrics("custom.metrics.k8s.io")] == ["pods/b"]


async def test_a_member_cannot_fill_the_memory() -> None:
    """The number and the length of names are limited."""
    many = [f"pods/{number:06}" for number in range(MAX_NAMES + 5)]
    async with members_source({"m1": lists(["pods/" + "x" * 600, *many])}) as (source, _):
        catalogue = MetricDiscoveryCache(source, clock=SYSTEM.monotonic)
        await catalogue.refresh()

        assert [entry.name for entry in catalogue.metrics("custom.metrics.k8s.io")] == many[:MAX_NAMES]
