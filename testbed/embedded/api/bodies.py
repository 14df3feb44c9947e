"""Reads request bodies: decodes, prunes, defaults and validates objects."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from fedhpa.api.fielderror import required
from testbed.embedded.api import statuses
from testbed.embedded.api.types import Object
from testbed.embedded.objects import validation
from testbed.embedded.objects.kinds import NAMESPACES, Kind

JSON: Final = "application/json"
# kubectl sends it for `create namespace` and the like. `apply`, `patch` and `create -f` send JSON.
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
# The defaults and first statuses of built-in objects that our processes or people read.
_SPECS: Final[Mapping[str, Object]] = {
    "deployments": {"replicas": 1},
    "statefulsets": {"replicas": 1},
    "replicasets": {"replicas": 1},
    "horizontalpodautoscalers": {"minReplicas": 1},
}
_WEBHOOK: Final[Object] = {
    "failurePolicy": "Fail",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}
_STATUS: Final[Mapping[str, Object]] = {"namespaces": {"phase": "Active"}, "pods": {"phase": "Pending"}}


def decode(raw: bytes, content_type: str, kind: str) -> Object:
    """Returns the object in a body. Raises StatusError UnsupportedMediaType or BadRequest."""
    if content_type == PROTOBUF:
        return _namespace(raw, kind)
    if content_type not in ("", JSON):
        raise statuses.unsupported_media_type((JSON,))
    try:
        found: Object = msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise statuses.bad_request(f"the body is not a {kind}: {error}") from error
    return found


def _namespace(raw: bytes, kind: str) -> Object:
    """Returns the Namespace in a protobuf. Raises StatusError for other kinds."""
    if kind != "Namespace" or not raw.startswith(_MAGIC):
        remedy = (
            f"the embedded plane does not read the protobuf of {kind}: add --dry-run=client -o yaml to the"
            " command and pipe it into kubectl apply -f -"
        )
        raise statuses.unsupported_media_type((JSON,), remedy)
    # Unknown.raw is field 2, Namespace.metadata and ObjectMeta.name are field 1 (generated.proto of k8s.io).
    namespace = dict(_fields(raw[len(_MAGIC) :]))[2]
    name = dict(_fields(dict(_fields(namespace))[1]))[1].decode()
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _fields(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the number and the content of each field; all have a length, and numbers below 16."""
    at = 0
    while at < len(raw):
        number, size, shift, at = raw[at] >> 3, 0, 0, at + 1
        while raw[at] & 0x80:
            size, shift, at = size | (raw[at] & 0x7F) << shift, shift + 7, at + 1
        size, at = size | raw[at] << shift, at + 1
        yield number, raw[at : at + size]
        at += size


def read_object(raw: bytes, content_type: str, kind: Kind) -> Object:
    """Returns the pruned object in a body. Raises StatusError."""
    obj = decode(raw, content_type, kind.kind)
    if not kind.custom:
        obj.setdefault("kind", kind.kind)
        obj.setdefault("apiVersion", kind.api_version)
    check_kind(obj, kind)
    return pruned(obj, kind)


def check_kind(obj: Object, kind: Kind) -> None:
    """Raises StatusError unless the object has the kind and apiVersion of the request."""
    given, version = obj.get("kind"), obj.get("apiVersion")
    if (version, given) != (kind.api_version, kind.kind):
        raise statuses.bad_request(
            f'{given} in version "{version}" cannot be handled as a {kind.kind} '
            f'in version "{kind.api_version}"'
        )


def pruned(obj: Object, kind: Kind) -> Object:
    """Returns a custom object as its schema has it, and a built-in one without nulls, which mean absent."""
    kept: Object = validation.prune(obj, kind.schema) if kind.custom else _without_nulls(obj)
    metadata = kept.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise statuses.bad_request("metadata is not an object")
    kept["metadata"] = {name: value for name, value in metadata.items() if value not in ({}, [], "", None)}
    if kind.custom:
        validation.default(kept, kind.schema)
    return kept


def _without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return value


def validated(obj: Object, kind: Kind) -> Object:
    """Returns the object pruned and with defaults. Raises StatusError Invalid."""
    kept = pruned(obj, kind)
    name = kept["metadata"].get("name", "")
    found = [] if name else [required("metadata.name", "name or generateName is required")]
    if kind.custom:
        found += validation.problems({**kept, "metadata": {}}, kind.schema)
    if found:
        raise statuses.invalid(kind.group, kind.kind, name, found)
    if not kind.custom:
        _complete(kind, kept)
    return kept


def _complete(kind: Kind, obj: Object) -> None:
    """Fill in the defaults of a built-in object, in place."""
    if isinstance(obj.get("spec"), dict):
        obj["spec"] = {**_SPECS.get(kind.plural, {}), **obj["spec"]}
    for webhook in (obj.get("webhooks") or ()) if kind.plural.endswith("webhookconfigurations") else ():
        webhook |= {**_WEBHOOK, **webhook}
    if kind.collection == NAMESPACES:
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]


def begin(kind: Kind, obj: Object) -> None:
    """Set the status of a new object, in place. A Node keeps the status that it is created with."""
    if "status" in kind.subresources and kind.plural != "nodes":
        obj.pop("status", None)
    if not kind.custom and kind.plural in _STATUS:
        obj["status"] = dict(_STATUS[kind.plural])
    if kind.collection == NAMESPACES:
        obj["spec"] = {"finalizers": ["kubernetes"]}
