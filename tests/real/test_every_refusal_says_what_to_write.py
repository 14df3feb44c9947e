"""Each wrong object, applied with kubectl to a real API server with the CRDs and the webhook.

The CRD's bounds speak before the validating webhook. So each mistake either passes them, or they name it.
"""

from __future__ import annotations

import json

import pytest

from testbed.real.plane import Plane
from testbed.stage.processes import Processes
from tests.real.settling import settled
from tests.support.refusals import REFUSALS, Refusal


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
async def test_kubectl_shows_the_field_and_what_to_write(
    plane: Plane, processes: Processes, refusal: Refusal
) -> None:
    """A person learns it from the refusal or from the warning above it."""
    answer = await settled(
        lambda: plane.hub.kubectl("apply", "-f", "-", stdin=json.dumps(refusal.manifest)),
        lambda answer: answer.code != 0 and not refusal.unread(answer.err),
        seconds=20,
    )

    assert answer.code == 1
    assert refusal.unread(answer.err) == [], answer.err
    assert "in body should match" not in answer.err
    assert "Value error" not in answer.err


async def test_the_zone_local_is_admitted_with_a_warning(plane: Plane, processes: Processes) -> None:
    """Karmada reads Local as the zone of its process. Here it means UTC, as if the zone were absent."""
    manifest = next(refusal.manifest for refusal in REFUSALS if "UTC+8" in refusal.name)
    rules = manifest["spec"]["rules"]
    local = {**manifest, "spec": {**manifest["spec"], "rules": [{**rules[1], "timeZone": "Local"}]}}

    answer = await settled(
        lambda: plane.hub.kubectl("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(local)),
        lambda answer: answer.code == 0,
        seconds=20,
    )

    assert answer.err.endswith(
        "Warning: spec.rules[0].timeZone: Local is no IANA name, so the schedule runs in UTC; "
        "write a name such as Europe/Berlin, or UTC\n"
    )
