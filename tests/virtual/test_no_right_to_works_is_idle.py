"""The rights of mode Distributed with --propagation=karmada suffice, and all are used."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedhpa.api.rights import Manifest, Switches, hub_rights, member_rights, user
from fedhpa.kube import StaticCredentials
from testbed.embedded.api.types import User
from tests.support.federation import until
from tests.support.federation.karmada import Karmada, karmada
from tests.support.fewer_rights import LEAST, grant, names_of, without

pytestmark = pytest.mark.looptime(noop_cycles=0)

SPACE = "kube-system"
PER_POD = 50
SWITCHES = Switches("karmada", distributed=True)
PLAIN = Switches("karmada")


def of_hub(switches: Switches) -> list[Manifest]:
    """The rights of the controller on the hub, given to the user LEAST."""
    found = hub_rights(SPACE, switches=switches, components=["controller"], secrets={SPACE: ()})
    return [{**one, "subjects": [user(LEAST)]} if "subjects" in one else one for one in found]


def of_member(switches: Switches) -> list[Manifest]:
    """The rights of the hub in a member."""
    found = member_rights(SPACE, switches=switches)
    return [{**one, "subjects": [user("hub")]} if "subjects" in one else one for one in found]


ADDED = [
    rule
    for rule in names_of([*of_hub(SWITCHES), *of_member(SWITCHES)])
    if rule not in names_of([*of_hub(PLAIN), *of_member(PLAIN)])
]


def grant_all(k: Karmada, removed: str, refused: list[str]) -> None:
    """Gives the controller and the tokens of the members the rights without one rule."""
    on_hub = removed in names_of(of_hub(SWITCHES))
    k.f.hub.authenticator.tokens[LEAST] = User(LEAST, ("system:authenticated",))
    grant(k.f.hub, without(of_hub(SWITCHES), removed if on_hub else ""), refused)
    for name, member in k.f.members.items():
        member.authenticator.tokens[f"{name}-token"] = User("hub", ("system:authenticated",))
        grant(member, without(of_member(SWITCHES), "" if on_hub else removed), refused)


@pytest.mark.parametrize("removed", ["", *ADDED])
async def test_each_right_is_used(tmp_path: Path, removed: str) -> None:
    """A cluster with too few replicas gets its first ones, bounds are lowered, and the object is deleted."""
    refused: list[str] = []
    async with karmada(tmp_path, m1=6, m2=0) as k:
        grant_all(k, removed, refused)
        k.f.demand(6 * PER_POD)
        credentials = StaticCredentials(f"Bearer {LEAST}")
        async with k.f.controller(calm=True, propagation="karmada", credentials=credentials):
            k.scale(minReplicas=2, maxReplicas=12)
            await until(lambda: bool(k.f.condition("Assigned")[0] or refused), 300)
            k.change(maxReplicas=10)
            if not removed:
                await until(lambda: k.maximum == 10, 300)
            else:
                await until(lambda: bool(refused), 300)
            k.delete()
            if not removed:
                await until(lambda: k.object is None, 120)

    resource = removed.partition(": ")[2].partition(" ")[0].split("/")[1] if removed else ""
    assert [one for one in refused if resource not in one] == []
    assert bool(refused) == bool(removed), sorted(set(refused))
