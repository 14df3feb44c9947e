"""The annotation that keeps a controller's record on a hub whose CRD drops the fields of the status.

Karmada's CRDs drop the status fields that a restart needs. The annotation holds these fields as JSON, with
the uid of the object. A copy of an object, from a backup for example, has another uid and starts without a
past. Anybody who may write the object may write the annotation, so an unreadable one is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import decode_json

RECORD_ANNOTATION: Final = "autoscaling.karmada.io/fedhpa-record"
MAX_RECORD_BYTES: Final = 16 * 1024
VERSION: Final = 1


def encode_record(uid: str, fields: Mapping[str, Any]) -> str:
    """Returns the text of the annotation. The caller checks that it has at most MAX_RECORD_BYTES."""
    return msgspec.json.encode({"version": VERSION, "uid": uid, **fields}).decode()


def fits(text: str) -> bool:
    """True if the annotation may hold `text`."""
    return len(text.encode()) <= MAX_RECORD_BYTES


def decode_record(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of an object's record; {} without one, and for another object's or a bad one."""
    text = recorded_text(metadata)
    # A character has at least one byte, so that most large texts need no encoding.
    if not text or len(text) > MAX_RECORD_BYTES or not fits(text):
        return {}
    try:
        fields: Any = decode_json(text, dict[str, Any])
    except InvalidObject:
        return {}
    own = fields.pop("version", None) == VERSION and fields.pop("uid", None) == metadata.get("uid", "")
    return fields if own else {}


def recorded_text(metadata: Mapping[str, Any]) -> str:
    """Returns the text of an object's record; "" if it has none."""
    annotations = metadata.get("annotations")
    text = annotations.get(RECORD_ANNOTATION) if isinstance(annotations, Mapping) else None
    return text if isinstance(text, str) else ""
