"""JSON patches (RFC 6902), merge patches (RFC 7386) and strategic merge patches.

`kubectl apply` sends strategic patches for built-in kinds. They merge lists of objects by a key, and keep the
order of the list. Directives other than `$patch: delete` have no effect.
"""

from collections.abc import Mapping
from typing import Any, Final

import jsonpatch
import jsonpointer
import msgspec

from testbed.embedded.api import statuses
from testbed.embedded.api.types import Object, StatusError
from testbed.embedded.objects.kinds import Kind

JSON: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
# The fields whose lists `apply` merges, with the key of an item (x-kubernetes-patch-merge-key).
_KEYS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("containers", "initContainers", "env", "volumes"), "name"),
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "conditions": "type",
    "ownerReferences": "uid",
}


def json_patch(obj: Object, operations: Any) -> Object:
    """Returns the object after the operations. Raises StatusError Invalid."""
    try:
        found = jsonpatch.JsonPatch(operations).apply(obj)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError):
        found = None
    if not isinstance(found, dict):
        raise StatusError(422, "Invalid", "the patch cannot be applied")
    return found


def merge_patch(target: Any, patch: Any) -> Any:
    """Returns the target after the merge patch; changes neither."""
    if isinstance(patch, list) and not isinstance(target, dict):
        # Go's library removes nulls from objects in lists, which the RFC does not.
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


def check_type(kind: Kind, content_type: str) -> None:
    """Raises StatusError for a type of patch that is not read."""
    accepted = (JSON, MERGE) if kind.custom else (JSON, MERGE, STRATEGIC)
    if content_type not in accepted:
        raise statuses.unsupported_media_type(accepted)


def apply_patch(obj: Object, content_type: str, body: bytes) -> Object:
    """Returns the object after the patch of a request, whose type was checked. Raises StatusError."""
    try:
        patch: Any = msgspec.json.decode(body, type=list if content_type == JSON else dict)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise statuses.bad_request(f"error decoding patch: {error}") from error
    if content_type == JSON:
        return json_patch(obj, patch)
    if content_type == MERGE:
        merged: Object = merge_patch(obj, patch)
        return merged
    return strategic_merge(obj, patch)


def strategic_merge(original: Object, patch: Object) -> Object:
    """Returns the object after the patch; changes neither."""
    merged = dict(original)
    for name, value in patch.items():
        old, key = merged.get(name), _KEYS.get(name, "")
        if name.startswith("$"):
            continue
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            merged[name] = strategic_merge(old if isinstance(old, dict) else {}, value)
        elif (
            isinstance(value, list) and key and all(isinstance(each, dict) and key in each for each in value)
        ):
            merged[name] = _merge_list(old if isinstance(old, list) else [], value, key)
        else:
            merged[name] = value
    return merged


def _merge_list(original: list[Object], patch: list[Object], key: str) -> list[Object]:
    items = {item.get(key): item for item in original}
    for item in patch:
        if item.get("$patch") == "delete":
            items.pop(item[key], None)
        else:
            items[item[key]] = strategic_merge(items.get(item[key], {}), item)
    return list(items.values())
