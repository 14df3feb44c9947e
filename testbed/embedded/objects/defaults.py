"""The defaults and first statuses that Kubernetes' code gives to built-in objects; pods get none here."""

import base64
from collections.abc import Callable, Mapping
from typing import Final

from testbed.embedded.api.types import Object
from testbed.embedded.objects.kinds import NAMESPACES, Kind

_ROLLING: Final = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
_PARTITIONED: Final = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
_SPECS: Final[Mapping[str, Object]] = {
    "deployments": {
        "replicas": 1,
        "strategy": _ROLLING,
    },
    "statefulsets": {
        "replicas": 1,
        "updateStrategy": _PARTITIONED,
    },
    "replicasets": {"replicas": 1},
    "horizontalpodautoscalers": {"minReplicas": 1},
    "services": {"type": "ClusterIP", "sessionAffinity": "None"},
}
_WEBHOOK: Final[Object] = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}
_STATUS: Final[Mapping[str, Object]] = {
    "namespaces": {"phase": "Active"},
    "pods": {"phase": "Pending"},
    "services": {"loadBalancer": {}},
    "deployments": {},
    "statefulsets": {"replicas": 0},
    "replicasets": {"replicas": 0},
}


def complete(kind: Kind, obj: Object) -> None:
    """Fill in the defaults of a built-in object, in place."""
    if isinstance(obj.get("spec"), dict):
        _fill(obj["spec"], _SPECS.get(kind.plural, {}))
    if kind.plural in _COMPLETE:
        _COMPLETE[kind.plural](obj)


def begin(kind: Kind, obj: Object) -> None:
    """Set the status of a new object, in place. A Node keeps the status that it is created with."""
    if "status" in kind.subresources and kind.plural != "nodes":
        obj.pop("status", None)
    if not kind.custom and kind.plural in _STATUS:
        obj["status"] = dict(_STATUS[kind.plural])
    if kind.collection == NAMESPACES:
        obj["spec"] = {"finalizers": ["kubernetes"]}


def _fill(value: Object, defaults: Object) -> None:
    for name, each in defaults.items():
        if name not in value:
            value[name] = dict(each) if isinstance(each, dict) else each


def _webhooks(obj: Object) -> None:
    mutating = {"reinvocationPolicy": "Never"} if obj["kind"].startswith("Mutating") else {}
    for webhook in obj.get("webhooks") or ():
        _fill(webhook, {**_WEBHOOK, **mutating})
        for rule in webhook.get("rules") or ():
            _fill(rule, {"scope": "*"})


def _secret(obj: Object) -> None:
    texts = obj.pop("stringData", None) or {}
    added = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    if added:
        obj["data"] = {**(obj.get("data") or {}), **added}
    _fill(obj, {"type": "Opaque"})


def _namespace(obj: Object) -> None:
    if "name" in obj["metadata"]:
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]


_COMPLETE: Final[Mapping[str, Callable[[Object], None]]] = {
    "mutatingwebhookconfigurations": _webhooks,
    "validatingwebhookconfigurations": _webhooks,
    "secrets": _secret,
    "namespaces": _namespace,
}
