"""The real API server gives its recorded answers; a new version of Kubernetes may differ."""

from __future__ import annotations

import pytest

from testbed.real.plane import Plane
from tests.conformance.plane.real import of_hub
from tests.conformance.plane.record import must_be_the_same, recorded
from tests.conformance.plane.registry import Check, all_checks, converse


@pytest.mark.parametrize("check", all_checks(), ids=lambda check: check.name)
async def test_real_plane_answers_as_recorded(plane: Plane, check: Check) -> None:
    """Each check holds on a real plane, and its transcript is the recorded one."""
    actual, error = await converse(check, of_hub(plane.hub, plane.members["member1"]))

    must_be_the_same(recorded(check.name), actual, error)
