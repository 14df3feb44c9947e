"""The webhook's memory does not grow with the number of different objects."""

from __future__ import annotations

import gc
import json
import logging
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from fedhpa.kube import SYSTEM
from tests.support.nightly import NIGHT, examples
from webhook.application import Admission
from webhook.handlers import judge
from webhook.review_series import Telemetry
from webhook.warnings import AdmissionWarnings

REQUESTS = examples(2_000, 100_000)
# The bounded caches fill during these requests.
WARM_UP = examples(500, 10_000)
# Bytes: half of the smallest plausible leak, 100 bytes a request.
MOST_GROWTH = REQUESTS * 50

pytestmark = NIGHT


@pytest.fixture
def tracing() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def request_of(number: int) -> tuple[str, bytes]:
    """Returns the path and body of a unique request: admitted, denied, malformed, or with a forecast."""
    target = {"apiVersion": "apps/v1", "kind": f"Kind{number}", "name": f"web-{number}"}
    metadata = {"name": f"web-{number}", "namespace": f"shop-{number % 97}", "labels": {f"l{number}": "x"}}
    spec: dict[str, Any] = {"scaleTargetRef": target, "maxReplicas": number}
    path = "/validate-federatedhpa"
    match number % 5:
        case 0:
            spec["maxReplicas"] = -number
        case 1:
            spec["maxReplicas"] = f"{number}"
        case 2:
            path = "/mutate-federatedhpa"
        case 3:
            path = "/validate-cronfederatedhpa"
            # The cache keeps 4,096 schedules. A few different ones fill their part during the warm-up.
            rule = {
                "name": f"r-{number}",
                "schedule": f"{number % 100 % 60} 8 * * *",
                "targetReplicas": number,
            }
            spec["rules"] = [rule]
    obj = {"metadata": metadata, "spec": spec}
    return path, json.dumps({"request": {"uid": f"{number}", "object": obj}}).encode()


async def send(admission: Admission, warnings: AdmissionWarnings, numbers: range) -> set[int]:
    """Handles requests as the process does, without the network. Returns the codes of the answers."""
    codes = set()
    for number in numbers:
        path, body = request_of(number)
        review = await warnings.added_to(judge(path, body, "application/json"))
        codes.add(json.loads(admission.answer(path, review))["response"]["status"]["code"])
    return codes


async def test_memory_does_not_grow(tracing: None, caplog: pytest.LogCaptureFixture) -> None:
    """Every request has new names, and uses the metrics, the forecast and the refusal log."""
    # pytest would keep every logged line.
    caplog.set_level(logging.CRITICAL)
    warnings = AdmissionWarnings(SYSTEM.date)
    admission = Admission(Telemetry(), warnings, SYSTEM)
    await send(admission, warnings, range(WARM_UP))
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    codes = await send(admission, warnings, range(WARM_UP, WARM_UP + REQUESTS))
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()

    assert codes == {200, 400, 403}
    assert after - before < MOST_GROWTH
