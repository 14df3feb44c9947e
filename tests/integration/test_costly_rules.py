"""The CronFederatedHPAs that cost the most hold no event loop, in admission and in the controller."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from zoneinfo import available_timezones

import pytest

from tests.support.controller import world
from tests.support.costs import least_cpu_seconds, least_hold_by_thread, least_longest_hold
from tests.support.fakeapi import eventually
from tests.support.rules import CRONS, DEPLOYMENT, put_rules, rules_running, status
from webhook.handlers import judge

MOST_SECONDS = 0.05
ZONES = sorted(zone for zone in available_timezones() if "/" in zone)
RANGES = [
    f"{1990 + month // 12}-{month % 12 + 1:02d}-01/{1990 + month // 12}-{month % 12 + 1:02d}-28"
    for month in range(366)
]
EVERY_ITEM = " ".join(
    ",".join(map(str, range(first, last, step)))
    for first, last, step in ((0, 60, 2), (0, 24, 1), (1, 32, 1), (1, 13, 1), (0, 7, 1))
)
# As many rules of each kind as the API server stores: 1,000, or 1.5 MB.
SHAPES: dict[str, tuple[int, Callable[[int], dict[str, Any]]]] = {
    "all zones": (1000, lambda n: {"schedule": f"{n % 60} 2 * * *"}),
    "every minute": (1000, lambda _: {"schedule": "* * * * *"}),
    "windows without end": (1000, lambda _: {"schedule": EVERY_ITEM, "duration": "8784h"}),
    "short delays": (1000, lambda _: {"schedule": "*/7 * * * *", "maxDelaySeconds": 60}),
    "leap days": (1000, lambda _: {"schedule": "0 8 29 2 *", "duration": "1m"}),
    "ranges": (150, lambda _: {"schedule": "* * * * *", "excludeDates": RANGES, "duration": "1m"}),
}


def rules_of(shape: str) -> list[dict[str, Any]]:
    count, rule = SHAPES[shape]
    return [
        {"name": f"r{n}", "targetReplicas": n % 5 + 1, "timeZone": ZONES[n % len(ZONES)], **rule(n)}
        for n in range(count)
    ]


@pytest.mark.parametrize("shape", SHAPES)
async def test_an_admission_of_costly_rules_holds_no_loop(shape: str) -> None:
    """It takes at most 0.2 s of CPU, in a thread that lets the loop run."""
    found = {
        "apiVersion": CRONS[0],
        "kind": "CronFederatedHPA",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"scaleTargetRef": DEPLOYMENT, "rules": rules_of(shape)},
    }
    request = {"uid": "7", "operation": "CREATE", "object": found}
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    body = json.dumps(review, separators=(",", ":")).encode()

    def work() -> int:
        return judge("/validate-cronfederatedhpa", body, "application/json").verdict.code

    assert least_cpu_seconds(work, 0.2) < 0.2
    code, longest = await least_hold_by_thread(work, MOST_SECONDS)
    assert code == 200
    assert longest < MOST_SECONDS


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_pass_over_costly_rules_holds_no_loop(shape: str) -> None:
    """Rules are planned in a thread, which virtual time would pass over. Other tasks run meanwhile."""

    async def work() -> None:
        async with world(m1=1) as w:
            w.scale()
            put_rules(w, *rules_of(shape), target=DEPLOYMENT)
            async with rules_running(w):
                await eventually(lambda: len(status(w).get("executionHistories", ())) == SHAPES[shape][0])

    assert await least_longest_hold(work, MOST_SECONDS) < MOST_SECONDS
