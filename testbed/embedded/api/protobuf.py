"""Reads the protobuf that kubectl posts for `create configmap`, `create role` and the like, and for `auth`.

`apply`, `patch` and `create -f` send JSON.
"""

import base64
from collections.abc import Iterator
from typing import Any, Final

from testbed.embedded.api import statuses
from testbed.embedded.api.types import Object

TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_VARINT, _BYTES = 0, 2
# Each message: "NUMBER name type", from the generated.proto files of k8s.io/api 0.36. A type is text, base64,
# number, bytes, skip or a message; map:TYPE is a map of texts to that type, list:TYPE a list.
_MESSAGES: Final = {
    "Unknown": "1 typeMeta TypeMeta, 2 raw bytes, 3 contentEncoding skip, 4 contentType skip",
    "TypeMeta": "1 apiVersion text, 2 kind text",
    "ObjectMeta": (
        "1 name text, 2 generateName text, 3 namespace text, 4 selfLink skip, 5 uid text,"
        " 6 resourceVersion text, 7 generation number, 8 creationTimestamp skip, 11 labels map:text,"
        " 12 annotations map:text"
    ),
    "Namespace": "1 metadata ObjectMeta, 2 spec skip, 3 status skip",
    "ConfigMap": "1 metadata ObjectMeta, 2 data map:text, 3 binaryData map:base64",
    "Secret": "1 metadata ObjectMeta, 2 data map:base64, 3 type text, 4 stringData map:text",
    "ServiceAccount": "1 metadata ObjectMeta",
    "ClusterRole": "1 metadata ObjectMeta, 2 rules list:PolicyRule",
    "Role": "1 metadata ObjectMeta, 2 rules list:PolicyRule",
    "PolicyRule": (
        "1 verbs list:text, 2 apiGroups list:text, 3 resources list:text, 4 resourceNames list:text,"
        " 5 nonResourceURLs list:text"
    ),
    "ClusterRoleBinding": "1 metadata ObjectMeta, 2 subjects list:Subject, 3 roleRef RoleRef",
    "RoleBinding": "1 metadata ObjectMeta, 2 subjects list:Subject, 3 roleRef RoleRef",
    "Subject": "1 kind text, 2 apiGroup text, 3 name text, 4 namespace text",
    "RoleRef": "1 apiGroup text, 2 kind text, 3 name text",
    "TokenRequest": "1 metadata ObjectMeta, 2 spec TokenRequestSpec, 3 status skip",
    "TokenRequestSpec": "1 audiences list:text, 4 expirationSeconds number",
    "SelfSubjectReview": "1 metadata ObjectMeta, 2 status skip",
    "SelfSubjectAccessReview": "1 metadata ObjectMeta, 2 spec SelfSubjectAccessReviewSpec, 3 status skip",
    "SelfSubjectAccessReviewSpec": (
        "1 resourceAttributes ResourceAttributes, 2 nonResourceAttributes NonResourceAttributes"
    ),
    "ResourceAttributes": (
        "1 namespace text, 2 verb text, 3 group text, 4 version text, 5 resource text, 6 subresource text,"
        " 7 name text"
    ),
    "NonResourceAttributes": "1 path text, 2 verb text",
}


def decode(raw: bytes) -> Object:
    """Returns the object in a body. Raises StatusError for an unknown message or field."""
    kind = "this object"
    try:
        if not raw.startswith(_MAGIC):
            raise KeyError(_MAGIC)
        envelope = _message("Unknown", raw[len(_MAGIC) :])
        type_meta: Object = envelope["typeMeta"]
        kind = type_meta["kind"]
        return {**type_meta, **_message(kind, envelope.get("raw", b""))}
    except (KeyError, IndexError, UnicodeDecodeError) as error:
        remedy = (
            f"the embedded plane does not read the protobuf of {kind}: add --dry-run=client -o yaml to the"
            " command and pipe it into kubectl apply -f -"
        )
        raise statuses.unsupported_media_type(("application/json",), remedy) from error


def _message(name: str, raw: bytes) -> Object:
    fields = {number: (field, kind) for number, field, kind in map(str.split, _MESSAGES[name].split(","))}
    found: Object = {}
    for number, value in _fields(raw):
        field, kind = fields[str(number)]
        if kind.startswith("map:"):
            entry = dict(_fields(value))
            key = entry.get(1, b"").decode()
            found.setdefault(field, {})[key] = _value(kind.removeprefix("map:"), entry.get(2, b""))
        elif kind.startswith("list:"):
            found.setdefault(field, []).append(_value(kind.removeprefix("list:"), value))
        elif kind != "skip":
            found[field] = _value(kind, value)
    # Go writes empty texts and zeros, which JSON leaves out.
    return {field: value for field, value in found.items() if value not in ("", {}, 0)}


def _value(kind: str, value: Any) -> Any:
    match kind:
        case "text":
            return value.decode()
        case "base64":
            return base64.b64encode(value).decode()
        case "number" | "bytes":
            return value
        case _:
            return _message(kind, value)


def _fields(raw: bytes) -> Iterator[tuple[int, Any]]:
    """Yields the number and the value of each field: an int, or bytes."""
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at)
        if key & 7 not in (_VARINT, _BYTES):
            raise KeyError(key)
        value, at = _varint(raw, at)
        if key & 7 == _VARINT:
            yield key >> 3, value
            continue
        if at + value > len(raw):
            raise IndexError("the body is cut off")
        yield key >> 3, raw[at : at + value]
        at += value


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """Returns the number at an offset, and the offset after it."""
    value = shift = 0
    while True:
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
