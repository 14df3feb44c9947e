"""Kubernetes' protobuf, as far as kubectl sends it unasked and nothing here can do without.

That is what `create configmap`, `create namespace`, `create secret`, `create serviceaccount`, `create token`
and `auth` post; `apply`, `patch` and `create -f` send JSON.
"""

import base64
from collections.abc import Iterator
from typing import Any, Final

from testbed.embedded.api import statuses as refusals
from testbed.embedded.api.types import Object

TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_VARINT, _BYTES = 0, 2
# The fields of each message by number: name and "text", "base64", "number", "flag", a message, or a map of
# texts to one of these; a list of them in brackets. Source: the generated.proto files of k8s.io/api 0.36.
_MESSAGES: Final[dict[str, dict[int, tuple[str, str]]]] = {
    "Unknown": {
        1: ("typeMeta", "TypeMeta"),
        2: ("raw", "bytes"),
        3: ("contentEncoding", "skip"),
        4: ("contentType", "skip"),
    },
    "TypeMeta": {1: ("apiVersion", "text"), 2: ("kind", "text")},
    "ObjectMeta": {
        1: ("name", "text"),
        2: ("generateName", "text"),
        3: ("namespace", "text"),
        8: ("creationTimestamp", "skip"),
        11: ("labels", "map text"),
        12: ("annotations", "map text"),
        4: ("selfLink", "text"),
        5: ("uid", "text"),
        6: ("resourceVersion", "text"),
        7: ("generation", "number"),
    },
    "Namespace": {1: ("metadata", "ObjectMeta"), 2: ("spec", "skip"), 3: ("status", "skip")},
    "ConfigMap": {
        1: ("metadata", "ObjectMeta"),
        2: ("data", "map text"),
        3: ("binaryData", "map base64"),
        4: ("immutable", "flag"),
    },
    "Secret": {
        1: ("metadata", "ObjectMeta"),
        2: ("data", "map base64"),
        3: ("type", "text"),
        4: ("stringData", "map text"),
        5: ("immutable", "flag"),
    },
    "ServiceAccount": {1: ("metadata", "ObjectMeta")},
    "TokenRequest": {1: ("metadata", "ObjectMeta"), 2: ("spec", "TokenRequestSpec"), 3: ("status", "skip")},
    "TokenRequestSpec": {1: ("audiences", "[text]"), 4: ("expirationSeconds", "number")},
    "SelfSubjectReview": {1: ("metadata", "ObjectMeta"), 2: ("status", "skip")},
    "SelfSubjectAccessReview": {
        1: ("metadata", "ObjectMeta"),
        2: ("spec", "SelfSubjectAccessReviewSpec"),
        3: ("status", "skip"),
    },
    "SelfSubjectAccessReviewSpec": {
        1: ("resourceAttributes", "ResourceAttributes"),
        2: ("nonResourceAttributes", "NonResourceAttributes"),
    },
    "ResourceAttributes": {
        number: (name, "text")
        for number, name in enumerate(
            ("namespace", "verb", "group", "version", "resource", "subresource", "name"), start=1
        )
    },
    "NonResourceAttributes": {1: ("path", "text"), 2: ("verb", "text")},
}


def decode(raw: bytes) -> Object:
    """The object in a body. Refusal if it cannot be read here."""
    if not raw.startswith(_MAGIC):
        raise refusals.bad_request("provided data does not appear to be a protobuf message")
    try:
        envelope = _message("Unknown", raw[len(_MAGIC) :])
        about: Object = envelope["typeMeta"]
        return {**about, **_message(about["kind"], envelope.get("raw", b""))}
    except (KeyError, IndexError, UnicodeDecodeError) as error:
        raise refusals.unsupported_media_type(("application/json",)) from error


def _message(name: str, raw: bytes) -> Object:
    found: Object = {}
    known = _MESSAGES[name]
    for number, value in _fields(raw):
        field, kind = known[number]
        if kind.startswith("map "):
            entry = dict(_fields(value))
            found.setdefault(field, {})[entry.get(1, b"").decode()] = _value(kind[4:], entry.get(2, b""))
        elif kind.startswith("["):
            found.setdefault(field, []).append(_value(kind[1:-1], value))
        elif kind != "skip":
            found[field] = _value(kind, value)
    # Go writes empty texts and zeros, which are absent in JSON.
    return {field: value for field, value in found.items() if value not in ("", {}, 0)}


def _value(kind: str, value: Any) -> Any:
    match kind:
        case "text":
            return value.decode()
        case "base64":
            return base64.b64encode(value).decode()
        case "flag":
            return bool(value)
        case "number" | "bytes":
            return value
        case _:
            return _message(kind, value)


def _fields(raw: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each field: an int, or bytes."""
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at)
        if key & 7 == _VARINT:
            value, at = _varint(raw, at)
            yield key >> 3, value
        elif key & 7 == _BYTES:
            size, at = _varint(raw, at)
            if at + size > len(raw):
                raise IndexError("cut off")
            yield key >> 3, raw[at : at + size]
            at += size
        else:
            raise KeyError(key)


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
