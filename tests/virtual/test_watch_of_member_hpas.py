"""Mode Distributed reads the members' HPAs from one watch a member, in the best version that it serves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedhpa.api.errors import MemberUnavailable
from fedhpa.api.member_hpas import MANAGED_BY, MANAGER, PLURAL, V2, V2BETA2, MemberHpa
from fedhpa.api.rights import member_rights
from fedhpa.members import Member
from fedhpa.members.hpas import HpaCache, HpaReading
from testbed.embedded.api.types import User
from testbed.embedded.storage.store import Collection
from tests.support.federation import Federation, federation
from tests.support.federation.planes import NAMESPACE
from tests.support.fewer_rights import grant
from tests.support.timing import background

pytestmark = pytest.mark.looptime(noop_cycles=0)

HPAS: Collection = ("autoscaling", PLURAL)
METRIC = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}


def hpa(name: str, maximum: int = 5, *, ours: bool = True) -> dict[str, Any]:
    labels = {MANAGED_BY: MANAGER} if ours else {}
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "apiVersion": V2,
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"namespace": NAMESPACE, "name": name, "labels": labels},
        "spec": {
            "scaleTargetRef": reference,
            "minReplicas": 1,
            "maxReplicas": maximum,
            "metrics": [METRIC],
        },
    }


@asynccontextmanager
async def cached(folder: Path) -> AsyncIterator[tuple[Federation, Member, HpaCache]]:
    """A federation of one member with an HPA of ours and one of a tenant, and a cache of them."""
    async with federation(folder, m1=2) as f:
        store = f.members["m1"].server.store
        store.create(HPAS, hpa("web"))
        store.create(HPAS, hpa("tenant", ours=False))
        async with f.controller() as controller:
            await asyncio.sleep(5)
            cache = HpaCache(clock=f.clock.monotonic)
            async with background(cache.run()):
                yield f, controller.members.members["m1"], cache


def requests_for_hpas(f: Federation) -> list[tuple[str, bool]]:
    """Path, and whether it is a watch, of the requests for HPAs that the controller's search did not send."""
    own = f"/apis/autoscaling/v2/{PLURAL}"
    return [
        (seen.path, "watch" in seen.query)
        for seen in f.members["m1"].seen
        if seen.path.startswith(own) or seen.path.endswith(f"{PLURAL}/web")
    ]


async def maximum(cache: HpaCache, member: Member, name: str = "web") -> int | None:
    found = (await cache.read(member, NAMESPACE, name)).hpa
    return found.spec.maxReplicas if isinstance(found, MemberHpa) else None


async def test_many_reads_share_one_watch(tmp_path: Path) -> None:
    """A hundred reads send one list and one watch, and changes arrive by the watch."""
    async with cached(tmp_path) as (f, member, cache):
        for _ in range(100):
            assert await maximum(cache, member) == 5
            assert await maximum(cache, member, "none") is None
        assert cache.cached(member, NAMESPACE, "none") == HpaReading(None, V2)
        store = f.members["m1"].server.store
        changed = store.get(HPAS, NAMESPACE, "web")
        changed["spec"]["maxReplicas"] = 7
        store.update(HPAS, changed)
        await asyncio.sleep(1)

        assert await maximum(cache, member) == 7
        assert requests_for_hpas(f) == [
            (f"/apis/autoscaling/v2/{PLURAL}", False),
            (f"/apis/autoscaling/v2/{PLURAL}", True),
        ]


async def test_of_an_hpa_of_a_tenant_only_target_and_bounds_are_kept(tmp_path: Path) -> None:
    """A member may have many thousand HPAs that are not ours."""
    async with cached(tmp_path) as (_, member, cache):
        tenants, _ = await cache.read(member, NAMESPACE, "tenant")
        own, _ = await cache.read(member, NAMESPACE, "web")

    assert isinstance(tenants, MemberHpa)
    assert isinstance(own, MemberHpa)
    assert (tenants.ours, tenants.spec.maxReplicas, tenants.spec.metrics) == (False, 5, None)
    assert (own.ours, own.spec.metrics) == (True, [METRIC])


async def test_after_a_write_the_bounds_from_before_are_never_returned(tmp_path: Path) -> None:
    """Until the watch has reached the write, the HPA is read from the server."""
    async with cached(tmp_path) as (f, member, cache):
        assert await maximum(cache, member) == 5
        path = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/{PLURAL}/web"
        stored = await member.client.get_json(path)
        cache.note(member, NAMESPACE, "web")
        stored["spec"]["maxReplicas"] = 9
        await member.client.put(path, stored)
        assert cache.cached(member, NAMESPACE, "web") is None
        assert await maximum(cache, member) == 9
        await asyncio.sleep(1)
        before = len(f.members["m1"].seen)

        assert await maximum(cache, member) == 9
        assert len(f.members["m1"].seen) == before
        cache.note(member, NAMESPACE, "web")
        await member.client.delete(path)
        assert await maximum(cache, member) is None
        await asyncio.sleep(1)
        assert await maximum(cache, member) is None
        assert cache.cached(member, NAMESPACE, "web") == HpaReading(None, V2)


async def test_a_member_without_v2_is_read_in_v2beta2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Discovery decides, and is asked again after five minutes. A member with neither version says so."""
    async with cached(tmp_path) as (_, member, cache):
        served: list[str] = []

        async def group(path: str, kind: Any) -> Any:
            assert path == "/apis/autoscaling"
            return msgspec.convert({"versions": [{"groupVersion": each} for each in served]}, kind)

        monkeypatch.setattr(member.client, "get", group)
        found = []
        for now in ([V2BETA2, "autoscaling/v1"], ["autoscaling/v1", V2BETA2, V2], [V2]):
            served[:] = now
            found.append(await cache.version(member))
            await asyncio.sleep(200)
        served[:] = ["autoscaling/v1"]
        await asyncio.sleep(200)
        with pytest.raises(MemberUnavailable, match="serves none of autoscaling/v2, autoscaling/v2beta2"):
            await cache.version(member)

    assert found == [V2BETA2, V2BETA2, V2]


async def test_a_member_that_forbids_the_watch_says_so(tmp_path: Path) -> None:
    """The message of its API server names the resource."""
    async with cached(tmp_path) as (f, member, cache):
        refused: list[str] = []
        grant(f.members["m1"], member_rights("kube-system"), refused)
        f.members["m1"].authenticator.tokens["m1-token"] = User("nobody", ("system:authenticated",))
        with pytest.raises(MemberUnavailable, match=r"horizontalpodautoscalers.*forbidden"):
            await cache.read(member, NAMESPACE, "web")
