"""The generated CRDs in front of the real API server."""

import json
from pathlib import Path
from typing import Any

import pytest

from testbed.real.plane import Plane
from testbed.stage.waiting import eventually
from tests.real.settling import kubectl

DATA = Path(__file__).parents[1] / "conformance" / "data" / "karmada_manifests.json"
MANIFESTS = [
    pytest.param(entry["object"], id=f"{index}-{Path(entry['from']).stem}-{entry['object']['kind']}")
    for index, entry in enumerate(json.loads(DATA.read_text(encoding="utf-8"))["manifests"])
]
GROUP = "autoscaling.karmada.io"


@pytest.mark.parametrize("manifest", MANIFESTS)
async def test_karmadas_manifest_is_accepted_unchanged(plane: Plane, manifest: dict[str, Any]) -> None:
    """Every object of Karmada's tutorials and proposals is accepted, and the server keeps all its fields."""
    path_namespace = manifest["metadata"].get("namespace", "default")
    collection = f"/apis/{GROUP}/v1alpha1/namespaces/{path_namespace}/{manifest['kind'].lower()}s"
    async with plane.hub.api() as api:

        async def created() -> Any:
            return await api.send("POST", collection, body=manifest, params={"dryRun": "All"})

        # The webhook validates these objects too, and may miss its deadline on a busy machine.
        stored = await eventually(created, what="the manifest is accepted", seconds=60, every=1)

    assert manifest["spec"] == kept(stored["spec"], manifest["spec"])


def kept(stored: Any, written: Any) -> Any:
    """Returns the written fields of a stored object, without defaults that were added."""
    if isinstance(written, dict) and isinstance(stored, dict):
        return {key: kept(stored.get(key), value) for key, value in written.items()}
    if isinstance(written, list) and isinstance(stored, list) and len(written) == len(stored):
        return [kept(old, new) for old, new in zip(stored, written, strict=True)]
    return stored


async def test_crds_say_nothing_the_server_warns_about(plane: Plane) -> None:
    """The server accepts the schemas as structural: it sets no NonStructuralSchema condition."""
    async with plane.hub.api() as api:
        listed = await api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    ours = [crd for crd in listed["items"] if crd["spec"]["group"].endswith(("karmada.io", "fedhpa.io"))]
    conditions = {
        crd["metadata"]["name"]: {c["type"]: c["status"] for c in crd["status"]["conditions"]} for crd in ours
    }

    assert conditions == {
        "federatedhpas.autoscaling.karmada.io": {"NamesAccepted": "True", "Established": "True"},
        "cronfederatedhpas.autoscaling.karmada.io": {"NamesAccepted": "True", "Established": "True"},
        "clusters.cluster.karmada.io": {"NamesAccepted": "True", "Established": "True"},
        "scalingrecords.fedhpa.io": {"NamesAccepted": "True", "Established": "True"},
        "placements.fedhpa.io": {"NamesAccepted": "True", "Established": "True"},
    }


async def test_kubectl_knows_the_short_names(plane: Plane) -> None:
    """`kubectl get fhpa,cronfhpa -A` and `kubectl explain` work, so discovery and OpenAPI have the kinds."""
    # Discovery and OpenAPI list a new kind after it is served.
    listed = await kubectl(plane.hub, "get", "fhpa,cronfhpa", "-A")
    explained = await kubectl(plane.hub, "explain", "fhpa.spec.partialMetrics", words="lostAfterSeconds")

    assert (listed.code, explained.code) == (0, 0), listed.err + explained.err
    assert "lostAfterSeconds" in explained.out
