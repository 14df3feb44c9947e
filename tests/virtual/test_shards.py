"""Several controllers share the objects by shards, and each object always has at most one owner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controller.shards import Division, Shard
from testbed.embedded.api.server import new_namespace
from testbed.embedded.objects.kinds import NAMESPACES
from tests.support.federation import HPAS, LEASES, Controller, Federation, background, federation, until
from tests.support.nightly import NIGHTLY

pytestmark = pytest.mark.looptime(noop_cycles=0)

LEASE, RETRY = 15.0, 2.0 * 2.2
TEAMS = [f"team-{number}" for number in range(8)]


def objects_everywhere(f: Federation) -> None:
    """Create an autoscaler in each of some namespaces. Its missing workload is a status like any other."""
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "maxReplicas": 3,
    }
    head = {"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "spec": spec}
    for team in TEAMS:
        f.hub.server.store.create(NAMESPACES, new_namespace(team))
        f.hub.server.store.create(HPAS, {**head, "metadata": {"namespace": team, "name": "web"}})


def change_all(f: Federation) -> float:
    """Change every object, so that its owner writes a status; returns the time."""
    for team in TEAMS:
        found = f.hub.server.store.get(HPAS, team, "web")
        found["spec"]["maxReplicas"] += 1
        found["metadata"]["generation"] = found["metadata"].get("generation", 1) + 1
        f.hub.server.store.update(HPAS, found)
    return f.now()


def writers(f: Federation, since: float) -> dict[str, set[str]]:
    """The writers of the statuses, by namespace."""
    found: dict[str, set[str]] = {}
    for seen in f.hub.writes("/status"):
        if seen.at >= since and "/federatedhpas/" in seen.path:
            found.setdefault(seen.path.split("/")[5], set()).add(seen.user)
    return found


def holders(*controllers: Controller) -> list[int]:
    return sorted(shard for controller in controllers for shard in controller.held)


@asynccontextmanager
async def no_object_with_two_owners(*controllers: Controller) -> AsyncIterator[None]:
    """Fail if two controllers ever work on the same shard at once."""

    async def poll() -> None:
        while True:
            for team in TEAMS:
                target = (team, "Deployment", "web")
                owners = [c.identity for c in controllers if any(shard.owns(target) for shard in c.working)]
                assert len(owners) <= 1, (team, owners)
            await asyncio.sleep(0.05)

    async with background(poll()):
        yield


async def test_shards_are_shared_fairly_and_each_object_has_one_owner(tmp_path: Path) -> None:
    """Two controllers get two of four shards each, and each object is reconciled by its shard's holder."""
    async with federation(tmp_path, m1=1) as f, f.controller(shards=4) as a:
        objects_everywhere(f)
        await until(lambda: len(a.held) == 4)
        async with f.controller(shards=4) as b, no_object_with_two_owners(a, b):
            await until(lambda: len(b.held) == 2)
            await asyncio.sleep(60)
            changed = change_all(f)
            held = {a.identity: set(a.held), b.identity: set(b.held)}
            await asyncio.sleep(30)
            wrote = writers(f, changed)

        assert sorted(held[a.identity] | held[b.identity]) == [0, 1, 2, 3]
        assert len(held[b.identity]) == 2
        owners = {
            team: {
                who
                for who, shards in held.items()
                if any(Shard(n, Division(4)).owns((team, "Deployment", "web")) for n in shards)
            }
            for team in TEAMS
        }
        assert wrote == owners
        assert len({who for who, *_ in owners.values()}) == 2


async def test_lost_shards_are_taken_within_lease_time(tmp_path: Path) -> None:
    """After a controller was killed, another takes its shards when the Leases expire."""
    async with federation(tmp_path, m1=1) as f, f.controller(shards=4) as a, f.controller(shards=4) as b:
        objects_everywhere(f)
        await until(lambda: len(a.held) == 2 and len(b.held) == 2)
        await asyncio.sleep(30)
        async with no_object_with_two_owners(a, b):
            killed = f.now()
            await a.kill()
            await until(lambda: len(b.held) == 4)
            taken = f.now() - killed
            changed = change_all(f)
            await asyncio.sleep(30)
            wrote = writers(f, changed)

        assert LEASE - RETRY <= taken <= LEASE + RETRY + 1
        assert wrote == {team: {b.identity} for team in TEAMS}


