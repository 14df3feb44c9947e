"""On a hub without webhooks the CRDs refuse what their schemas can say, and admit all others."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedhpa.admission import crd
from testbed.real.controlplane import ControlPlane
from testbed.real.tools import kubernetes_asked_for
from testbed.stage.api import PlaneApi
from testbed.stage.waiting import eventually
from tests.conformance.layers import admission, asking, generated, recorded
from tests.conformance.layers.cases import FHPA, fhpa, manifest
from tests.conformance.layers.rows import objects
from tests.real.bare_server import server_with_our_crds
from tests.real.settling import done

FHPAS = f"{asking.NAMESPACE}/federatedhpas"
MERGE = "application/merge-patch+json"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/federatedhpas.autoscaling.karmada.io"
ADDED = "addedLater"


@pytest.fixture(scope="module")
def bare(assets: Path) -> Iterator[ControlPlane]:
    """Yields etcd and kube-apiserver with our CRDs, and without other components."""
    with server_with_our_crds(assets, "crd-alone") as plane:
        yield plane


@pytest.fixture
async def api(bare: ControlPlane) -> AsyncIterator[PlaneApi]:
    """Yields a client of that server."""
    async with bare.api() as client:
        yield client


@pytest.mark.skipif(bool(kubernetes_asked_for()), reason="tests/real/test_older_kubernetes.py compares them")
async def test_the_recorded_answers_are_still_given(api: PlaneApi) -> None:
    """The server gives the answers of docs/contributing/admission-layers.md, on which tests without an API
    server rely.
    """
    known = recorded.read()["answers"]

    assert await asking.answers(api, objects()) == known


@pytest.mark.parametrize("seed", range(10))
async def test_whatever_the_webhook_admits_the_crd_admits(api: PlaneApi, seed: int) -> None:
    """The CRD admits each object that the webhook admits. The objects combine good and bad values; about half
    are good.
    """
    made = {str(number): each for number, each in enumerate(generated.objects(seed, 100))}
    admitted = {name for name, each in made.items() if admission.refusal(each) == []}
    answers = await asking.answers(api, made.items())

    assert {name: (made[name], answers[name]) for name in admitted if answers[name]} == {}
    assert len(admitted) > 30


async def test_a_status_is_not_held_to_the_bounds_of_a_spec(api: PlaneApi) -> None:
    """The enumerations of a spec do not apply to the status, which a controller writes."""
    odd = manifest(FHPA, fhpa())
    odd["metadata"]["name"] = "status"
    status = {"desiredReplicas": 1, "currentMetrics": [{"type": "Odd"}]}
    await api.send("POST", FHPAS, body=odd)

    written = await api.send("PATCH", f"{FHPAS}/status/status", body={"status": status}, content_type=MERGE)

    assert written["status"]["currentMetrics"][0]["type"] == "Odd"


def without_bounds(definition: dict[str, Any]) -> dict[str, Any]:
    """Returns a CRD without enumerations and bounds, such as an older one or Karmada's."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            dropped = ("enum", "minimum", "maximum", "pattern", "minLength")
            return {
                key: strip(inner)
                for key, inner in value.items()
                # A property may have the name of a keyword.
                if key not in dropped or isinstance(inner, dict)
            }
        return [strip(inner) for inner in value] if isinstance(value, list) else value

    stripped = copy.deepcopy(definition)
    version = stripped["spec"]["versions"][0]
    version["schema"] = strip(version["schema"])
    return stripped


async def replace_definition(api: PlaneApi, body: dict[str, Any]) -> None:
    """Replaces the CRD of FederatedHPAs. The server's own writes may cause a conflict."""
    present = await api.get(DEFINITION)
    body = copy.deepcopy(body)
    body["metadata"]["resourceVersion"] = present["metadata"]["resourceVersion"]
    await api.send("PUT", DEFINITION, body=body)


