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
from tests.support.nightly import only_at_night

CHECKS = all_checks()
# Each start of kubectl takes a tenth of a second of CPU.
KUBECTL_BY_DAY = ("kubectl/apply", "kubectl/get", "kubectl/watch")


def by_day(check: Check) -> bool:
    """True if the suite has the check, and not only the nightly run."""
    return not check.name.startswith("kubectl/") or check.name in KUBECTL_BY_DAY


@functools.cache
def kubectl() -> Path | None:
    return find_kubectl()


@functools.cache
def kubectl_is_the_recorded_one() -> bool:
    found = kubectl()
    return found is not None and minor_of(kubectl_version(found)) == recorded_minor()


@pytest.mark.parametrize("check", [check for check in CHECKS if by_day(check)], ids=lambda check: check.name)
async def test_embedded_plane_answers_as_recorded(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each check holds on an embedded plane, and its transcript is the recorded one."""
    await is_answered_as_recorded(check, tmp_path, monkeypatch)


@only_at_night
@pytest.mark.parametrize(
    "check", [check for check in CHECKS if not by_day(check)], ids=lambda check: check.name
)
async def test_embedded_plane_answers_all_of_kubectl_as_recorded(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for the other commands of kubectl."""
    await is_answered_as_recorded(check, tmp_path, monkeypatch)


async def is_answered_as_recorded(check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
