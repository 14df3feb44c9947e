"""The CustomResourceDefinitions of our own API group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

GROUP: Final = "fedhpa.io"
VERSION: Final = "v1alpha1"
_AGE: Final = {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def own_definition(
    kind: str,
    plural: str,
    description: str,
    fields: Mapping[str, Any],
    columns: Sequence[Mapping[str, Any]] = (),
    *,
    has_status: bool = False,
) -> dict[str, Any]:
    """Returns the CustomResourceDefinition (apiextensions.k8s.io/v1) of a namespaced kind.

    `fields` are schemas by name. `columns` come before AGE. With `has_status` the status is a sub-resource;
    else an object must have all `fields`, because it comes with them.
    """
    properties = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    schema: dict[str, Any] = {"description": description, "type": "object"}
    if not has_status:
        schema["required"] = list(fields)
    version: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {**schema, "properties": {**properties, **fields}}},
    }
    if has_status:
        version["subresources"] = {"status": {}}
    version["additionalPrinterColumns"] = [*columns, _AGE]
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]},
    }
