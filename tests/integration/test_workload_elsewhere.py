"""A workload that is not where the controller looks: the object says where it is."""

from __future__ import annotations

from typing import Any

import pytest

from controller.federatedhpa.workload_search import KEPT_SECONDS, MAX_ASKED
from controller.flags import DIRECT, KARMADA
from tests.support.controller import (
    BINDINGS,
    DEPLOYMENTS,
    NAMESPACE,
    ControllerWorld,
    eventually_more,
    reconciliations,
    world,
)
from tests.support.fakeapi import CLUSTERS, eventually

SCALE = "/deployments/web/scale"
RIGHT = "get deployments/scale of API group apps in namespace shop"


def remove_from_members(w: ControllerWorld) -> None:
    """Delete the Deployment in all members."""
    for member in w.members.values():
        member.resized = lambda: None
        member.remove(DEPLOYMENTS, "web", NAMESPACE)


async def told(w: ControllerWorld, **settings: Any) -> tuple[str, str]:
    """Reason and message of AbleToScale once a controller reconciled the object."""
    async with w.controller(**settings) as controller:
        await eventually(lambda: w.condition("AbleToScale")[0] == "False")
        await w.reconciles(controller)
    return w.condition("AbleToScale")[1:]


async def test_a_workload_on_the_hub_alone_with_propagation_direct() -> None:
    """The message asks for --propagation=karmada, and no condition claims that all is well."""
    async with world(member1=1, member2=1, member3=1) as w:
        remove_from_members(w)
        w.hub.deploy(3)
        w.scale()

        reason, message = await told(w, propagation=DIRECT)

        assert reason == "FailedGetScale"
        assert message == (
            "Deployment shop/web: 404 in member1, member2, member3; it exists on the hub: "
            "is --propagation=karmada meant?"
        )
        assert w.condition("MetricsComplete")[:2] == ("False", "NoClusters")
        assert w.condition("Ready") == ("False", reason, message)
        assert w.status()["summary"]["reason"] == message
        assert w.status()["summary"]["propagation"] == "direct"
        assert w.events("FailedGetScale") == [message]


async def test_a_workload_that_exists_nowhere_with_propagation_direct() -> None:
    """The message says so, also if the object names its clusters."""
    async with world(m1=1, m2=1) as w:
        remove_from_members(w)
        w.scale(clusterAffinity={"clusterNames": ["m1", "m2"]})

        _, message = await told(w, propagation=DIRECT)

        assert message == "Deployment shop/web: 404 in m1, m2, and on the hub: create it in the clusters"


async def test_a_hub_that_must_not_be_asked() -> None:
    """The right to read the hub's workloads is withheld on purpose, so the message says nothing of it."""
    async with world(m1=1) as w:
        remove_from_members(w)
        w.hub.refused["GET", SCALE] = 403
        w.scale()

        _, message = await told(w, propagation=DIRECT)

        assert message == "Deployment shop/web: 404 in m1: create it in the clusters"


@pytest.mark.parametrize("bindings", [False, True], ids=["plain hub", "Karmada's hub"])
async def test_a_workload_in_members_alone_with_propagation_karmada(bindings: bool) -> None:
    """The message asks for --propagation=direct; the reason stays Karmada's."""
    async with world(m1=1, m2=1) as w:
        if bindings:
            w.hub.served.add(BINDINGS[0])
        w.scale()

        reason, message = await told(w, propagation=KARMADA)

        assert reason == ("FailedGetScaleTargetRef" if bindings else "FailedGetScale")
        assert (
            "Deployment shop/web: 404 on the hub; it exists in m1, m2: is --propagation=direct meant?"
        ) in message
        assert w.condition("Ready")[:2] == ("False", reason)
        assert w.status()["summary"]["propagation"] == "karmada"


async def test_a_hub_that_forbids_to_read_the_workload() -> None:
    """The message names the missing right and the hub, and that a member has the workload."""
    async with world(m1=1) as w:
        w.hub.refused["GET", SCALE] = 403
        w.scale()

        _, message = await told(w, propagation=KARMADA)

        assert message.endswith(
            f"Deployment shop/web: the controller may not {RIGHT} on the hub; it exists in m1: "
            "is --propagation=direct meant? (HTTP 403: not for you)"
        )


async def test_a_member_that_forbids_to_read_the_workload() -> None:
    """The missing right is named beside the cluster, in MetricsComplete and where no cluster answers."""
    async with world(m1=1) as w:
        w.members["m1"].refused["GET", "/deployments"] = 403
        w.members["m1"].refused["GET", SCALE] = 403
        w.scale()

        _, message = await told(w, propagation=DIRECT)

        reason = f"m1: the controller may not {RIGHT} in this cluster (HTTP 403: not for you)"
        assert reason in message
        assert w.condition("MetricsComplete")[2].startswith(reason)


@pytest.mark.parametrize(
    ("spec", "registered", "expected"),
    [
        ({}, False, "no Cluster is registered on the hub: register the member clusters"),
        (
            {"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "gold"}}}},
            True,
            "spec.clusterAffinity selects none of the 1 registered clusters",
        ),
    ],
    ids=["none registered", "none selected"],
)
async def test_an_object_without_any_cluster(spec: Any, registered: bool, expected: str) -> None:
    """An object for which there is no cluster says why there is none."""
    async with world(m1=1) as w:
        if not registered:
            w.hub.remove(CLUSTERS, "m1")
        w.scale(**spec)

        assert (await told(w, propagation=DIRECT))[1] == expected


async def test_the_hub_is_asked_once_a_minute_and_only_for_a_missing_workload() -> None:
    """Many reconciles of a missing workload ask the hub once; a workload that exists asks it never."""
    async with world(m1=1) as w:
        w.scale()
        async with w.controller() as controller:
            await w.reconciles(controller, 5)
            asked_before = w.hub.request_count("GET", SCALE)
            remove_from_members(w)
            await eventually(lambda: w.condition("AbleToScale")[0] == "False")
            rounds = reconciliations(controller)
            await eventually_more(lambda: reconciliations(controller), 20)
            seconds = (reconciliations(controller) - rounds) * 0.15
            asked = w.hub.request_count("GET", SCALE)

        assert asked_before == 0
        assert 1 <= asked <= 1 + seconds / KEPT_SECONDS + 1


async def test_a_workload_that_appears_is_scaled_at_once() -> None:
    """The kept answer of the hub delays nothing."""
    async with world(m1=1, m2=1) as w:
        remove_from_members(w)
        w.scale(minReplicas=4)
        async with w.controller():
            await eventually(lambda: w.condition("Ready")[0] == "False")
            for member in w.members.values():
                member.deploy(1)
            await eventually(lambda: w.replicas == {"m1": 2, "m2": 2})
            await eventually(lambda: w.condition("Ready")[0] == "True")


async def test_only_some_of_many_members_are_asked() -> None:
    """With a missing template at most 16 members are asked, once."""
    async with world(**{f"m{number:02}": 1 for number in range(20)}) as w:
        remove_from_members(w)
        w.scale()

        _, message = await told(w, propagation=KARMADA)

        asked = [member.request_count("GET", SCALE) for member in w.members.values()]
        assert sum(asked) == MAX_ASKED
        assert max(asked) == 1
        assert "m07 and 8 more clusters: create it on the hub" in message