async def test_an_object_older_than_the_bounds_can_be_mended_and_deleted(api: PlaneApi) -> None:
    """An invalid stored object can be corrected and deleted, because the server validates only changes."""
    definition = crd.custom_resource_definition(crd.FEDERATED_HPA)
    wrong = manifest(FHPA, fhpa(maxReplicas=0))
    wrong["metadata"] |= {"name": "old", "finalizers": ["example.com/hold"]}
    path = f"{FHPAS}/old"

    async def is_stored() -> bool:
        status, _, _ = await api.request("POST", FHPAS, body=wrong)
        return status == 201

    async def is_refused() -> bool:
        return bool(await asking.refusal(api, manifest(FHPA, fhpa(maxReplicas=0))))

    # The server's controllers write a CRD's status after each change of its spec, which may cause a conflict.
    await done(lambda: replace_definition(api, without_bounds(definition)), "the CRD without bounds")
    try:
        await eventually(is_stored, what="the wrong object is stored", seconds=60)
    finally:
        await done(lambda: replace_definition(api, definition), "the CRD with bounds")
    await eventually(is_refused, what="the bounds are back", seconds=60)

    labelled = await api.send("PATCH", path, body={"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    seen = {"status": {"desiredReplicas": 3}}
    published = await api.send("PATCH", f"{path}/status", body=seen, content_type=MERGE)
    status, _, body = await api.request("PATCH", path, body={"spec": {"maxReplicas": -1}}, content_type=MERGE)
    await api.send("DELETE", path)
    await api.send("PATCH", path, body={"metadata": {"finalizers": None}}, content_type=MERGE)

    assert labelled["metadata"]["labels"] == {"a": "b"}
    assert published["status"]["desiredReplicas"] == 3
    assert (status, "should be greater than or equal to 1" in body.decode()) == (422, True)
    assert await api.find(path) is None


def with_owners_of_each_field(definition: dict[str, Any]) -> dict[str, Any]:
    """Returns the CRD of an older release, or of Karmada, in which a status has an owner for each field."""
    older = copy.deepcopy(definition)
    del older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"][
        "x-kubernetes-map-type"
    ]
    return older


async def test_a_status_has_one_owner_also_after_an_upgrade(api: PlaneApi) -> None:
    """The server keeps no owners of single fields of a status, which would be larger than the object."""
    definition = crd.custom_resource_definition(crd.FEDERATED_HPA)
    body = manifest(FHPA, fhpa())
    body["metadata"]["name"] = "owned"
    path, desired = f"{FHPAS}/owned", 1
    clusters = [{"name": f"member{number}", "currentReplicas": 2} for number in range(3)]

    async def owned(desired: int) -> list[Any]:
        status = {"desiredReplicas": desired, "clusters": clusters}
        stored = await api.get(path)
        stored = await api.send("PUT", f"{path}/status", body={**stored, "status": status})
        assert stored["status"] == status
        return [
            entry["fieldsV1"]["f:status"]
            for entry in stored["metadata"]["managedFields"]
            if "f:status" in entry["fieldsV1"]
        ]

    async def has_one_owner() -> bool:
        nonlocal desired
        desired += 1
        return await owned(desired) == [{}]

    await done(lambda: replace_definition(api, with_owners_of_each_field(definition)), "the older CRD")
    try:
        await api.send("POST", FHPAS, body=body)

        async def has_many_owners() -> bool:
            return not await has_one_owner()

        await eventually(has_many_owners, what="the older CRD is served", seconds=60)
    finally:
        await done(lambda: replace_definition(api, definition), "the CRD of this release")
    await eventually(has_one_owner, what="a write leaves one owner", seconds=60)
    await api.delete(path)


def with_one_more_field(definition: dict[str, Any]) -> dict[str, Any]:
    """Returns a CRD of a newer release, whose spec has a field that today's lacks."""
    newer = copy.deepcopy(definition)
    spec = newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"][ADDED] = {"type": "integer"}
    return newer


async def test_a_field_of_a_newer_release_is_hidden_and_lost_with_the_next_write(api: PlaneApi) -> None:
    """After a rollback of the CRD an object shows the added field no more. An upgrade brings the field back
    if the object was not written in between. The status subresource counts as a write.
    """
    definition = crd.custom_resource_definition(crd.FEDERATED_HPA)
    newer = with_one_more_field(definition)
    paths = [f"{FHPAS}/untouched", f"{FHPAS}/written", f"{FHPAS}/reported"]

    async def shown(path: str) -> object:
        return (await api.get(path))["spec"].get(ADDED)

    async def served(value: object) -> None:
        async def poll() -> bool:
            return await shown(paths[0]) == value

        await eventually(poll, what=f"the server shows {value}", seconds=180)

    async def keeps_the_field() -> bool:
        probe = manifest(FHPA, fhpa(**{ADDED: 1}))
        answer = await api.send("POST", FHPAS, body=probe, params={"dryRun": "All"})
        return ADDED in answer["spec"]

    await done(lambda: replace_definition(api, newer), "the newer CRD")
    try:
        await eventually(keeps_the_field, what="the newer CRD is served", seconds=180)
        for path in paths:
            body = manifest(FHPA, fhpa(**{ADDED: 7}))
            body["metadata"]["name"] = path.rpartition("/")[2]
            await api.send("POST", FHPAS, body=body)
        await done(lambda: replace_definition(api, definition), "the older CRD")
        await served(None)
        label = {"metadata": {"labels": {"a": "b"}}}
        await api.send("PATCH", paths[1], body=label, content_type=MERGE)
        status = {"status": {"desiredReplicas": 3}}
        await api.send("PATCH", f"{paths[2]}/status", body=status, content_type=MERGE)
        await done(lambda: replace_definition(api, newer), "the newer CRD again")
        await served(7)
        after = [await shown(path) for path in paths]
    finally:
        await done(lambda: replace_definition(api, definition), "the CRD of this release")
        for path in paths:
            await api.delete(path)

    assert after == [7, None, None]


async def test_the_charts_crds_are_those_that_were_judged(api: PlaneApi) -> None:
    """The server accepts the chart's files unchanged."""
    folder = Path(__file__).parents[2] / "charts" / "fedhpa" / "files" / "crds"
    for path in folder.glob("*.yaml"):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            applied = await api.apply(document, dry_run=True)

            assert applied["spec"]["group"].endswith(("karmada.io", "fedhpa.io"))
