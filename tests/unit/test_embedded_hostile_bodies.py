"""Whatever a client sends, the embedded API server answers: never with a fault of its own."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import hypothesis.strategies as st
from hypothesis import example, given, settings

from fedhpa.admission import crd
from testbed.embedded.api.calls import Call
from testbed.embedded.api.requests import attributes
from testbed.embedded.api.resources import Resources
from testbed.embedded.api.server import ApiServer
from testbed.embedded.api.types import ANONYMOUS, Refusal
from testbed.embedded.objects.kinds import CRDS
from tests.real.workloads import deployment, federated_hpa
from tests.support.nightly import examples

COLLECTIONS = (
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/default/events",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/autoscaling.karmada.io/v1alpha1/namespaces/default/federatedhpas",
)
# An object in each collection; as a CRD it is there from the start.
NAME = "federatedhpas.autoscaling.karmada.io"
SPECS: dict[str, Any] = {
    "deployments": {"spec": deployment(NAME, "default", replicas=2)["spec"]},
    "federatedhpas": {"spec": federated_hpa(NAME, "default", low=1, high=3)["spec"]},
    "events": {"involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"}},
}
CRD = crd.custom_resource_definition(crd.FEDERATED_HPA)
# Names that mean something somewhere, so that random objects reach deeper than the first check.
NAMES = st.sampled_from(
    (
        *(
            "metadata",
            "name",
            "labels",
            "annotations",
            "finalizers",
            "ownerReferences",
            "uid",
            "generateName",
        ),
        *("spec", "replicas", "selector", "matchLabels", "template", "containers", "image", "env", "ports"),
        *("group", "names", "plural", "kind", "versions", "schema", "openAPIV3Schema", "properties", "scope"),
        *("data", "stringData", "involvedObject", "namespace", "leaseDurationSeconds", "maxReplicas"),
        *("$patch", "$retainKeys", "$setElementOrder/containers", "status", "conditions", "resourceVersion"),
    )
)
LEAVES = st.none() | st.booleans() | st.integers(-2, 2**40) | st.floats(allow_nan=False) | st.text(max_size=5)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=5)
POINTERS = st.lists(NAMES | st.sampled_from(("0", "-", "1")), max_size=3).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)
OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(("add", "remove", "replace", "test", "move", "copy")), "path": POINTERS},
        optional={"value": VALUES, "from": POINTERS},
    ),
    max_size=3,
)


def resources() -> tuple[ApiServer, Resources]:
    api = ApiServer("hub", now=lambda: datetime(2026, 3, 1, tzinfo=UTC))
    api.store.create(CRDS, CRD)
    return api, Resources(api.store)


def status_of(method: str, path: str, body: Any, content_type: str = "application/json") -> int:
    """The status of the answer."""
    api, answering = resources()
    at = attributes(ANONYMOUS, method, path, {})
    kind = api.kinds.find(at.group, at.version, at.resource)
    assert kind is not None
    space = at.namespace if kind.namespaced else ""
    if at.name and api.store.find(kind.collection, space, at.name) is None:
        metadata = {"metadata": {"name": at.name, "namespace": space} if space else {"name": at.name}}
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **metadata}
        api.store.create(kind.collection, {**whole, **SPECS.get(kind.plural, {})})
    call = Call(at, kind, {}, json.dumps(body).encode(), content_type)
    try:
        return asyncio.run(answering.answer(call))[0]
    except Refusal as refusal:
        return refusal.code


@settings(max_examples=examples(50, 3_000), deadline=None)
@given(st.sampled_from(COLLECTIONS), OBJECTS | VALUES)
@example(COLLECTIONS[0], {"metadata": {"name": "a", "labels": {"a": None}}})
def test_creations(path: str, body: Any) -> None:
    """Created or refused; a version in what is to be created is 500 at Kubernetes, too."""
    metadata = {"name": "a", **_dict(_dict(body).get("metadata"))}
    found = status_of("POST", path, body | {"metadata": metadata} if isinstance(body, dict) else body)

    assert found in (201, 400, 404, 409, 422) or (found == 500 and "resourceVersion" in metadata)


@settings(max_examples=examples(50, 3_000), deadline=None)
@given(
    st.sampled_from(COLLECTIONS), OBJECTS | VALUES, st.sampled_from(("merge-patch", "strategic-merge-patch"))
)
@example(COLLECTIONS[8], {"metadata": True, "kind": None}, "merge-patch")
@example(COLLECTIONS[5], {"spec": None}, "merge-patch")
@example(COLLECTIONS[0], {"$retainKeys": None}, "strategic-merge-patch")
def test_merge_patches(path: str, body: Any, kind: str) -> None:
    """Patched or refused; a merge key that is missing is 500 at Kubernetes, too."""
    found = status_of("PATCH", f"{path}/{NAME}", body, f"application/{kind}+json")

    assert found in (200, 400, 409, 415, 422) or (found == 500 and kind.startswith("strategic"))


@settings(max_examples=examples(50, 3_000), deadline=None)
@given(st.sampled_from(COLLECTIONS), OPERATIONS)
@example(COLLECTIONS[0], [{"op": "replace", "path": "", "value": 5}])
@example(COLLECTIONS[0], [{"op": "remove", "path": "/kind"}])
@example(COLLECTIONS[8], [{"op": "remove", "path": "/metadata"}])
def test_json_patches(path: str, operations: Any) -> None:
    """Patched or refused."""
    found = status_of("PATCH", f"{path}/{NAME}", operations, "application/json-patch+json")

    assert found in (200, 400, 409, 422)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
