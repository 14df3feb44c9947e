"""The schemas of the built-in kinds, as a real API server publishes them, with short descriptions.

`definitions.json` is made from one: `python -m testbed.embedded.objects.definitions KUBECONFIG`.
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
_REFERENCE = re.compile(re.escape(PREFIX) + r'([^"]+)')
_GVK: Final = "x-kubernetes-group-version-kind"


@lru_cache(maxsize=1)
def definitions() -> dict[str, Object]:
    """All of them, by name."""
    return msgspec.json.decode(_FILE.read_bytes(), type=dict[str, Object])


@lru_cache(maxsize=1)
def _names() -> dict[tuple[str, str, str], str]:
    return {
        (gvk["group"], gvk["version"], gvk["kind"]): name
        for name, schema in definitions().items()
        for gvk in schema.get(_GVK, ())
    }


def name_of(kind: Kind) -> str:
    """The name of a built-in kind's definition."""
    return _names()[kind.group, kind.version, kind.kind]


def schema_of(kind: Kind) -> Object:
    """The schema of any kind."""
    return kind.schema if kind.schema is not None else definitions()[name_of(kind)]


def custom_schema(schema: Object | None) -> Object:
    """A CRD's schema with what every object has."""
    found = schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    common = schema_of(BUILTIN[0])["properties"]
    own = found.get("properties", {})
    every = {name: common[name] for name in ("apiVersion", "kind", "metadata")}
    return {**found, "properties": {**own, **every}}


def reference(schema: Object) -> str:
    """The name of the definition that a schema refers to, or ""."""
    found: str = (schema.get("allOf") or [schema])[0].get("$ref", "")
    return found.removeprefix(PREFIX)


# By the identity of the schema that refers; it is kept beside, so that no other ever has the same.
_RESOLVED: dict[int, tuple[Object, Object]] = {}


def resolve(schema: Object) -> Object:
    """The schema itself where it only refers to one; what it adds to it stays.

    Asked for every field of every object that is written, so no answer is made twice.
    """
    if "$ref" not in schema and "allOf" not in schema:
        return schema
    known = _RESOLVED.get(id(schema))
    if known is None:
        name = reference(schema)
        if not name:
            return schema
        known = _RESOLVED[id(schema)] = (schema, {**definitions()[name], **schema})
    return known[1]


def closure(roots: set[str], among: dict[str, Object]) -> dict[str, Object]:
    """The definitions of these names, and of all that they refer to."""
    found: dict[str, Object] = {}
    missing = sorted(roots)
    while missing:
        name = missing.pop()
        if name not in found:
            found[name] = among[name]
            missing += _REFERENCE.findall(msgspec.json.encode(among[name]).decode())
    return dict(sorted(found.items()))


def _short(schema: Any) -> Any:
    """With the first sentence of each description."""
    if isinstance(schema, list):
        return [_short(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: re.split(r"(?<=\.)\s", value)[0]
        if key == "description" and isinstance(value, str)
        else _short(value)
        for key, value in schema.items()
    }


async def fetch(kubeconfig: str) -> dict[str, Object]:
    """The definitions of the built-in kinds from a real API server."""
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
    return cast(dict[str, Object], _short(closure(roots, everything)))


def render(found: dict[str, Object]) -> str:
    """The file: a definition a line."""
    lines = (
        f"{msgspec.json.encode(name).decode()}:{msgspec.json.encode(found[name], order='sorted').decode()}"
        for name in found
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    _FILE.write_text(render(asyncio.run(fetch(sys.argv[1]))))
