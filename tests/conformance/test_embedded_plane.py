"""The embedded API server says what a real one said, in every conversation of tests/conformance/plane."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from tests.conformance.plane.embedded import embedded_plane
from tests.conformance.plane.record import all_recorded, minor_of, recorded, recorded_minor
from tests.conformance.plane.registry import Check, all_checks, converse
from tests.conformance.plane.under_test import find_kubectl, kubectl_version
from tests.conformance.plane.verdict import must_be_the_same
from tests.support.patient_plane import have_patience

CHECKS = all_checks()


@functools.cache
def kubectl() -> Path | None:
    return find_kubectl()


@functools.cache
def kubectl_is_the_recorded_one() -> bool:
    found = kubectl()
    return found is not None and minor_of(kubectl_version(found)) == recorded_minor()


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    have_patience(monkeypatch)


@pytest.mark.parametrize("one", CHECKS, ids=lambda one: one.name)
async def test_embedded_plane_answers_as_recorded(one: Check, tmp_path: Path) -> None:
    """Each check's facts hold on an embedded plane, and its transcript is that of the real one."""
    async with embedded_plane(tmp_path, kubectl(), member="member_kubeconfig" in one.needs) as plane:
        missing = one.missing(plane)
        if missing is not None:
            pytest.skip(f"no {missing}")
        said, error = await converse(one, plane)

    # Another kubectl has other words; what it must do is asserted in the check.
    comparable = "kubectl" not in one.needs or kubectl_is_the_recorded_one()
    must_be_the_same(recorded(one.name) if comparable else said, said, error)


def test_every_check_is_recorded() -> None:
    """The tables have every check, and no check that is no longer there."""
    assert {one.name for one in CHECKS} == all_recorded()
