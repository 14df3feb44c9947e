"""`fedhpa doctor` on real planes: a test breaks one thing, and exactly that finding is added.

Other tests share the plane, so findings about their objects may exist before. Three breaks run in the suite,
all of them at night.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedhpa.doctor import TABLE
from testbed.real.plane import Plane
from testbed.stage.processes import Processes
from testbed.stage.registrations import CLUSTER_NAMESPACE, NAMESPACE
from tests.real.breaks import BREAKS
from tests.real.breaks.admission import OUR_WEBHOOKS
from tests.real.breaks.hub import CRD, ROLES
from tests.real.breaks.members import CLUSTER
from tests.real.breaks.patient import Patient
from tests.real.settling import settled
from tests.support.commands import fedhpa_process, pasted
from tests.support.nightly import only_at_night

# Findings of objects that other tests left behind on the shared plane.
LEFT_BEHIND = ("target-missing", "second-owner")
SMOKE = ("webhook-certificate", "member-token-refused", "webhook-not-registered")
KUBECONFIG = "kubeconfig-unusable"
# Found in the spec and the status of objects, also of other fleets, which the embedded plane has as well.
OF_OBJECTS = {
    "not-installed",
    "target-kind-unknown",
    "target-kind-unscalable",
    "requests-missing",
    "metric-unknown",
    "external-counted-often",
    "object-not-ready",
    "placement-not-followed",
    "placement-not-published",
    "member-control-plane-unhealthy",
    "member-source-unusable",
    "provider-any-server",
}
# The deadline of one look, which is repeated until the hub has noticed.
SECONDS = 180.0


@pytest.fixture
async def patient(plane: Plane, processes: Processes) -> AsyncIterator[Patient]:
    async with plane.hub.api() as hub, AsyncExitStack() as stack:
        patient = Patient(plane, processes, hub)
        for name in plane.members:
            found = await hub.get(f"/api/v1/namespaces/{CLUSTER_NAMESPACE}/secrets/{name}")
            metadata = {"name": f"{name}-metrics", "namespace": CLUSTER_NAMESPACE}
            await stack.enter_async_context(patient.created({**found, "metadata": metadata}))
        yield patient


async def breaks_into(patient: Patient, kind: str) -> tuple[list[str], list[str]]:
    """Returns the ids that are added while a check fails, and those that are left after it passes again."""
    before = await patient.findings()
    id_ = id_of(kind)
    async with BREAKS[kind](patient):
        # The hub learns of registrations and roles by watches, so the first look may be too early.
        broken = await settled(
            patient.findings, lambda found: id_ in {each for each, _ in found - before}, seconds=SECONDS
        )
    after = await settled(patient.findings, lambda found: not found - before, seconds=SECONDS)
    # While a member refuses its token, it is unknown whether the target of such an object is missing.
    left_behind = {subject for each, subject in before if each in LEFT_BEHIND}
    added = [each for each, subject in (broken - before).elements() if subject not in left_behind]
    return added, [each for each, _ in (after - before).elements()]


def id_of(kind: str) -> str:
    return kind.partition("/")[0]


async def test_a_sound_installation_is_silent(patient: Patient) -> None:
    """Nothing is broken on a plane with all processes, except objects that other tests left behind."""
    report = await patient.report()

    assert [each for each in report.findings if each.id not in LEFT_BEHIND] == []
    assert report.not_checked == ()


@pytest.mark.parametrize("kind", SMOKE)
async def test_a_broken_hop_is_found(patient: Patient, kind: str) -> None:
    """Exactly its finding is added, and goes when the check passes again."""
    assert await breaks_into(patient, kind) == ([id_of(kind)], [])


@only_at_night
@pytest.mark.parametrize("kind", [kind for kind in BREAKS if kind not in SMOKE])
async def test_each_broken_hop_is_found(patient: Patient, kind: str) -> None:
    """Exactly its finding is added, and goes when the check passes again."""
    assert await breaks_into(patient, kind) == ([id_of(kind)], [])


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


# Breaks whose commands are run on the real plane, with the path of the object that each changes.
MENDED = {
    "component-rights-missing": f"{ROLES}/fedhpa:metrics-adapter",
    "crd-outdated": CRD,
    "crd-fields-pruned": CRD,
    "webhook-certificate": OUR_WEBHOOKS,
    "webhook-not-asked": OUR_WEBHOOKS,
    "webhook-not-registered": OUR_WEBHOOKS,
    "member-tainted": CLUSTER,
    "karmada-webhook-registered": OUR_WEBHOOKS,
}
BOOKKEEPING = ("resourceVersion", "generation", "managedFields", "annotations", "uid", "creationTimestamp")


def written(found: dict[str, Any]) -> dict[str, Any]:
    """Returns an object without what the API server and kubectl note down."""
    metadata = {key: value for key, value in found["metadata"].items() if key not in BOOKKEEPING}
    body = {key: value for key, value in found.items() if key not in ("metadata", "status")}
    if body.get("spec", {}).get("taints") == []:
        body["spec"] = {key: value for key, value in body["spec"].items() if key != "taints"}
    return {**body, "metadata": metadata}


@pytest.mark.parametrize("kind", MENDED)
async def test_a_command_mends_a_broken_hub(patient: Patient, tmp_path: Path, kind: str) -> None:
    """The printed command is run as it is. Then the finding is gone, and the object is as before."""
    bundle = base64.b64encode(patient.processes.ca.bundle_pem).decode()
    metadata = {"name": "fedhpa-webhook-tls", "namespace": NAMESPACE}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"ca.crt": bundle}}
    async with patient.created(secret):
        before, whole = await patient.findings(), written(await patient.hub.get(MENDED[kind]))
        async with BREAKS[kind](patient):
            report = await settled(
                patient.report, lambda one: any(each.id == kind for each in one.findings), seconds=SECONDS
            )
            (command,) = [each.command for each in report.findings if each.id == kind]
            await pasted(command, tmp_path)
            after = await settled(patient.findings, lambda found: not found - before, seconds=SECONDS)
            mended = written(await patient.hub.get(MENDED[kind]))

    assert not after - before
    assert mended == whole


def test_each_finding_is_broken_here() -> None:
    assert {*map(id_of, BREAKS), KUBECONFIG, *OF_OBJECTS} == set(TABLE)
