"""Strategic merge patches: lists of built-in kinds are merged by a key, as `kubectl apply` sends them.

Source: k8s.io/apimachinery 0.36, strategicpatch. The merge keys are in the schemas.
"""

from collections.abc import Iterable
from typing import Any, Final

from testbed.embedded.api import statuses as refusals
from testbed.embedded.api.types import Object
from testbed.embedded.objects.definitions import resolve

DIRECTIVE: Final = "$patch"
RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_REMOVE: Final = "$deleteFromPrimitiveList/"
_STRATEGY: Final = "x-kubernetes-patch-strategy"
_KEY: Final = "x-kubernetes-patch-merge-key"


def strategic_merge(original: Object, patch: Object, schema: Object) -> Object:
    """The object after the patch; neither is changed. Refusal if the patch contradicts itself."""
    schema = resolve(schema)
    for name, value in patch.items():
        if name.startswith((RETAIN, _ORDER, _REMOVE)) and not isinstance(value, list):
            raise refusals.bad_request(f"invalid patch format of {name}: it is no list")
    directive = patch.get(DIRECTIVE)
    if directive is not None:
        return _whole(directive, patch)
    merged = _retained(original, patch)
    for name, value in patch.items():
        if name.startswith(_REMOVE):
            field = name.removeprefix(_REMOVE)
            if field in merged:
                merged[field] = [item for item in merged[field] if item not in value]
        elif not name.startswith(_ORDER) and name != RETAIN:
            _merge_field(merged, name, value, _field(schema, name))
    for name, order in patch.items():
        field = name.removeprefix(_ORDER)
        if name.startswith(_ORDER) and isinstance(merged.get(field), list):
            key = _field(schema, field).get(_KEY, "")
            _check_order(patch.get(field) or (), order, key)
            merged[field] = _ordered(merged[field], order, original.get(field) or [], key)
    return merged


def _whole(directive: Any, patch: Object) -> Object:
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != DIRECTIVE}
    if directive == "delete":
        return {}
    raise refusals.bad_request(f"unknown patch type: {directive}")


def _retained(original: Object, patch: Object) -> Object:
    if RETAIN not in patch:
        return dict(original)
    given = (name for name, value in patch.items() if value is not None and not name.startswith("$"))
    if any(name not in patch[RETAIN] for name in given):
        raise refusals.bad_request("invalid patch format of retainKeys")
    return {name: value for name, value in original.items() if name in patch[RETAIN]}


def _field(schema: Object, name: str) -> Object:
    properties, more = schema.get("properties", {}), schema.get("additionalProperties")
    found = properties.get(name) or (more if isinstance(more, dict) else {})
    return resolve(found)


def _merge_field(merged: Object, name: str, value: Any, schema: Object) -> None:
    old = merged.get(name)
    strategies = schema.get(_STRATEGY, "").split(",")
    if value is None:
        merged.pop(name, None)
    elif isinstance(value, dict) and "replace" not in strategies:
        merged[name] = strategic_merge(old if isinstance(old, dict) else {}, value, schema)
        if not isinstance(old, dict) and value.get(DIRECTIVE) == "delete":
            del merged[name]
    elif isinstance(value, list) and "merge" in strategies:
        merged[name] = _merge_list(old if isinstance(old, list) else [], value, schema)
    else:
        merged[name] = value


def _merge_list(original: list[Any], patch: list[Any], schema: Object) -> list[Any]:
    key: str = schema.get(_KEY, "")
    if not key:
        merged = [*original, *(item for item in patch if item not in original)]
        return _ordered(merged, patch, original, "")
    merged = list(original)
    if any(_of(item, DIRECTIVE) == "replace" for item in patch):
        merged = []
    rest = [item for item in patch if _of(item, DIRECTIVE) != "replace"]
    for item in rest:
        value = _of(item, key)
        if value is None:
            raise refusals.plain(f"map: {item} does not contain declared merge key: {key}")
        found = next((index for index, old in enumerate(merged) if _of(old, key) == value), None)
        if _of(item, DIRECTIVE) == "delete":
            merged = [old for old in merged if _of(old, key) != value]
        elif found is None:
            merged.append(strategic_merge({}, item, schema.get("items", {})))
        else:
            merged[found] = strategic_merge(merged[found], item, schema.get("items", {}))
    return _ordered(merged, rest, original, key)


def _check_order(patch: Iterable[Any], order: list[Any], key: str) -> None:
    """What a patch changes is in the order it asks for, and in that order."""
    wanted = [_identity(item, key) for item in order]
    changed = [_identity(item, key) for item in patch if _of(item, DIRECTIVE) is None]
    if [each for each in wanted if each in changed] != changed:
        raise refusals.bad_request(
            "The order in patch list:\n"
            f"{changed}\n doesn't match {_ORDER.removesuffix('/')} list:\n{wanted}\n"
        )


def _ordered(merged: list[Any], order: list[Any], live: list[Any], key: str) -> list[Any]:
    """Those in `order` as ordered there; the others before what they stood before in `live`."""
    wanted = [_identity(item, key) for item in order]
    place = {_hashable(_identity(item, key)): index for index, item in enumerate(live)}
    ours = [item for item in merged if _identity(item, key) in wanted]
    ours.sort(key=lambda item: wanted.index(_identity(item, key)))
    found = []
    for item in (item for item in merged if _identity(item, key) not in wanted):
        mine = place.get(_hashable(_identity(item, key)), len(live))
        while ours and not mine < place.get(_hashable(_identity(ours[0], key)), -1):
            found.append(ours.pop(0))
        found.append(item)
    return found + ours


def _of(item: Any, key: str) -> Any:
    return item.get(key) if isinstance(item, dict) else None


def _identity(item: Any, key: str) -> Any:
    return _of(item, key) if key else item


def _hashable(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
