"""The three kinds of patch: JSON patch (RFC 6902), merge patch (RFC 7386) and Kubernetes' strategic one."""

import json
from typing import Any, Final

import jsonpatch
import jsonpointer
import msgspec

from fedhpa.api.fielderror import invalid
from testbed.embedded.api import statuses as refusals
from testbed.embedded.api.strategic import strategic_merge
from testbed.embedded.api.types import Object, Refusal
from testbed.embedded.objects.kinds import Kind

JSON: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
STRATEGIC: Final = "application/strategic-merge-patch+json"


def json_patch(obj: Object, operations: Any) -> Object:
    """What a list of operations makes of an object, which stays. Refusal."""
    try:
        found: Object = jsonpatch.JsonPatch(operations).apply(obj)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError) as error:
        message = "the server rejected our request due to an error in our request"
        raise Refusal(422, "Invalid", message, details={}) from error
    return found


def merge_patch(target: Any, patch: Any) -> Any:
    """The target after a merge patch; neither is changed."""
    if isinstance(patch, list) and not isinstance(target, dict):
        # Go's library takes the nulls out of objects in lists, which the RFC leaves alone.
        return [merge_patch({}, item) if isinstance(item, dict) else item for item in patch]
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def apply_patch(kind: Kind, schema: Object, obj: Object, content_type: str, body: bytes) -> Object:
    """The object after the patch of a request. Refusal."""
    if kind.custom and content_type not in (JSON, MERGE):
        # As a real server says it; that this one has no server-side apply makes no difference to the rest.
        raise refusals.unsupported_media_type((JSON, MERGE, APPLY))
    if content_type not in (JSON, MERGE, STRATEGIC):
        raise Refusal(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
    try:
        patch = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise refusals.bad_request(f"error decoding patch: {error}") from error
    if content_type == JSON:
        if not isinstance(patch, list):
            raise refusals.bad_request("error decoding patch: it is not a list")
        patched = json_patch(obj, patch)
        if not isinstance(patched, dict):
            raise refusals.invalid("", "", "", [invalid("patch", json.dumps(patched), "it is no object")])
        return patched
    if not isinstance(patch, dict):
        raise refusals.bad_request("error decoding patch: it is not an object")
    if content_type == MERGE:
        merged: Object = merge_patch(obj, patch)
        return merged
    return strategic_merge(obj, patch, schema)
