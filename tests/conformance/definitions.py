"""`python -m tests.conformance.definitions KUBECONFIG` records the schemas of the embedded plane's kinds."""

import asyncio
import re
import sys
from typing import Any, cast

import msgspec

from fedhpa.kube import SYSTEM
from fedhpa.kube.client import ApiClient
from fedhpa.kube.config import load_config
from testbed.embedded.api.types import Object
from testbed.embedded.objects.definitions import FILE, GVK, closure
from testbed.embedded.objects.kinds import BUILTIN


async def fetch(kubeconfig: str) -> dict[str, Object]:
    """Returns the definitions of the built-in kinds from a real API server."""
    everything: dict[str, Object] = {}
    async with ApiClient(await load_config(kubeconfig, clock=SYSTEM)) as client:
        for version in sorted({kind.api_version for kind in BUILTIN} | {"autoscaling/v1"}):
            prefix = "apis" if "/" in version else "api"
            document = await client.get_json(f"/openapi/v3/{prefix}/{version}")
            everything |= document["components"]["schemas"]
    wanted = {(kind.group, kind.version, kind.kind) for kind in BUILTIN} | {("autoscaling", "v1", "Scale")}
    roots = {
        name
        for name, schema in everything.items()
        if any((gvk["group"], gvk["version"], gvk["kind"]) in wanted for gvk in schema.get(GVK, ()))
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
    FILE.write_text(_rendered(asyncio.run(fetch(sys.argv[1]))))
