"""Validation of metadata, as in API servers and Karmada's webhook. Source: Kubernetes 1.36, objectmeta."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from fedhpa.api.fielderror import FieldError, TypedText, invalid, required, too_long
from fedhpa.api.hold import ALL, hold_problem
from fedhpa.api.meta import ManagedFieldsEntry, ObjectMeta, OwnerReference
from fedhpa.api.names import dns_label, dns_subdomain, label_value, qualified_name, size_of

_MAX_ANNOTATIONS: Final = 256 * 1024
_MAX_FIELD_MANAGER: Final = 128
_MAX_SUBRESOURCE: Final = 256
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"


def validate_metadata(metadata: ObjectMeta) -> Iterator[FieldError]:
    """Yields the errors of the metadata of a namespaced object."""
    yield from _identity(metadata)
    if metadata.labels:
        yield from validate_labels(metadata.labels, "metadata.labels")
    if metadata.annotations:
        yield from _annotations(metadata.annotations, "metadata.annotations")
    if metadata.owner_references:
        yield from _owners(metadata.owner_references, "metadata.ownerReferences")
    if metadata.finalizers:
        yield from _finalizers(metadata.finalizers, "metadata.finalizers")
    if metadata.managed_fields:
        yield from _managed_fields(metadata.managed_fields, "metadata.managedFields")


def warn_hold(metadata: ObjectMeta) -> Iterator[str]:
    """Warns about a hold that cannot be read: it holds everything."""
    if metadata.annotations and (problem := hold_problem(metadata.annotations)):
        yield f"{problem}, so it counts as {ALL}"


def _identity(metadata: ObjectMeta) -> Iterator[FieldError]:
    """Checks name, namespace and generation."""
    prefix, name, namespace = metadata.generate_name, metadata.name, metadata.namespace
    if prefix:
        # A trailing dash is valid, because a suffix follows.
        stem = prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix
        yield from each_invalid("metadata.generateName", prefix, dns_subdomain(stem))
    if name:
        yield from each_invalid("metadata.name", name, dns_subdomain(name))
    else:
        yield required("metadata.name", "name or generateName is required")
    if namespace:
        yield from each_invalid("metadata.namespace", namespace, dns_label(namespace))
    else:
        yield required("metadata.namespace")
    if metadata.generation < 0:
        yield invalid("metadata.generation", metadata.generation, "must be greater than or equal to 0")


def validate_labels(labels: Mapping[str, str], path: str) -> Iterator[FieldError]:
    """Yields the errors of labels, or of the labels that a selector matches."""
    for key, value in labels.items():
        yield from each_invalid(path, key, qualified_name(key))
        yield from each_invalid(path, value, label_value(value))


def each_invalid(path: str, value: Any, messages: Iterable[str]) -> Iterator[FieldError]:
    """Yields the errors of a value that breaks several rules."""
    return (invalid(path, value, message) for message in messages)


def _annotations(annotations: dict[str, str], path: str) -> Iterator[FieldError]:
    size = 0
    for key, value in annotations.items():
        size += size_of(key) + size_of(value)
        yield from each_invalid(path, key, qualified_name(key.lower()))
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
    flags = {"controller": owner.controller, "blockOwnerDeletion": owner.block_owner_deletion}
    texts = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
    return texts | {name: flag for name, flag in flags.items() if flag is not None}


def _finalizers(finalizers: tuple[str, ...], path: str) -> Iterator[FieldError]:
    for finalizer in finalizers:
        yield from each_invalid(path, finalizer, qualified_name(finalizer))
    if _ORPHAN in finalizers and _FOREGROUND in finalizers:
        yield invalid(path, list(finalizers), f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set")


def _managed_fields(entries: tuple[ManagedFieldsEntry, ...], path: str) -> Iterator[FieldError]:
    for index, entry in enumerate(entries):
        at = f"{path}[{index}]"
        if entry.operation not in ("Apply", "Update"):
            yield invalid(f"{at}.operation", TypedText(entry.operation), "must be `Apply` or `Update`")
        if entry.fields_type not in ("", "FieldsV1"):
            yield invalid(f"{at}.fieldsType", entry.fields_type, "must be `FieldsV1`")
        if size_of(entry.manager) > _MAX_FIELD_MANAGER:
            yield too_long(f"{at}.manager", _MAX_FIELD_MANAGER)
        yield from _unprintable(entry.manager, f"{at}.manager")
        if size_of(entry.subresource) > _MAX_SUBRESOURCE:
            yield too_long(f"{at}.subresource", _MAX_SUBRESOURCE)


def _unprintable(manager: str, path: str) -> Iterator[FieldError]:
    if manager.isprintable():
        return
    position = 0
    for character in manager:
        if not character.isprintable():
            detail = f"invalid character U+{ord(character):04X} (at position {position})"
            yield invalid(path, manager, detail)
        position += size_of(character)
