"""`fedhpa doctor` on real planes: a test breaks one thing, and exactly that finding is added.

Other tests share the plane, so findings about their objects may exist before. Three breaks run in the suite,
all of them at night.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from fedhpa.doctor import WHY
from testbed.real.plane import Plane
from testbed.stage.processes import Processes
from tests.real.breaks import BREAKS
from tests.real.breaks.patient import Patient
from tests.real.settling import settled
from tests.support.commands import fedhpa_process
from tests.support.nightly import only_at_night

SMOKE = ("webhook-certificate-untrusted", "member-token-refused", "webhook-not-registered")
KUBECONFIG = "kubeconfig-unusable"
# The deadline of one look, which is repeated until the hub has noticed.
SECONDS = 180.0


@pytest.fixture
async def patient(plane: Plane, processes: Processes) -> AsyncIterator[Patient]:
    async with plane.hub.api() as hub:
        yield Patient(plane, processes, hub)


async def breaks_into(patient: Patient, kind: str) -> tuple[list[str], list[str]]:
    """Returns the ids that are added while a check fails, and those that are left after it passes again."""
    before = await patient.findings()
    async with BREAKS[kind](patient):
        # The hub learns of registrations and roles by watches, so the first look may be too early.
        broken = await settled(
            patient.findings, lambda found: kind in {id_ for id_, _ in found - before}, seconds=SECONDS
        )
    after = await settled(patient.findings, lambda found: not found - before, seconds=SECONDS)
    return [id_ for id_, _ in (broken - before).elements()], [id_ for id_, _ in (after - before).elements()]


async def test_a_sound_installation_is_silent(patient: Patient) -> None:
    """Nothing is broken on a plane with all processes, except objects that other tests left behind."""
    report = await patient.report()

    assert [each for each in report.findings if each.id not in ("target-missing", "second-owner")] == []
    checks = [each.check for each in report.not_checked]
    assert checks == [check for check in checks if check == "the rights of fedhpa-webhook"]


@pytest.mark.parametrize("kind", SMOKE)
async def test_a_broken_hop_is_found(patient: Patient, kind: str) -> None:
    """Exactly its finding is added, and goes when the check passes again."""
    assert await breaks_into(patient, kind) == ([kind], [])


@only_at_night
@pytest.mark.parametrize("kind", [kind for kind in BREAKS if kind not in SMOKE])
async def test_each_broken_hop_is_found(patient: Patient, kind: str) -> None:
    """Exactly its finding is added, and goes when the check passes again."""
    assert await breaks_into(patient, kind) == ([kind], [])


@only_at_night
@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("current-context", "absent"),
        ("contexts", []),
        ("clusters", [{"name": "hub", "cluster": {"server": "no url"}}]),
    ],
)
async def test_a_kubeconfig_that_cannot_be_used_is_found(
    plane: Plane, tmp_path: Path, part: str, change: object
) -> None:
    """The command of a person, with the kubeconfig of the hub's administrator but for one part."""
    found = yaml.safe_load(plane.hub.kubeconfig.read_text(encoding="utf-8"))
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump({**found, part: change}), encoding="utf-8")
    ran = await fedhpa_process("doctor", "--kubeconfig", str(path), "-o", "json")

    assert ran.code == 1
    assert [each["id"] for each in json.loads(ran.out)["findings"]] == [KUBECONFIG]


def test_each_finding_is_broken_here() -> None:
    assert {*BREAKS, KUBECONFIG} == set(WHY)
