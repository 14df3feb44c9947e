"""The embedded API server gives the recorded answers of a real one (docs/contributing/conformance.md)."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from tests.conformance.plane.embedded import embedded_plane
from tests.conformance.plane.record import (
    all_recorded,
    minor_of,
    must_be_the_same,
    recorded,
    recorded_minor,
)
from tests.conformance.plane.registry import Check, all_checks, converse
from tests.conformance.plane.under_test import find_kubectl, kubectl_version
from tests.support.embedded_plane import have_patience

CHECKS = all_checks()


@functools.cache
def kubectl() -> Path | None:
    return find_kubectl()


@functools.cache
def kubectl_is_the_recorded_one() -> bool:
    found = kubectl()
    return found is not None and minor_of(kubectl_version(found)) == recorded_minor()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
async def test_embedded_plane_answers_as_recorded(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each check holds on an embedded plane, and its transcript is the recorded one."""
    have_patience(monkeypatch)
    async with embedded_plane(tmp_path, kubectl(), member="member_kubeconfig" in check.needs) as plane:
        missing = check.missing(plane)
        if missing is not None:
            pytest.skip(f"no {missing}")
        actual, error = await converse(check, plane)

    # Another version of kubectl prints other texts, so only the check's assertions count.
    comparable = "kubectl" not in check.needs or kubectl_is_the_recorded_one()
    must_be_the_same(recorded(check.name) if comparable else actual, actual, error)


def test_every_check_is_recorded() -> None:
    """The record has every check, and no check that was removed."""
    assert {check.name for check in CHECKS} == all_recorded()
