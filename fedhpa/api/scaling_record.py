"""ScalingRecord: what the controller remembers of one object or cron target, as an object of its own.

The content stands in `status` as plain JSON, because Karmada's detector ignores changes of a status but not
of other fields. Only the controller writes it. Source: docs/reference/scaling-record.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from fedhpa.api.errors import InvalidObject

GROUP: Final = "fedhpa.io"
API_VERSION: Final = f"{GROUP}/v1alpha1"
KIND: Final = "ScalingRecord"
PLURAL: Final = "scalingrecords"
# The longest name of an object in Kubernetes.
MAX_NAME: Final = 253
_HASH_LENGTH: Final = 12
CRON_TARGET: Final = "cron-target"
# The label of the records that belong to no object, with what they are about.
RECORD_LABEL: Final = f"{GROUP}/record"
CRON_TARGETS: Final = f"{RECORD_LABEL}={CRON_TARGET}"


class KeptRecord(InvalidObject):
    """A record is not for this process, and must not be overwritten."""


class UnknownVersion(KeptRecord):
    """A record was written by another release."""


def check_version(content: Mapping[str, Any], known: int) -> None:
    """Raises UnknownVersion for the content of a newer release, and InvalidObject without a version."""
    version = content.get("version")
    if isinstance(version, int) and version > known:
        raise UnknownVersion(f"it has version {version}, and this release knows version {known}")
    if version != known or isinstance(version, bool):
        raise InvalidObject("it has no readable version")


def record_name(kind: str, name: str) -> str:
    """Returns the name of the record of an object; a name that is too long is cut with a hash."""
    return cut_name(f"{kind}.{name}")


def cut_name(whole: str) -> str:
    """Returns a name in lower case; one that is too long for Kubernetes is cut with a hash."""
    whole = whole.lower()
    if len(whole) <= MAX_NAME:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{whole[: MAX_NAME - _HASH_LENGTH - 1].rstrip('.-')}-{digest}"


def new_record(name: str, api_version: str, kind: str, owner: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a record without content; it goes with its owner, whose metadata is `owner`.

    The reference does not block the owner's deletion: else a foreground deletion would take the record before
    the controller has finished.
    """
    reference = {"apiVersion": api_version, "kind": kind, "name": owner["name"], "uid": owner.get("uid", "")}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": name,
            "namespace": owner["namespace"],
            "ownerReferences": [reference],
        },
    }


def new_target_record(namespace: str, group: str, kind: str, name: str) -> dict[str, Any]:
    """Returns a record without content for the open windows of a cron target. It has no owner."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": cut_name(f"{CRON_TARGET}.{group or 'core'}.{kind}.{name}"),
            "namespace": namespace,
            "labels": {RECORD_LABEL: CRON_TARGET},
        },
    }


def has_same_owner(record: Mapping[str, Any], empty: Mapping[str, Any]) -> bool:
    """True if a stored record has the owner that the record `empty` names, or if that names none."""
    wanted = [owner["uid"] for owner in empty["metadata"].get("ownerReferences", ())]
    owners = record["metadata"].get("ownerReferences")
    return not wanted or any(
        isinstance(owner, Mapping) and owner.get("uid") in wanted
        for owner in (owners if isinstance(owners, list) else ())
    )
