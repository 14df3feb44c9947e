"""With --publish-to=argocd an ApplicationSet follows the Placement of each published object."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fedhpa.api.member_sources import MemberSources
from tests.support.argocd_generator import RESOURCE, Panic, generate
from tests.support.controller import HPAS, NAMESPACE, ControllerWorld, cluster_object, world
from tests.support.fakeapi import CLUSTERS, Collection, Object, eventually
from tests.virtual.test_placements_are_published import PUBLISH, hosting, profiles

pytestmark = pytest.mark.looptime(noop_cycles=0)

PLACEMENTS: Collection = ("fedhpa.io/v1alpha1", "placements")
ARGOCD = "argocd"
FLAGS: dict[str, Any] = {"publishes_to": ("argocd",), "sources": MemberSources(profile_namespaces=("fleet",))}
SERVERS = {"m1": "https://m1", "two": "https://m2", "m3": "https://m3", "in-cluster": "https://hub"}


def generated(w: ControllerWorld) -> list[tuple[str, str]]:
    """The clusters of Argo CD for which the generator makes an Application, with the reasons."""
    found = [one for one in w.hub.all(PLACEMENTS) if one["metadata"]["namespace"] == ARGOCD]
    return [(one["name"], one["reason"]) for one in generate(RESOURCE, found, SERVERS)]


def placement(w: ControllerWorld, name: str = "shop.web") -> Object:
    """A Placement; empty without one."""
    return w.hub.find(PLACEMENTS, name, ARGOCD) or {}


async def test_the_generator_makes_an_application_for_each_cluster() -> None:
    """Clusters have their names in Argo CD, and each write is one that the generator can read."""
    async with hosting(m1=2, m2=2, m3=None) as w:
        found = cluster_object(w, "m2")
        named = {**found["metadata"], "annotations": {"fedhpa.io/argocd-name": "two"}}
        w.hub.put(CLUSTERS, {**found, "metadata": named})
        w.scale(**PUBLISH)
        async with w.controller(**FLAGS):
            await eventually(lambda: len(generated(w)) == 3)

            assert generated(w) == [("m1", "Member"), ("two", "Member"), ("m3", "Awaited")]
            assert placement(w)["metadata"]["labels"]["fedhpa.io/name"] == "web"
            assert w.condition("Published")[0] == "True" or not w.condition("Published")[0]

            w.members["m3"].deploy(1)
            await eventually(lambda: generated(w)[-1] == ("m3", "Member"))

        writes = [one for one in w.hub.writes if "/placements" in one]
        assert writes == [
            "POST /apis/fedhpa.io/v1alpha1/namespaces/argocd/placements",
            "PUT /apis/fedhpa.io/v1alpha1/namespaces/argocd/placements/shop.web",
        ]


async def test_argocd_follows_on_a_hub_without_placementdecisions() -> None:
    """The condition tells that, and Argo CD has its Placement all the same."""
    async with world(m1=1) as w:
        w.hub.refused["GET", "/placementdecisions"] = 404
        w.scale(**PUBLISH)
        async with w.controller(publishes_to=("argocd",)):
            await eventually(lambda: generated(w) == [("m1", "Member")])
            await eventually(lambda: w.condition("Published")[1] == "NotServed")


async def test_a_placement_of_somebody_else_stays() -> None:
    """One of the same name without our label is never written, and never collected."""
    theirs = {"metadata": {"name": "shop.web", "namespace": ARGOCD}, "status": {"decisions": []}}
    async with world(m1=1) as w:
        profiles(w, "m1")
        w.hub.put(PLACEMENTS, theirs)
        w.scale(**PUBLISH)
        async with w.controller(**FLAGS):
            await eventually(lambda: w.condition("Published")[1] == "NotOwned")
            w.hub.remove(HPAS, "web", NAMESPACE)
            await asyncio.sleep(200)

        assert not [one for one in w.hub.writes if "/placements" in one]


async def test_an_object_that_is_made_anew_takes_its_placement_over() -> None:
    """Otherwise Argo CD would lose the list until the old one is collected."""
    async with world(m1=1) as w:
        profiles(w, "m1")
        w.scale(**PUBLISH)
        async with w.controller(**FLAGS):
            await eventually(lambda: bool(placement(w)))
        stored = w.hub.find(HPAS, "web", NAMESPACE)
        assert stored is not None
        w.hub.remove(HPAS, "web", NAMESPACE)
        w.hub.put(HPAS, {**stored, "metadata": {**stored["metadata"], "uid": "another"}, "status": {}})
        async with w.controller(**FLAGS):
            await eventually(
                lambda: placement(w)["metadata"]["annotations"]["fedhpa.io/owner"].endswith("another")
            )

        assert not [one for one in w.hub.writes if one.startswith("DELETE") and "/placements/" in one]


@pytest.mark.parametrize("ends", ["deleted", "unpublished", "deleted while nobody looked"])
async def test_what_nobody_publishes_is_collected(ends: str) -> None:
    """A Placement has no owner reference, because that cannot cross namespaces."""
    async with world(m1=1) as w:
        profiles(w, "m1")
        w.scale(**PUBLISH)
        async with w.controller(**FLAGS):
            await eventually(lambda: bool(placement(w)))
            if ends == "unpublished":
                w.scale()
            elif ends == "deleted":
                w.hub.remove(HPAS, "web", NAMESPACE)
            if ends != "deleted while nobody looked":
                await eventually(lambda: not placement(w), within=90)
        if ends == "deleted while nobody looked":
            w.hub.remove(HPAS, "web", NAMESPACE)
            w.scale("other", target="web")
            async with w.controller(**FLAGS):
                await eventually(lambda: not placement(w), within=90)


async def test_a_placement_stays_while_its_object_cannot_be_read() -> None:
    """Its removal would let Argo CD remove the workload."""
    async with world(m1=1) as w:
        profiles(w, "m1")
        w.scale(**PUBLISH)
        async with w.controller(**FLAGS):
            await eventually(lambda: bool(placement(w)))
        w.hub.refused["GET", "/federatedhpas/web"] = 500
        w.scale("other", target="web")
        stored = w.hub.find(HPAS, "web", NAMESPACE)
        assert stored is not None
        w.hub.put(HPAS, {**stored, "spec": {"placement": {"publish": True}, "maxReplicas": "many"}})
        async with w.controller(**FLAGS):
            await asyncio.sleep(300)

        assert placement(w)["status"]["decisions"]


@pytest.mark.parametrize(
    "status",
    [{"clusters": []}, {"decisions": [{"clusterName": "m1", "replicas": 1}]}, {"decisions": None}],
)
def test_the_generator_panics_where_argocds_does(status: Object) -> None:
    """A status without the list, and a number in an entry."""
    with pytest.raises(Panic):
        generate(RESOURCE, [{"status": status}], SERVERS)
