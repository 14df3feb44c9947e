"""`fedhpa explain` says how old its decision is, and decides anew where the hub drops decisions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedhpa.api.times import parse_time
from fedhpa.cli.explain import ExplainFormat, Explanation, age, explanation_of, render
from fedhpa.kube import ApiClient, Clock
from tests.integration.test_hub_checks import karmadas_crd
from tests.support.controller import HPAS, NAMESPACE, ControllerWorld, world
from tests.support.fakeapi import Object, eventually

CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/federatedhpas.autoscaling.karmada.io"
pytestmark = pytest.mark.looptime(noop_cycles=0)


async def explained(w: ControllerWorld, *, clock: Clock | None = None, **changes: object) -> Explanation:
    """Explains shop/web; `changes` replace parts of its status, and None removes a part."""
    raw = w.hub.find(HPAS, "web", NAMESPACE)
    assert raw is not None
    status: Object = {**raw["status"], **changes}
    raw = {**raw, "status": {key: value for key, value in status.items() if value is not None}}
    async with ApiClient(w.hub.config()) as hub:
        return await explanation_of(hub, raw, ("direct", ""), clock or w.clock)


async def decided(w: ControllerWorld, *, prunes: bool = False) -> None:
    """Runs a controller until it has decided on shop/web, and has found out whether the hub prunes fields."""
    w.load(400)
    w.scale(dryRun=True)
    async with w.controller():
        await eventually(lambda: w.status().get("desiredReplicas") == 8)
        await eventually(lambda: prunes is (w.condition("HubCompatible")[:2] == ("False", "FieldsPruned")))


async def test_the_age_of_the_decision_is_told() -> None:
    """The text has the age. A decision that is older than a running controller leaves it is warned of."""
    async with world(m1=2, m2=2) as w:
        await decided(w)
        found = await explained(w)
        made = parse_time(found.status["decision"]["time"])
        assert made is not None
        late = await explained(w, clock=replace(w.clock, wall=lambda: made + 1_200.0))

    assert found.note == ""
    text = render(found.status, found.where, ExplainFormat.TEXT, made + 12.5)
    assert "\ndecided 12 s ago\nconditions:\n" in text
    assert late.note == (
        "warning: this decision is 20 min old, and a running controller renews it within 11 min: "
        "check that one runs and leads: kubectl get leases -A"
    )


async def test_a_hub_that_drops_decisions_is_decided_on_anew() -> None:
    """The decision is that of the controller. The note says who made it, and nothing is written."""
    async with world(m1=2, m2=2) as w:
        w.hub.answers[CRD_PATH] = karmadas_crd
        await decided(w, prunes=True)
        before = list(w.hub.writes)
        found = await explained(w, decision=None)

        assert (list(w.hub.writes), w.members["m1"].writes) == (before, [])
    text = render(found.status, found.where, ExplainFormat.TEXT)
    assert found.note.startswith(f"the hub's CRD drops status.decision of {NAMESPACE}/web, so this decision")
    assert "would scale 4 -> 8 replicas" in text
    assert "decided 0 s ago" in text


async def test_without_a_decision_the_controller_is_looked_for() -> None:
    """A hub that keeps all fields, and has no decision, has no controller that leads."""
    async with world(m1=2) as w:
        w.scale()
        raw = w.hub.find(HPAS, "web", NAMESPACE)
        assert raw is not None
        async with ApiClient(w.hub.config()) as hub:
            found = await explanation_of(hub, raw)

    assert (found.status, found.note) == (
        {},
        f"{NAMESPACE}/web has no decision yet: check that a controller runs and leads: kubectl get leases -A",
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7_200, "2 h"), (172_800, "2 d")],
)
def test_ages_are_short(seconds: float, text: str) -> None:
    """As kubectl's ages, with the largest unit of which there are at least two."""
    assert age(seconds) == text
