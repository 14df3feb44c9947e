"""The life of a pod: created, bound to a node, started, ready. Each step returns a new pod."""

from datetime import datetime

from testbed.embedded.api.types import Object

PODS = ("", "pods")


def new_pod(owner: Object) -> Object:
    """Returns an unstored pod of the owner's template."""
    template, metadata = owner["spec"]["template"], owner["metadata"]
    given = template.get("metadata") or {}
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{metadata['name']}-",
            "namespace": metadata["namespace"],
            "labels": given.get("labels") or {},
            **({"annotations": given["annotations"]} if given.get("annotations") else {}),
            "ownerReferences": [reference],
        },
        "spec": template["spec"],
        "status": {"phase": "Pending"},
    }


def unschedulable(pod: Object, why: str, now: datetime) -> Object:
    """Returns the pod with the condition that no node fits it."""
    status = {**(pod.get("status") or {}), "phase": "Pending"}
    message = {"reason": "Unschedulable", "message": why}
    status["conditions"] = with_conditions(status, now, PodScheduled=("False", message))
    return {**pod, "status": status}


def bound(pod: Object, node: str) -> Object:
    """Returns the pod on a node, not started."""
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}


def started(pod: Object, now: datetime) -> Object:
    """Returns the pod with running containers that are not ready."""
    waiting = {"reason": "ContainersNotReady", "message": "containers with unready status"}
    status = {**(pod.get("status") or {}), "phase": "Running", "startTime": timestamp(now)}
    status["containerStatuses"] = [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "ready": False,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": timestamp(now)}},
        }
        for container in pod["spec"].get("containers") or ()
    ]
    status["conditions"] = with_conditions(status, now, PodScheduled=("True", {}), Ready=("False", waiting))
    return {**pod, "status": status}


def ready(pod: Object, now: datetime) -> Object:
    """Returns the pod with ready containers."""
    status = dict(pod["status"])
    status["containerStatuses"] = [{**each, "ready": True} for each in status.get("containerStatuses", ())]
    status["conditions"] = with_conditions(status, now, Ready=("True", {}))
    return {**pod, "status": status}


def is_ready(pod: Object) -> bool:
    """True if the Ready condition is True."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def owner_of(pod: Object) -> tuple[str, str]:
    """Returns (name, uid) of the controlling workload, or ("", "")."""
    for reference in pod["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return reference["name"], reference["uid"]
    return "", ""


def timestamp(moment: datetime) -> str:
    """Returns a metav1.Time."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def with_conditions(status: Object, now: datetime, **changes: tuple[str, dict[str, str]]) -> list[Object]:
    """Returns the conditions with some types replaced."""
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    for kind, (value, why) in changes.items():
        old = conditions.get(kind, {})
        since = old["lastTransitionTime"] if old.get("status") == value else timestamp(now)
        conditions[kind] = {"type": kind, "status": value, "lastTransitionTime": since, **why}
    return list(conditions.values())
