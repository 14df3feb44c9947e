"""ScalingRecord: what the controller remembers of one object, as an object of its own beside it.

The content stands in `status` as plain JSON, because Karmada's detector ignores changes of a status but not
of other fields. Only the controller writes it. Source: docs/reference/scaling-record.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

GROUP: Final = "fedhpa.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "ScalingRecord"
PLURAL: Final = "scalingrecords"
# The longest name of an object in Kubernetes.
MAX_NAME: Final = 253
_HASH_LENGTH: Final = 12


def record_name(kind: str, name: str) -> str:
    """Returns the name of the record of an object; a name that is too long is cut with a hash."""
    whole = f"{kind}.{name}".lower()
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


def belongs_to(record: Mapping[str, Any], uid: str) -> bool:
    """True if the object with this uid owns the record."""
    owners = record["metadata"].get("ownerReferences")
    return any(
        isinstance(owner, Mapping) and owner.get("uid") == uid
        for owner in (owners if isinstance(owners, list) else ())
    )


def custom_resource_definition() -> dict[str, Any]:
    """Returns the CustomResourceDefinition (apiextensions.k8s.io/v1). The controller checks the content."""
    schema = {
        "description": "Memory of the controller for one object. Only the controller writes it.",
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"kind": KIND, "listKind": f"{KIND}List", "plural": PLURAL, "singular": KIND.lower()},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
                    ],
                }
            ],
        },
    }
