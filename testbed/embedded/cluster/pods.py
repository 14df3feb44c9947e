"""The life of a pod: born of a template, bound to a node, started, ready; each step gives a new one."""

import hashlib
from datetime import datetime
from typing import Any

import msgspec

from testbed.embedded.api.types import Object

PODS = ("", "pods")


def born(owner: Object, revision: tuple[str, str] | None, name: str | None) -> Object:
    """A pod of the owner's template, not stored yet; `revision` is the label that tells templates apart.

    Without a name it is generated.
    """
    template, metadata = owner["spec"]["template"], owner["metadata"]
    given = template.get("metadata") or {}
    labels = dict(given.get("labels") or {}) | (dict([revision]) if revision else {})
    prefix = f"{metadata['name']}-{revision[1]}-" if revision else f"{metadata['name']}-"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **({"name": name} if name else {"generateName": prefix}),
            "namespace": metadata["namespace"],
            "labels": labels,
            **({"annotations": given["annotations"]} if given.get("annotations") else {}),
            "ownerReferences": [
                {
                    "apiVersion": owner["apiVersion"],
                    "kind": owner["kind"],
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": template["spec"],
        "status": {"phase": "Pending"},
    }


def unschedulable(pod: Object, why: str, now: datetime) -> Object:
    """The pod that no node takes."""
    status = {**(pod.get("status") or {}), "phase": "Pending"}
    message = {"reason": "Unschedulable", "message": why}
    status["conditions"] = _with(status, now, PodScheduled=("False", message))
    return {**pod, "status": status}


def bound(pod: Object, node: str) -> Object:
    """The pod on a node, not started."""
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}


def started(pod: Object, now: datetime) -> Object:
    """The pod whose containers run and are not ready."""
    waiting = {"reason": "ContainersNotReady", "message": "containers with unready status"}
    status = {**(pod.get("status") or {}), "phase": "Running", "startTime": stamp(now)}
    status["containerStatuses"] = [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "ready": False,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": stamp(now)}},
        }
        for container in pod["spec"].get("containers") or ()
    ]
    status["conditions"] = _with(
        status,
        now,
        PodScheduled=("True", {}),
        Initialized=("True", {}),
        Ready=("False", waiting),
        ContainersReady=("False", waiting),
    )
    return {**pod, "status": status}


def ready(pod: Object, now: datetime) -> Object:
    """The pod that serves."""
    status = dict(pod["status"])
    status["containerStatuses"] = [{**each, "ready": True} for each in status.get("containerStatuses", ())]
    status["conditions"] = _with(status, now, Ready=("True", {}), ContainersReady=("True", {}))
    return {**pod, "status": status}


def is_ready(pod: Object) -> bool:
    """Whether its Ready condition is True."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def owner_of(pod: Object) -> tuple[str, str]:
    """(name, uid) of the workload that controls it; ("", "") for a pod on its own."""
    for reference in pod["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return reference["name"], reference["uid"]
    return "", ""


def revision_of(template: Any) -> str:
    """A short name for the content of a template."""
    return hashlib.sha256(msgspec.json.encode(template, order="deterministic")).hexdigest()[:10]


def stamp(moment: datetime) -> str:
    """A metav1.Time."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _with(status: Object, now: datetime, **news: tuple[str, dict[str, str]]) -> list[Object]:
    """The conditions with these in place of the ones of the same type."""
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    for kind, (value, why) in news.items():
        old = conditions.get(kind, {})
        since = old["lastTransitionTime"] if old.get("status") == value else stamp(now)
        conditions[kind] = {"type": kind, "status": value, "lastTransitionTime": since, **why}
    return list(conditions.values())
