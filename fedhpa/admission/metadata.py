"""Validation of metadata, as in API servers and Karmada's webhook. Source: Kubernetes 1.36, objectmeta."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fedhpa.api.fielderror import FieldError, TypedText, invalid, required, too_long
from fedhpa.api.hold import ALL, hold_problem
from fedhpa.api.meta import ManagedFieldsEntry, ObjectMeta, OwnerReference
from fedhpa.api.names import dns_label, dns_subdomain, label_value, qualified_name

_MAX_ANNOTATIONS: Final = 256 * 1024
_MAX_FIELD_MANAGER: Final = 128
_MAX_SUBRESOURCE: Final = 256
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"


def validate_metadata(metadata: ObjectMeta, path: str = "metadata") -> Iterator[FieldError]:
    """Yields the errors of the metadata of a namespaced object."""
    yield from _identity(metadata, path)
    if metadata.labels:
        yield from _labels(metadata.labels, f"{path}.labels")
    if metadata.annotations:
        yield from _annotations(metadata.annotations, f"{path}.annotations")
    if metadata.owner_references:
        yield from _owners(metadata.owner_references, f"{path}.ownerReferences")
    if metadata.finalizers:
        yield from _finalizers(metadata.finalizers, f"{path}.finalizers")
    if metadata.managed_fields:
        yield from _managed_fields(metadata.managed_fields, f"{path}.managedFields")


def warn_hold(metadata: ObjectMeta) -> Iterator[str]:
    """Warns about a hold that cannot be read: it holds everything."""
    if metadata.annotations and (problem := hold_problem(metadata.annotations)):
        yield f"{problem}, so it counts as {ALL}"


def _identity(metadata: ObjectMeta, path: str) -> Iterator[FieldError]:
    """Checks name, namespace and generation."""
    if metadata.generate_name:
        for message in dns_subdomain(_without_trailing_dash(metadata.generate_name)):
            yield invalid(f"{path}.generateName", metadata.generate_name, message)
    if not metadata.name:
        yield required(f"{path}.name", "name or generateName is required")
    for message in dns_subdomain(metadata.name) if metadata.name else ():
        yield invalid(f"{path}.name", metadata.name, message)
    if not metadata.namespace:
        yield required(f"{path}.namespace")
    for message in dns_label(metadata.namespace) if metadata.namespace else ():
        yield invalid(f"{path}.namespace", metadata.namespace, message)
    if metadata.generation < 0:
        yield invalid(f"{path}.generation", metadata.generation, "must be greater than or equal to 0")


def _without_trailing_dash(prefix: str) -> str:
    """Returns a generateName without its trailing dash, which is valid because a suffix follows."""
    return prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def _labels(labels: dict[str, str], path: str) -> Iterator[FieldError]:
    for key, value in labels.items():
        for message in qualified_name(key):
            yield invalid(path, key, message)
        for message in label_value(value):
            yield invalid(path, value, message)


def _annotations(annotations: dict[str, str], path: str) -> Iterator[FieldError]:
    size = 0
    for key, value in annotations.items():
        size += _bytes(key) + _bytes(value)
        for message in qualified_name(key.lower()):
            yield invalid(path, key, message)
    if size > _MAX_ANNOTATIONS:
        yield too_long(path, _MAX_ANNOTATIONS)


def _owners(owners: tuple[OwnerReference, ...], path: str) -> Iterator[FieldError]:
    controller = ""
    shown: list[dict[str, Any]] = []
    for owner in owners:
        yield from _owner(owner, path)
        if not owner.controller:
            continue
        name = f"{owner.kind}/{owner.name}"
        if controller:
            # Built once, because there may be as many errors as owners.
            shown = shown or [_owner_json(reference) for reference in owners]
            yield invalid(
                path,
                shown,
                'Only one reference can have Controller set to true. Found "true" in references for '
                f"{controller} and {name}",
            )
        controller = controller or name


def _owner(owner: OwnerReference, path: str) -> Iterator[FieldError]:
    version = owner.api_version.rpartition("/")[2]
    if not version or owner.api_version.count("/") > 1:
        yield invalid(f"{path}.apiVersion", owner.api_version, "version must not be empty")
    for name, value in (("kind", owner.kind), ("name", owner.name), ("uid", owner.uid)):
        if not value:
            yield invalid(f"{path}.{name}", value, "must not be empty")
    if owner.api_version in ("v1", "/v1") and owner.kind == "Event":
        yield invalid(path, _owner_json(owner), "/v1, Kind=Event is disallowed from being an owner")


def _owner_json(owner: OwnerReference) -> dict[str, Any]:
    """Returns the reference as Go prints it: four fields always, the flags if given."""
    shown: dict[str, Any] = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
    }
    if owner.controller is not None:
        shown["controller"] = owner.controller
    if owner.block_owner_deletion is not None:
        shown["blockOwnerDeletion"] = owner.block_owner_deletion
    return shown


def _finalizers(finalizers: tuple[str, ...], path: str) -> Iterator[FieldError]:
    for finalizer in finalizers:
        for message in qualified_name(finalizer):
            yield invalid(path, finalizer, message)
    if _ORPHAN in finalizers and _FOREGROUND in finalizers:
        yield invalid(path, list(finalizers), f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set")


def _managed_fields(entries: tuple[ManagedFieldsEntry, ...], path: str) -> Iterator[FieldError]:
    for index, entry in enumerate(entries):
        at = f"{path}[{index}]"
        if entry.operation not in ("Apply", "Update"):
            yield invalid(f"{at}.operation", TypedText(entry.operation), "must be `Apply` or `Update`")
        if entry.fields_type not in ("", "FieldsV1"):
            yield invalid(f"{at}.fieldsType", entry.fields_type, "must be `FieldsV1`")
        if _bytes(entry.manager) > _MAX_FIELD_MANAGER:
            yield too_long(f"{at}.manager", _MAX_FIELD_MANAGER)
        yield from _unprintable(entry.manager, f"{at}.manager")
        if _bytes(entry.subresource) > _MAX_SUBRESOURCE:
            yield too_long(f"{at}.subresource", _MAX_SUBRESOURCE)


def _unprintable(manager: str, path: str) -> Iterator[FieldError]:
    if manager.isprintable():
        return
    position = 0
    for character in manager:
        if not character.isprintable():
            detail = f"invalid character U+{ord(character):04X} (at position {position})"
            yield invalid(path, manager, detail)
        position += _bytes(character)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
