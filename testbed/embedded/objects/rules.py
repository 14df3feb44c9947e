"""What Kubernetes' own code demands of objects, apart from their schemas, as far as it matters here."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from fedhpa.api.errors import InvalidObject
from fedhpa.api.fielderror import FieldError, forbidden, invalid, required
from fedhpa.api.names import dns_label, dns_subdomain, label_value, path_segment, qualified_name
from fedhpa.api.selectors import selector_of
from testbed.embedded.api import statuses as refusals
from testbed.embedded.api.types import Object
from testbed.embedded.objects.kinds import Kind
from testbed.embedded.objects.registrations import (
    wrong_api_service,
    wrong_binding,
    wrong_role,
    wrong_webhooks,
)

_IMMUTABLE: Final = "field is immutable"


def wrong(kind: Kind, obj: Object, old: Object | None = None) -> Iterator[FieldError]:
    """What is wrong with an object or, where there is an old one, with the change."""
    yield from _wrong_name(kind, obj["metadata"])
    if not kind.custom:
        rule = _RULES.get(kind.plural)
        yield from rule(obj) if rule else ()
        if kind.group == "apps" and old is not None:
            selector = (obj.get("spec") or {}).get("selector")
            if selector != (old.get("spec") or {}).get("selector"):
                yield invalid("spec.selector", selector, _IMMUTABLE)


def wrong_metadata(metadata: Object, old: Object | None) -> Iterator[FieldError]:
    """What is wrong with the metadata of an object, or with their change."""
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


def undecodable(obj: Object) -> str:
    """Why Go cannot decode a built-in object whose JSON types are right, or ""."""
    for value in (obj.get("data") or {}).values() if obj.get("kind") == "Secret" else ():
        good = re.match(r"[A-Za-z0-9+/]*={0,2}", value)
        end = good.end() if good else 0
        if end < len(value) or end % 4:
            return f"illegal base64 data at input byte {min(end, len(value) - 1)}"
    return ""


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


def _wrong_workload(obj: Object) -> Iterator[FieldError]:
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
    for index, container in enumerate(containers or ()):
        for name in ("name", "image"):
            if not container.get(name):
                yield required(f"spec.template.spec.containers[{index}].{name}")
    if spec.get("replicas", 1) < 0:
        yield invalid("spec.replicas", spec["replicas"], "must be greater than or equal to 0")


def _wrong_lease(obj: Object) -> Iterator[FieldError]:
    seconds = (obj.get("spec") or {}).get("leaseDurationSeconds", 1)
    if seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")


def _wrong_event(obj: Object) -> Iterator[FieldError]:
    about = (obj.get("involvedObject") or {}).get("namespace") or "default"
    if about != obj["metadata"]["namespace"]:
        yield invalid("involvedObject.namespace", about, "does not match event.namespace")


def _wrong_crd(obj: Object) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    name = obj["metadata"].get("name")
    if name != f"{(spec.get('names') or {}).get('plural')}.{spec.get('group')}":
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    versions = spec.get("versions") or []
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid("spec.versions", None, "must have exactly one version marked as storage version")
    for index, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema", "schemas are required")


_RULES: Final[Mapping[str, Callable[[Object], Iterator[FieldError]]]] = {
    "deployments": _wrong_workload,
    "statefulsets": _wrong_workload,
    "replicasets": _wrong_workload,
    "leases": _wrong_lease,
    "events": _wrong_event,
    "customresourcedefinitions": _wrong_crd,
    "roles": wrong_role,
    "clusterroles": wrong_role,
    "rolebindings": wrong_binding,
    "clusterrolebindings": wrong_binding,
    "apiservices": wrong_api_service,
    "mutatingwebhookconfigurations": wrong_webhooks,
    "validatingwebhookconfigurations": wrong_webhooks,
}
