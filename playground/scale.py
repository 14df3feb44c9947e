"""The scale of an object: its replicas as autoscaling/v1 shows them, read from and written into it."""

from typing import Any

from fedhpa.api.fielderror import invalid
from fedhpa.api.selectors import selector_of
from playground import refusals
from playground.kinds import Kind
from playground.pipeline import Object, Refusal


def scale_of(kind: Kind, obj: Object) -> Object:
    """The Scale. Refusal if a custom object has no replicas to show."""
    metadata = obj["metadata"]
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Object = {"replicas": _at(obj, kind.scale["statusReplicasPath"]) or 0}
    selector = _at(obj, kind.scale.get("labelSelectorPath", ""))
    if isinstance(selector, dict):
        selector = str(selector_of(selector))
    if selector:
        status["selector"] = selector
    replicas = _at(obj, kind.scale["specReplicasPath"])
    if replicas is None and kind.custom:
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
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        raise refusals.bad_request(
            'Scale in version "v1" cannot be handled as a Scale: json: cannot unmarshal '
            f"{type(replicas).__name__} into Go struct field ScaleSpec.spec.replicas of type int32"
        )
    if replicas < 0:
        problem = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise refusals.invalid("autoscaling", "Scale", name, [problem])
    changed = dict(obj)
    *parents, last = kind.scale["specReplicasPath"].strip(".").split(".")
    inner = changed
    for part in parents:
        inner[part] = dict(inner.get(part) or {})
        inner = inner[part]
    inner[last] = replicas
    return changed


def _at(obj: Object, path: str) -> Any:
    value: Any = obj if path else None
    for part in path.strip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
