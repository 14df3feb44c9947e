"""The schemas of the built-in kinds, as a real API server publishes them, with short descriptions.

`python -m tests.conformance.definitions KUBECONFIG` writes definitions.json from a real API server.
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from testbed.embedded.api.types import Object
from testbed.embedded.objects.kinds import BUILTIN, Kind

PREFIX: Final = "#/components/schemas/"
META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
FILE: Final = Path(__file__).with_name("definitions.json")
_REFERENCE: Final = re.compile(re.escape(PREFIX) + r'([^"]+)')
GVK: Final = "x-kubernetes-group-version-kind"


@lru_cache(maxsize=1)
def definitions() -> dict[str, Object]:
    """Returns all definitions by name."""
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, Object])


@lru_cache(maxsize=1)
def _names() -> dict[tuple[str, str, str], str]:
    return {
        (gvk["group"], gvk["version"], gvk["kind"]): name
        for name, schema in definitions().items()
        for gvk in schema.get(GVK, ())
    }


def name_of(kind: Kind) -> str:
    """Returns the name of a built-in kind's definition."""
    return _names()[kind.group, kind.version, kind.kind]


def schema_of(kind: Kind) -> Object:
    """Returns the schema of a built-in or custom kind."""
    return kind.schema if kind.schema is not None else definitions()[name_of(kind)]


def custom_schema(schema: Object | None) -> Object:
    """Returns a CRD's schema with apiVersion, kind and metadata."""
    found = schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    common = schema_of(BUILTIN[0])["properties"]
    every = {name: common[name] for name in ("apiVersion", "kind", "metadata")}
    return {**found, "properties": {**found.get("properties", {}), **every}}


# By the id of the referring schema. The schema is kept in the value, so its id stays in use.
_RESOLVED: dict[int, tuple[Object, Object]] = {}


def resolve(schema: Object) -> Object:
    """Returns the definition that a schema refers to, merged with the schema's own keywords.

    Results are cached because this runs for every field of every written object.
    """
    if "$ref" not in schema and "allOf" not in schema:
        return schema
    known = _RESOLVED.get(id(schema))
    if known is None:
        reference = (schema.get("allOf") or [schema])[0].get("$ref", "")
        if not reference:
            return schema
        name = reference.removeprefix(PREFIX)
        known = _RESOLVED[id(schema)] = (schema, {**definitions()[name], **schema})
    return known[1]


def closure(roots: set[str], among: dict[str, Object]) -> dict[str, Object]:
    """Returns the named definitions and all definitions that they refer to."""
    found: dict[str, Object] = {}
    missing = sorted(roots)
    while missing:
        name = missing.pop()
        if name not in found:
            found[name] = among[name]
            missing += _REFERENCE.findall(msgspec.json.encode(among[name]).decode())
    return dict(sorted(found.items()))