@pytest.mark.nightly
@pytest.mark.parametrize("gently", [True, False] if NIGHTLY else [False])
async def test_another_number_waits_for_the_old_one_to_end(gently: bool, tmp_path: Path) -> None:
    """A controller with another --shards works only after the last Lease of the old number expired."""
    async with federation(tmp_path, m1=1) as f, f.controller(shards=2) as old:
        objects_everywhere(f)
        await until(lambda: len(old.held) == 2)
        async with f.controller(shards=3) as new, no_object_with_two_owners(old, new):
            await asyncio.sleep(120)
            before = new.held, old.held
            ended = f.now()
            await (old.stop() if gently else old.kill())
            await until(lambda: len(new.held) == 3)
            taken = f.now() - ended
            changed = change_all(f)
            await asyncio.sleep(30)
            wrote = writers(f, changed)

        assert before == ([], [0, 1])
        assert taken <= RETRY * 2 + 1 if gently else LEASE - RETRY <= taken <= LEASE + RETRY * 2 + 1
        assert wrote == {team: {new.identity} for team in TEAMS}


async def test_two_numbers_that_begin_at_once(tmp_path: Path) -> None:
    """In any interleaving exactly one number of shards works."""
    async with (
        federation(tmp_path, m1=1) as f,
        f.controller(shards=1) as a,
        f.controller(shards=3) as b,
        no_object_with_two_owners(a, b),
    ):
        objects_everywhere(f)
        await until(lambda: a.working or len(b.working) == 3)
        await asyncio.sleep(120)

        assert len(a.working) == 1 or len(b.working) == 3
        assert not (a.working and b.working)


async def test_a_wish_of_the_dead_is_granted_once(tmp_path: Path) -> None:
    """A released shard that no process takes is acquired again, and not released again and again."""
    async with federation(tmp_path, m1=1) as f, f.controller(shards=2) as a:
        await until(lambda: len(a.held) == 2)
        lease = f.hub.server.store.get(LEASES, "kube-system", Shard(0, Division(2)).lease)
        lease["metadata"]["annotations"] = {"fedhpa.io/wanted-by": "nobody"}
        f.hub.server.store.update(LEASES, lease)
        await until(lambda: a.held == [1])
        await until(lambda: len(a.held) == 2)
        changes: list[bool] = []
        for _ in range(600):
            await asyncio.sleep(0.1)
            changes.append(len(a.held) == 2)

        assert all(changes)


async def test_a_wish_that_its_holder_cannot_grant_is_taken_back(tmp_path: Path) -> None:
    """A process without a shard gets one of two, and takes back what it requested of a holder of one.

    That one held two when it was asked, gave one to a third process, and keeps its last.
    """
    async with (
        federation(tmp_path, m1=1) as f,
        f.controller(shards=3) as a,
        f.controller(shards=3) as b,
        no_object_with_two_owners(a, b),
    ):
        await until(lambda: len(a.held) + len(b.held) == 3 and bool(a.held) and bool(b.held))
        (last,) = min(a.held, b.held, key=len)
        name = Shard(last, Division(3)).lease
        async with f.controller(shards=3) as c:
            lease = f.hub.server.store.get(LEASES, "kube-system", name)
            lease["metadata"]["annotations"] = {"fedhpa.io/wanted-by": c.identity}
            f.hub.server.store.update(LEASES, lease)
            await until(lambda: len(c.held) == 1)
            await asyncio.sleep(30)

            assert sorted(map(len, (a.held, b.held, c.held))) == [1, 1, 1]
            assert not f.hub.server.store.get(LEASES, "kube-system", name)["metadata"].get("annotations")


async def test_only_watched_namespaces_are_handled(tmp_path: Path) -> None:
    """With --watch-namespaces the controller never writes objects of other namespaces."""
    watched = frozenset(TEAMS[:2])
    async with federation(tmp_path, m1=1) as f, f.controller(watch_namespaces=watched) as a:
        objects_everywhere(f)
        await until(lambda: len(a.held) == 1)
        await asyncio.sleep(60)
        wrote = writers(f, 0)

        assert wrote == {team: {a.identity} for team in watched}
