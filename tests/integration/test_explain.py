"""`fedhpa explain` shows the recorded decision and says how old it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedhpa.api.errors import ConfigError
from fedhpa.api.times import parse_time
from fedhpa.cli.explain import Explanation, age, explanation_of, render
from fedhpa.kube import ApiClient, Clock
from tests.support.controller import HPAS, NAMESPACE, ControllerWorld, world
from tests.support.fakeapi import eventually

pytestmark = pytest.mark.looptime(noop_cycles=0)


async def explained(w: ControllerWorld, clock: Clock | None = None) -> Explanation:
    """Explains shop/web."""
    raw = w.hub.find(HPAS, "web", NAMESPACE)
    assert raw is not None
    async with ApiClient(w.hub.config()) as hub:
        return await explanation_of(hub, raw, clock or w.clock)


async def test_the_age_of_the_decision_is_told() -> None:
    """The text has the age. A status that is older than a running controller leaves it is warned of."""
    async with world(m1=2, m2=2) as w:
        w.load(400)
        w.scale(dryRun=True)
        async with w.controller():
            await eventually(lambda: w.status().get("desiredReplicas") == 8)
        found = await explained(w)
        made = w.record()["time"]
        seen = parse_time(w.status()["lastSeen"]) or 0.0
        late = await explained(w, replace(w.clock, wall=lambda: seen + 1_200.0))

    assert found.note == ""
    text = render(found, made + 12.5)
    assert "would scale 4 -> 8 replicas" in text
    assert "\nrecorded 12 s ago\nconditions:\n" in text
    assert late.note == (
        "warning: the status is 20 min old, and a running controller renews it within 11 min: "
        "check that a controller runs and leads: kubectl get leases -A"
    )


async def test_without_a_decision_the_controller_is_looked_for() -> None:
    """An object without a record has no controller that leads."""
    async with world(m1=2) as w:
        w.scale()
        found = await explained(w)

    assert (found.record, found.note) == (
        None,
        f"{NAMESPACE}/web has no decision yet: check that a controller runs and leads: kubectl get leases -A",
    )


async def test_a_record_that_may_not_be_read_is_named() -> None:
    """The right to get ScalingRecords is missing."""
    async with world(m1=2) as w:
        w.scale()
        w.hub.refused["GET", "/scalingrecords/federatedhpa.web"] = 403
        with pytest.raises(ConfigError, match=r"ScalingRecord shop/federatedhpa\.web cannot be read"):
            await explained(w)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7_200, "2 h"), (172_800, "2 d")],
)
def test_ages_are_short(seconds: float, text: str) -> None:
    """As kubectl's ages, with the largest unit of which there are at least two."""
    assert age(seconds) == text
