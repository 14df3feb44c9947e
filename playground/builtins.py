"""What Kubernetes' own code adds to and demands of built-in kinds, as far as somebody here looks at it."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from fedhpa.api.errors import InvalidObject
from fedhpa.api.fielderror import FieldError, invalid, required
from fedhpa.api.names import dns_label, dns_subdomain, path_segment
from fedhpa.api.selectors import selector_of
from playground import refusals
from playground.kinds import CRDS, NAMESPACES, Kind
from playground.pipeline import Object
from playground.webhooks import wrong_webhooks

_POD: Final[Object] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}
_CONTAINER: Final[Object] = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_ROLLING: Final = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
_SPECS: Final[dict[str, Object]] = {
    "deployments": {
        "replicas": 1,
        "strategy": _ROLLING,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
    },
    "statefulsets": {
        "replicas": 1,
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        "revisionHistoryLimit": 10,
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


def complete(kind: Kind, obj: Object) -> None:
    """Fill in defaults, in place."""
    spec = obj.get("spec")
    if kind.plural in _SPECS and isinstance(spec, dict):
        _fill(spec, _SPECS[kind.plural])
    if kind.group == "apps" and isinstance(spec, dict):
        _complete_pod((spec.get("template") or {}).get("spec"))
    elif kind.plural == "pods":
        _complete_pod(spec)
    elif kind.plural.endswith("webhookconfigurations"):
        mutating = {"reinvocationPolicy": "Never"} if kind.plural.startswith("mutating") else {}
        for webhook in obj.get("webhooks") or ():
            _fill(webhook, {**_WEBHOOK, **mutating})
            for rule in webhook.get("rules") or ():
                _fill(rule, {"scope": "*"})
    elif kind.plural == "secrets":
        _fill(obj, {"type": "Opaque"})
    elif kind.collection == NAMESPACES:
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]


def begin(kind: Kind, obj: Object) -> None:
    """The status, and what goes with it, of an object that is created."""
    if "status" in kind.subresources and kind.plural != "nodes":
        obj.pop("status", None)
    if kind.collection == NAMESPACES:
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}
    elif kind.plural == "pods" and not kind.custom:
        obj["status"] = {"phase": "Pending"}
    elif kind.plural == "services" and not kind.custom:
        obj["status"] = {"loadBalancer": {}}
    elif kind.group == "apps":
        obj["status"] = {"replicas": 0} if kind.plural != "deployments" else {}


def wrong(kind: Kind, obj: Object) -> Iterator[FieldError]:
    """What is wrong with an object, apart from its schema."""
    yield from _wrong_name(kind, obj["metadata"])
    if kind.group == "apps":
        yield from _wrong_workload(obj.get("spec") or {})
    if kind.plural.endswith("webhookconfigurations"):
        yield from wrong_webhooks(obj)
    if kind.collection == CRDS:
        spec = obj.get("spec") or {}
        wanted = f"{(spec.get('names') or {}).get('plural')}.{spec.get('group')}"
        if obj["metadata"].get("name") != wanted:
            yield invalid(
                "metadata.name", obj["metadata"].get("name"), 'must be spec.names.plural+"."+spec.group'
            )


def _fill(value: Object, defaults: Object) -> None:
    for name, each in defaults.items():
        if name not in value:
            value[name] = dict(each) if isinstance(each, dict) else each


def _complete_pod(spec: Any) -> None:
    if not isinstance(spec, dict):
        return
    _fill(spec, _POD)
    for container in spec.get("containers") or ():
        tag = container.get("image", "").rpartition("/")[2].partition(":")[2]
        _fill(
            container,
            {**_CONTAINER, "imagePullPolicy": "IfNotPresent" if tag not in ("", "latest") else "Always"},
        )
        for port in container.get("ports") or ():
            _fill(port, {"protocol": "TCP"})


def _wrong_name(kind: Kind, metadata: Object) -> Iterator[FieldError]:
    name = metadata.get("name")
    if not name:
        yield required("metadata.name", "name or generateName is required")
        return
    rule: Callable[[str], list[str]] = dns_subdomain
    if kind.group == "rbac.authorization.k8s.io":
        rule = path_segment
    elif kind.plural in ("namespaces", "services") and not kind.custom:
        rule = dns_label
    for message in rule(name):
        yield invalid("metadata.name", name, message)


def _wrong_workload(spec: Object) -> Iterator[FieldError]:
    selector, template = spec.get("selector"), spec.get("template") or {}
    if selector is None:
        yield required("spec.selector")
    labels = (template.get("metadata") or {}).get("labels") or {}
    try:
        selected = selector is None or selector_of(selector).matches(labels)
    except InvalidObject as error:
        yield invalid("spec.selector", selector, str(error))
    else:
        if not selected:
            detail = "`selector` does not match template `labels`"
            yield invalid("spec.template.metadata.labels", labels, detail)
    if not (template.get("spec") or {}).get("containers"):
        yield required("spec.template.spec.containers")
    replicas = spec.get("replicas", 1)
    if replicas < 0:
        yield invalid("spec.replicas", replicas, "must be greater than or equal to 0")


def check_namespace(namespace: Object | None, kind: Kind, name: str, wanted: str) -> None:
    """Refusal unless something may be created in a namespace."""
    if namespace is None:
        raise refusals.not_found("", "namespaces", wanted)
    if (namespace.get("status") or {}).get("phase") == "Terminating":
        why = f"unable to create new content in namespace {wanted} because it is being terminated"
        refusal = refusals.forbidden(kind.group, kind.plural, name, why)
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {wanted} is being terminated",
            "field": "metadata.namespace",
        }
        refusal.details = {**(refusal.details or {}), "causes": [cause]}
        raise refusal
