"""The real API server says what it said when it was recorded: a new version of Kubernetes shows here."""

from __future__ import annotations

import pytest

from testbed.real.plane import Plane
from tests.conformance.plane.real import of_hub
from tests.conformance.plane.record import recorded
from tests.conformance.plane.registry import Check, all_checks, converse
from tests.conformance.plane.verdict import must_be_the_same


@pytest.mark.parametrize("one", all_checks(), ids=lambda one: one.name)
async def test_real_plane_answers_as_recorded(plane: Plane, one: Check) -> None:
    """Each check's facts hold on a real plane, and its transcript is the recorded one."""
    said, error = await converse(one, of_hub(plane.hub, plane.members["member1"]))

    must_be_the_same(recorded(one.name), said, error)
