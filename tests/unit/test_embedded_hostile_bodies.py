"""The embedded API server answers random bodies and patches with a client error, never with a fault."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import hypothesis.strategies as st
from hypothesis import example, given, settings

from fedhpa.admission import crd
from testbed.embedded.api.requests import ResourceRequest, attributes_of
from testbed.embedded.api.server import ApiServer
from testbed.embedded.api.types import ANONYMOUS, StatusError
from testbed.embedded.objects.kinds import CRDS
from tests.real.workloads import deployment, federated_hpa
from tests.support.nightly import examples

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
FEDERATED_HPAS = "/apis/autoscaling.karmada.io/v1alpha1/namespaces/default/federatedhpas"
COLLECTIONS = (
    CONFIGMAPS,
    DEPLOYMENTS,
    FEDERATED_HPAS,
    "/api/v1/namespaces/default/events",
    "/api/v1/namespaces/default/pods",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases",
)
NAME = "web"
OBJECTS: dict[str, Any] = {
    CONFIGMAPS: {"metadata": {"name": NAME, "namespace": "default"}},
    DEPLOYMENTS: deployment(NAME, "default", replicas=2),
    FEDERATED_HPAS: federated_hpa(NAME, "default", low=1, high=3),
}
# Field names that are used somewhere, so that random objects pass the first checks.
NAMES = st.sampled_from(
    (
        *("metadata", "name", "labels", "annotations", "finalizers", "ownerReferences", "generateName"),
        *("spec", "replicas", "selector", "matchLabels", "template", "containers", "image", "env", "ports"),
        *("data", "involvedObject", "namespace", "leaseDurationSeconds", "maxReplicas", "status"),
        *("$patch", "$retainKeys", "$setElementOrder/containers", "resourceVersion", "conditions"),
    )
)
LEAVES = st.none() | st.booleans() | st.integers(-2, 2**40) | st.floats(allow_nan=False) | st.text(max_size=5)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
OBJECT_VALUES = st.dictionaries(NAMES, VALUES, max_size=5)


def status_of(method: str, collection: str, body: Any, content_type: str = "application/json") -> int:
    """Returns the HTTP status; patches apply to an object that exists."""
    api = ApiServer("hub", now=lambda: datetime(2026, 3, 1, tzinfo=UTC))
    api.store.create(CRDS, crd.custom_resource_definition(crd.FEDERATED_HPA))
    path = f"{collection}/{NAME}" if method == "PATCH" else collection
    attributes = attributes_of(ANONYMOUS, method, path, {})
    kind = api.kinds.find(attributes.group, attributes.version, attributes.resource)
    assert kind is not None
    if method == "PATCH":
        head = {"apiVersion": kind.api_version, "kind": kind.kind}
        api.store.create(kind.collection, {**head, **OBJECTS[collection]})
    request = ResourceRequest(attributes, kind, {}, json.dumps(body).encode(), content_type)
    try:
        return asyncio.run(api.resources.answer(request))[0]
    except StatusError as error:
        return error.code


@settings(max_examples=examples(50, 3_000), deadline=None)
@given(st.sampled_from(COLLECTIONS), OBJECT_VALUES)
@example(CONFIGMAPS, {"metadata": {"name": "a", "labels": {"a": None}}})
def test_creations(collection: str, body: Any) -> None:
    """An object is created or refused; a resourceVersion in a creation is 500, as in Kubernetes."""
    given_metadata = body.get("metadata")
    metadata = {"name": "a", **(given_metadata if isinstance(given_metadata, dict) else {})}
    found = status_of("POST", collection, {**body, "metadata": metadata})

    assert found in (201, 400, 404, 409, 422) or (found == 500 and "resourceVersion" in metadata)


@settings(max_examples=examples(50, 3_000), deadline=None)
@given(
    st.sampled_from(tuple(OBJECTS)),
    OBJECT_VALUES | VALUES,
    st.sampled_from(("merge-patch", "strategic-merge-patch", "json-patch")),
)
@example(FEDERATED_HPAS, {"metadata": True, "kind": None}, "merge-patch")
@example(DEPLOYMENTS, {"spec": None}, "merge-patch")
@example(CONFIGMAPS, {"$retainKeys": None}, "strategic-merge-patch")
@example(CONFIGMAPS, [{"op": "replace", "path": "", "value": 5}], "json-patch")
@example(CONFIGMAPS, [{"op": "remove", "path": "/kind"}], "json-patch")
@example(FEDERATED_HPAS, [{"op": "remove", "path": "/metadata"}], "json-patch")
def test_patches(collection: str, body: Any, kind: str) -> None:
    """A patch is applied or refused; a missing merge key is 500, as in Kubernetes."""
    found = status_of("PATCH", collection, body, f"application/{kind}+json")

    assert found in (200, 400, 409, 415, 422) or (found == 500 and kind == "strategic-merge-patch")
