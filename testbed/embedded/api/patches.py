"""JSON patches (RFC 6902), merge patches (RFC 7386) and strategic merge patches.

A strategic patch merges lists by the keys in the schemas (k8s.io/apimachinery 0.36, strategicpatch); kubectl
sends it for built-in kinds. Contradictory patches are not refused.
"""

from typing import Any, Final

import jsonpatch
import jsonpointer
import msgspec

from testbed.embedded.api import statuses
from testbed.embedded.api.types import Object, StatusError
from testbed.embedded.objects.definitions import resolve
from testbed.embedded.objects.kinds import Kind

JSON: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch"
NO_SERVER_SIDE_APPLY: Final = (
    "the embedded plane has no server-side apply: run kubectl apply without --server-side"
)
_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_REMOVE: Final = "$deleteFromPrimitiveList/"
_STRATEGY: Final = "x-kubernetes-patch-strategy"
_KEY: Final = "x-kubernetes-patch-merge-key"


def json_patch(obj: Object, operations: Any) -> Object:
    """Returns the object after the operations. Raises StatusError Invalid."""
    try:
        found = jsonpatch.JsonPatch(operations).apply(obj)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError):
        found = None
    if not isinstance(found, dict):
        message = "the server rejected our request due to an error in our request"
        raise StatusError(422, "Invalid", message, details={})
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
        is_apply = content_type.startswith(APPLY)
        raise statuses.unsupported_media_type(accepted, NO_SERVER_SIDE_APPLY if is_apply else "")


def apply_patch(schema: Object, obj: Object, content_type: str, body: bytes) -> Object:
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
    return strategic_merge(obj, patch, schema)


def strategic_merge(original: Object, patch: Object, schema: Object) -> Object:
    """Returns the object after the patch; changes neither. Raises StatusError for an unusable directive."""
    schema = resolve(schema)
    for name, value in patch.items():
        if name.startswith((_RETAIN, _ORDER, _REMOVE)) and not isinstance(value, list):
            raise statuses.bad_request(f"invalid patch format of {name}: it is not a list")
    if _DIRECTIVE in patch:
        replaced = patch[_DIRECTIVE] == "replace"
        return {name: value for name, value in patch.items() if name != _DIRECTIVE} if replaced else {}
    retained = patch.get(_RETAIN)
    merged = {name: value for name, value in original.items() if retained is None or name in retained}
    for name, value in patch.items():
        if name.startswith(_REMOVE):
            field = name.removeprefix(_REMOVE)
            if isinstance(merged.get(field), list):
                merged[field] = [item for item in merged[field] if item not in value]
        elif not name.startswith(_ORDER) and name != _RETAIN:
            _merge_field(merged, name, value, _field(schema, name))
    for name, order in patch.items():
        field = name.removeprefix(_ORDER)
        if name.startswith(_ORDER) and isinstance(merged.get(field), list):
            key = _field(schema, field).get(_KEY, "")
            merged[field] = _ordered(merged[field], order, original.get(field) or [], key)
    return merged


def _field(schema: Object, name: str) -> Object:
    properties, more = schema.get("properties", {}), schema.get("additionalProperties")
    return resolve(properties.get(name) or (more if isinstance(more, dict) else {}))


def _merge_field(merged: Object, name: str, value: Any, schema: Object) -> None:
    old = merged.get(name)
    strategies = schema.get(_STRATEGY, "").split(",")
    if value is None:
        merged.pop(name, None)
    elif isinstance(value, dict) and "replace" not in strategies:
        merged[name] = strategic_merge(old if isinstance(old, dict) else {}, value, schema)
    elif isinstance(value, list) and "merge" in strategies:
        merged[name] = _merge_list(old if isinstance(old, list) else [], value, schema)
    else:
        merged[name] = value


def _merge_list(original: list[Any], patch: list[Any], schema: Object) -> list[Any]:
    key: str = schema.get(_KEY, "")
    if not key:
        merged = [*original, *(item for item in patch if item not in original)]
        return _ordered(merged, patch, original, "")
    items = [item for item in patch if _get(item, _DIRECTIVE) != "replace"]
    merged = list(original) if len(items) == len(patch) else []
    for item in items:
        value = _get(item, key)
        if value is None:
            raise StatusError(500, "", f"map: {item} does not contain declared merge key: {key}")
        found = next((index for index, old in enumerate(merged) if _get(old, key) == value), None)
        if _get(item, _DIRECTIVE) == "delete":
            merged = [old for old in merged if _get(old, key) != value]
        elif found is None:
            merged.append(strategic_merge({}, item, schema.get("items", {})))
        else:
            merged[found] = strategic_merge(merged[found], item, schema.get("items", {}))
    return _ordered(merged, items, original, key)


def _ordered(merged: list[Any], order: list[Any], live: list[Any], key: str) -> list[Any]:
    """Sorts the items that `order` names as `order` does.

    Every other item stays before the items that followed it in `live`.
    """
    wanted = [_identity(item, key) for item in order]
    place = {repr(_identity(item, key)): index for index, item in enumerate(live)}
    named = [item for item in merged if _identity(item, key) in wanted]
    named.sort(key=lambda item: wanted.index(_identity(item, key)))
    found = []
    for item in (item for item in merged if _identity(item, key) not in wanted):
        own = place.get(repr(_identity(item, key)), len(live))
        while named and own >= place.get(repr(_identity(named[0], key)), -1):
            found.append(named.pop(0))
        found.append(item)
    return found + named


def _get(item: Any, key: str) -> Any:
    return item.get(key) if isinstance(item, dict) else None


def _identity(item: Any, key: str) -> Any:
    return _get(item, key) if key else item
