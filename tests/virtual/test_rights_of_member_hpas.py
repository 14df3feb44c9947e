"""Mode Distributed needs each of its rights in the members: without one, a message names it."""

from __future__ import annotations

from asyncio import sleep
from pathlib import Path
from typing import Any

import pytest

from controller.flags import MEMBERS
from fedhpa.api.member_hpas import PLURAL
from fedhpa.kube import StaticCredentials
from testbed.embedded.api.types import Attributes
from tests.support.federation import Federation, federation
from tests.support.federation.planes import EVENTS, HPAS, NAME, NAMESPACE
from tests.support.fewer_rights import LEAST
from tests.support.nightly import only_at_night
from tests.virtual.test_no_right_is_idle import grant_all

EQUAL = {"federatedHPAAssignmentType": "StaticWeighted"}
pytestmark = pytest.mark.looptime(noop_cycles=0)

# The finalizer waits for a member for the lost time-out of 300 s.
DELETED_SECONDS = 400
SOON = 45


def refuse(f: Federation, verb: str, refused: list[str]) -> None:
    """Lets the members refuse a verb for HPAs."""
    for plane in f.members.values():
        allowed = plane.server.allowed

        def checked(attributes: Attributes, allowed: Any = allowed) -> bool:
            if (attributes.resource, attributes.verb) == (PLURAL, verb):
                refused.append(verb)
                return False
            return bool(allowed(attributes))

        plane.server.allowed = checked


async def assigned(tmp_path: Path, logs: list[Any], verb: str) -> tuple[list[str], str]:
    """Runs mode Distributed without a verb: assigned, changed, deleted. Returns refusals and complaints."""
    refused: list[str] = []
    async with federation(tmp_path, m1=2, m2=2) as f:
        grant_all(f, "", "direct", MEMBERS, refused, distributed=True)
        if verb:
            refuse(f, verb, refused)
        f.demand(200)
        f.scale(mode="Distributed", minReplicas=2, maxReplicas=10, federatedHPAAssignment=EQUAL)
        async with f.controller(calm=True, credentials=StaticCredentials(f"Bearer {LEAST}")):
            await sleep(SOON)
            store = f.hub.server.store
            changed = store.get(HPAS, NAMESPACE, NAME)
            changed["spec"]["maxReplicas"] = 12
            store.update(HPAS, changed)
            await sleep(SOON)
            texts = [str(f.status().get("conditions"))]
            store.delete(HPAS, NAMESPACE, NAME)
            await sleep(DELETED_SECONDS)
            texts += [str(entry) for entry in logs]
            texts += [str(event["message"]) for event in f.hub.all(EVENTS)]
            assert store.find(HPAS, NAMESPACE, NAME) is None
    return refused, "\n".join(texts)


@pytest.mark.parametrize("verb", ["", "create", "watch"])
async def test_some_rights_to_member_hpas_are_missed(tmp_path: Path, logs: list[Any], verb: str) -> None:
    """With all rights nothing is refused. Without one the object is deleted all the same, in time."""
    await is_missed(tmp_path, logs, verb)


@only_at_night
@pytest.mark.parametrize("verb", ["delete", "get", "list", "update"])
async def test_each_right_to_member_hpas_is_missed(tmp_path: Path, logs: list[Any], verb: str) -> None:
    """The same for the other verbs."""
    await is_missed(tmp_path, logs, verb)


async def is_missed(tmp_path: Path, logs: list[Any], verb: str) -> None:
    """Asserts that a message names the resource if the verb is refused, and that nothing else is refused."""
    refused, text = await assigned(tmp_path, logs, verb)
    complaints = [line for line in text.splitlines() if "forbidden" in line or "HTTP 403" in line]

    assert set(refused) == ({verb} if verb else set())
    assert bool(complaints) == bool(verb)
    assert [line for line in complaints if PLURAL not in line] == []
