"""The schemas of the built-in kinds, as a real API server publishes them, with short descriptions.

`python -m testbed.embedded.objects.definitions KUBECONFIG` writes definitions.json from a real API server.
"""

import asyncio
import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import load_config
from testbed.embedded.api.types import Object
from testbed.embedded.objects.kinds import BUILTIN, Kind

PREFIX: Final = "#/components/schemas/"
META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_FILE: Final = Path(__file__).with_name("definitions.json")
_REFERENCE: Final = re.compile(re.escape(PREFIX) + r'([^"]+)')
_GVK: Final = "x-kubernetes-group-version-kind"


@lru_cache(maxsize=1)
def definitions() -> dict[str, Object]:
    """Returns all definitions by name."""
    return msgspec.json.decode(_FILE.read_bytes(), type=dict[str, Object])


@lru_cache(maxsize=1)
def _names() -> dict[tuple[str, str, str], str]:
    return {
        (gvk["group"], gvk["version"], gvk["kind"]): name
        for name, schema in definitions().items()
        for gvk in schema.get(_GVK, ())
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


# -- writing definitions.json ---------------------------------------------------------------------------


async def fetch(kubeconfig: str) -> dict[str, Object]:
    """Returns the definitions of the built-in kinds from a real API server."""
    everything: dict[str, Object] = {}
    async with ApiClient(await load_config(kubeconfig)) as client:
        for version in sorted({kind.api_version for kind in BUILTIN} | {"autoscaling/v1"}):
            prefix = "apis" if "/" in version else "api"
            document = await client.get_json(f"/openapi/v3/{prefix}/{version}")
            everything |= document["components"]["schemas"]
    wanted = {(kind.group, kind.version, kind.kind) for kind in BUILTIN} | {("autoscaling", "v1", "Scale")}
    roots = {
        name
        for name, schema in everything.items()
        if any((gvk["group"], gvk["version"], gvk["kind"]) in wanted for gvk in schema.get(_GVK, ()))
    }
    return cast(dict[str, Object], _shortened(closure(roots, everything)))


def _shortened(schema: Any) -> Any:
    """Keeps the first sentence of each description."""
    if isinstance(schema, list):
        return [_shortened(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _shortened(value) for key, value in schema.items()}
    if isinstance(found.get("description"), str):
        found["description"] = re.split(r"(?<=\.)\s", found["description"])[0]
    return found


def _rendered(found: dict[str, Object]) -> str:
    """Formats the file with one definition a line."""
    lines = (
        f"{msgspec.json.encode(name).decode()}:{msgspec.json.encode(found[name], order='sorted').decode()}"
        for name in found
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    _FILE.write_text(_rendered(asyncio.run(fetch(sys.argv[1]))))
