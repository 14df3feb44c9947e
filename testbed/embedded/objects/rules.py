"""The rules that Kubernetes' code, not a schema, checks on objects; only those that tests or users meet."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from fedhpa.api.errors import InvalidObject
from fedhpa.api.fielderror import FieldError, forbidden, invalid, required
from fedhpa.api.names import dns_label, dns_subdomain, label_value, path_segment, qualified_name
from fedhpa.api.selectors import selector_of
from testbed.embedded.api import statuses
from testbed.embedded.api.types import Object
from testbed.embedded.objects.kinds import Kind

_IMMUTABLE: Final = "field is immutable"


def problems(kind: Kind, obj: Object, old: Object | None = None) -> Iterator[FieldError]:
    """Yields the problems of an object or, with `old`, of its change."""
    yield from _name_problems(kind, obj["metadata"])
    if kind.custom:
        return
    if kind.plural in _RULES:
        yield from _RULES[kind.plural](obj)
    if kind.group == "apps" and old is not None:
        selector = (obj.get("spec") or {}).get("selector")
        if selector != (old.get("spec") or {}).get("selector"):
            yield invalid("spec.selector", selector, _IMMUTABLE)


def metadata_problems(metadata: Object, old: Object | None) -> Iterator[FieldError]:
    """Yields the problems of an object's metadata or, with `old`, of their change."""
    for key, value in (metadata.get("labels") or {}).items():
        yield from (invalid("metadata.labels", key, message) for message in qualified_name(key))
        yield from (invalid("metadata.labels", value, message) for message in label_value(value))
    for key in metadata.get("annotations") or {}:
        messages = qualified_name(key.lower())
        yield from (invalid("metadata.annotations", key, message) for message in messages)
    if old is None:
        return
    if metadata["uid"] != old["uid"]:
        yield invalid("metadata.uid", metadata["uid"], _IMMUTABLE)
    added = sorted(set(metadata.get("finalizers") or ()) - set(old.get("finalizers") or ()))
    if added and "deletionTimestamp" in old:
        names = ", ".join(f'"{name}"' for name in added)
        detail = "no new finalizers can be added if the object is being deleted, found new finalizers "
        yield forbidden("metadata.finalizers", f"{detail}[]string{{{names}}}")


def check_namespace(namespace: Object | None, kind: Kind, name: str, wanted: str) -> None:
    """Raises StatusError if the namespace is absent or Terminating."""
    if namespace is None:
        raise statuses.not_found("", "namespaces", wanted)
    if (namespace.get("status") or {}).get("phase") == "Terminating":
        why = f"unable to create new content in namespace {wanted} because it is being terminated"
        raise statuses.forbidden(kind.group, kind.plural, name, why)


def _name_problems(kind: Kind, metadata: Object) -> Iterator[FieldError]:
    name = metadata.get("name")
    if not name:
        yield required("metadata.name", "name or generateName is required")
        return
    rule: Callable[[str], list[str]] = dns_subdomain
    if kind.group == "rbac.authorization.k8s.io":
        rule = path_segment
    elif kind.plural in ("namespaces", "services") and not kind.custom:
        rule = dns_label
    yield from (invalid("metadata.name", name, message) for message in rule(name))


def _workload_problems(obj: Object) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    selector, template = spec.get("selector"), spec.get("template") or {}
    if selector is None:
        yield required("spec.selector")
    labels = (template.get("metadata") or {}).get("labels") or {}
    try:
        if selector is not None and not selector_of(selector).matches(labels):
            detail = "`selector` does not match template `labels`"
            yield invalid("spec.template.metadata.labels", labels, detail)
    except InvalidObject as error:
        yield invalid("spec.selector", selector, str(error))
    containers = (template.get("spec") or {}).get("containers")
    if not containers:
        yield required("spec.template.spec.containers")
    if spec.get("replicas", 1) < 0:
        yield invalid("spec.replicas", spec["replicas"], "must be greater than or equal to 0")


def _lease_problems(obj: Object) -> Iterator[FieldError]:
    seconds = (obj.get("spec") or {}).get("leaseDurationSeconds", 1)
    if seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")


def _event_problems(obj: Object) -> Iterator[FieldError]:
    namespace = (obj.get("involvedObject") or {}).get("namespace") or "default"
    if namespace != obj["metadata"]["namespace"]:
        yield invalid("involvedObject.namespace", namespace, "does not match event.namespace")


_RULES: Final[Mapping[str, Callable[[Object], Iterator[FieldError]]]] = {
    "deployments": _workload_problems,
    "statefulsets": _workload_problems,
    "replicasets": _workload_problems,
    "leases": _lease_problems,
    "events": _event_problems,
}
