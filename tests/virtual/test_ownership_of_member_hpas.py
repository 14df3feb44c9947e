"""Mode Distributed: the HPAs in a member belong to the hub that made them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from fedhpa.api.member_hpas import OWNER, Owner, new_member_hpa
from testbed.embedded.cluster.autoscalers import HPAS
from testbed.embedded.objects.kinds import NAMESPACES
from tests.support.federation import until
from tests.support.federation.distributed import Distributed, distributed
from tests.support.federation.karmada import karmada
from tests.support.federation.planes import HPAS as FEDERATED
from tests.support.federation.planes import NAME, NAMESPACE, Seen, nothing
from tests.support.federation.world import another_hub

pytestmark = pytest.mark.looptime(noop_cycles=0)

PER_POD = 50


def hub_uid(d: Distributed) -> str:
    return str(d.f.hub.server.store.get(NAMESPACES, "", "kube-system")["metadata"]["uid"])


def owners(d: Distributed) -> set[str]:
    """The owners that the HPAs in the members name; "" for one without the annotation."""
    hpas = [d.hpa(name) for name in d.f.members]
    return {(hpa["metadata"].get("annotations") or {}).get(OWNER, "") for hpa in hpas if hpa is not None}


async def refuse(seen: Seen) -> None:
    if seen.path.endswith("/namespaces/kube-system"):
        raise web.HTTPForbidden


async def test_two_hubs_do_not_fight_over_an_hpa(tmp_path: Path) -> None:
    """The first one keeps it. The second says whose it is, and which flag a rebuilt hub needs."""
    async with distributed(tmp_path, m1=4, m2=2) as first, another_hub(first.f) as hub:
        second = Distributed(hub)
        async with first.f.controller(calm=True):
            await first.begin()
            before, began, owner = first.bounds, first.f.now(), owners(first)
            async with hub.controller(calm=True):
                second.scale(minReplicas=4, maxReplicas=30)
                await asyncio.sleep(1200)
                shown, event = second.f.condition("Assigned"), second.f.events("NotOwned")

        assert first.hpa_writes(began) == []
        assert first.bounds == before
        assert {each.rpartition("/")[0] for each in owner} == {f"{hub_uid(first)}/{NAMESPACE}/{NAME}"}
        assert first.f.condition("Assigned")[0] == "True"
        assert shown[:2] == ("False", "NotOwned")
        assert f"--hub-id={hub_uid(first)}" in shown[2]
        assert len(event) == 1


async def test_a_hub_adopts_what_an_earlier_object_of_the_name_left(tmp_path: Path) -> None:
    """Also a rebuilt hub, with the identity of the one before. The next write names the new object."""
    async with distributed(tmp_path, m1=4, m2=2) as first, another_hub(first.f) as hub:
        async with first.f.controller(calm=True):
            await first.begin()
        second = Distributed(hub)
        async with hub.controller(calm=True, hub_id=hub_uid(first)):
            second.scale(minReplicas=4, maxReplicas=30)
            await until(lambda: second.f.condition("Assigned")[0] == "True")
            await until(lambda: second.maximum == 30, 120)
        uid = second.f.hub.server.store.get(FEDERATED, NAMESPACE, NAME)["metadata"]["uid"]

        assert owners(second) == {f"{hub_uid(first)}/{NAMESPACE}/{NAME}/{uid}"}


async def test_an_hpa_of_ours_without_an_owner_gets_one_at_once(tmp_path: Path) -> None:
    """A person may have set the label alone, to hand an HPA over whose bounds are right."""
    async with distributed(tmp_path, m1=4, m2=2) as d, d.f.controller(calm=True):
        await d.begin()
        for member in d.f.members.values():
            found = member.server.store.get(HPAS, NAMESPACE, NAME)
            del found["metadata"]["annotations"]
            member.server.store.update(HPAS, found)
        began, before = d.f.now(), d.bounds
        await until(lambda: "" not in owners(d), 120)
        await asyncio.sleep(300)

        assert len(owners(d)) == 1
        assert d.bounds == before
        assert len(d.hpa_writes(began)) == len(d.f.members)


async def test_a_deletion_leaves_the_hpa_of_another_hub(tmp_path: Path) -> None:
    """Neither a deletion nor a change of the mode touches it, and neither waits for it."""
    async with distributed(tmp_path, m1=4, m2=2) as first, another_hub(first.f) as hub:
        async with first.f.controller(calm=True):
            await first.begin()
        before, began, second = first.bounds, first.f.now(), Distributed(hub)
        async with hub.controller(calm=True):
            second.scale(minReplicas=4, maxReplicas=30)
            await until(lambda: second.f.condition("Assigned")[1] == "NotOwned")
            second.change(mode="Centralized", dryRun=None)
            await asyncio.sleep(120)
            second.delete()
            await until(lambda: second.object is None, 60)

        assert first.bounds == before
        assert first.hpa_writes(began) == []


async def test_mode_distributed_waits_for_the_identity_of_the_hub(tmp_path: Path) -> None:
    """Without it nobody can tell whose an HPA is. The condition names the flag and the right."""
    async with distributed(tmp_path, m1=4, m2=2) as d:
        d.f.hub.before = refuse
        async with d.f.controller(calm=True):
            d.f.demand(6 * PER_POD)
            d.scale(minReplicas=2, maxReplicas=12)
            await asyncio.sleep(120)
            held, written = d.f.condition("Assigned"), d.writes()
            d.f.hub.before = nothing
            await until(lambda: d.f.condition("Assigned")[0] == "True", 120)

        assert held[:2] == ("False", "HubUnknown")
        assert "--hub-id" in held[2]
        assert written == []
        assert all(bounds is not None for bounds in d.bounds.values())


async def test_a_deletion_waits_for_the_identity_of_the_hub(tmp_path: Path) -> None:
    """An HPA that may be another hub's is not removed, and ours is not forgotten."""
    async with distributed(tmp_path, m1=4, m2=2) as d:
        async with d.f.controller():
            await d.begin()
        d.f.hub.before = refuse
        before = d.bounds
        async with d.f.controller():
            await asyncio.sleep(60)
            d.delete()
            await asyncio.sleep(120)
            waiting = d.object is not None, d.bounds
            d.f.hub.before = nothing
            await until(lambda: d.object is None, 120)

        assert waiting == (True, before)
        assert set(d.bounds.values()) == {None}


