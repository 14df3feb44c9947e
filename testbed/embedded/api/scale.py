"""The scale of an object: its replicas as autoscaling/v1 shows them, read from and written into it."""

from typing import Any

from fedhpa.api.fielderror import invalid
from fedhpa.api.selectors import selector_of
from testbed.embedded.api import statuses as refusals
from testbed.embedded.api.types import Object, Refusal
from testbed.embedded.objects.definitions import schema_of
from testbed.embedded.objects.kinds import Kind
from testbed.embedded.objects.validation import problems


def scale_of(kind: Kind, obj: Object, *, must_be: bool = False) -> Object:
    """The Scale. Refusal if replicas must be there, and a custom object has none."""
    metadata = obj["metadata"]
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Object = {"replicas": _at(obj, kind.scale["statusReplicasPath"]) or 0}
    selector = _at(obj, kind.scale.get("labelSelectorPath", ""))
    if isinstance(selector, dict):
        selector = str(selector_of(selector))
    if selector:
        status["selector"] = selector
    replicas = _at(obj, kind.scale["specReplicasPath"])
    if replicas is None and kind.custom and must_be:
        why = f'the spec replicas field "{kind.scale["specReplicasPath"]}" does not exist'
        raise Refusal(
            500, "InternalError", f"Internal error occurred: {why}", details={"causes": [{"message": why}]}
        )
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: metadata[field] for field in shown if field in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def scaled(kind: Kind, obj: Object, scale: Object) -> Object:
    """The object with the replicas of a Scale. Refusal if they are none."""
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    name = obj["metadata"]["name"]
    if replicas < 0 and not kind.custom:
        problem = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise refusals.invalid("autoscaling", "Scale", name, [problem])
    changed = dict(obj)
    *parents, last = kind.scale["specReplicasPath"].strip(".").split(".")
    inner = changed
    for part in parents:
        inner[part] = dict(inner.get(part) or {})
        inner = inner[part]
    inner[last] = replicas
    found = [*problems(changed, schema_of(kind))] if kind.custom else []
    if replicas < 0 and kind.custom:
        found.append(invalid(kind.scale["specReplicasPath"], replicas, "should be a non-negative integer"))
    if found:
        raise refusals.invalid(kind.group, kind.kind, name, found)
    return changed


def _at(obj: Object, path: str) -> Any:
    value: Any = obj if path else None
    for part in path.strip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