async def test_a_work_never_takes_over_the_hpa_of_another_hub(tmp_path: Path) -> None:
    """Karmada would overwrite it, because the label of Karmada is the same on every hub."""
    async with karmada(tmp_path, m1=4, m2=2) as k:
        hpa = new_member_hpa(Owner("another-hub", NAMESPACE, NAME, "1"), {"maxReplicas": 3, "minReplicas": 1})
        hpa["metadata"]["labels"]["karmada.io/managed"] = "true"
        hpa["spec"]["scaleTargetRef"] = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}
        k.f.members["m2"].server.store.create(HPAS, hpa)
        async with k.f.controller(calm=True, propagation="karmada"):
            k.f.demand(6 * PER_POD)
            k.scale(minReplicas=2, maxReplicas=12, federatedHPAAssignment={})
            await until(lambda: k.f.condition("Assigned")[1] == "NotOwned")
            await asyncio.sleep(120)
            shown, theirs = k.f.condition("Assigned"), k.hpa("m2")

        assert "--hub-id=another-hub" in shown[2]
        assert theirs is not None
        assert theirs["spec"]["maxReplicas"] == 3
        assert set(k.works) == {"m1"}
        assert k.works["m1"]["spec"]["workload"]["manifests"][0]["metadata"]["annotations"][OWNER] == (
            f"{hub_uid(k)}/{NAMESPACE}/{NAME}/{k.object['metadata']['uid'] if k.object else ''}"
        )
