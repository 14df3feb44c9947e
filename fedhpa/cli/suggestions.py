"""Suggestions for the shell's completion: contexts, and the namespaces, objects and Clusters of a hub.

Nothing is printed and nothing raised: a hub that does not answer at once has no suggestions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

import typer

from fedhpa.api.free_json import entries, text_at
from fedhpa.cli.hub_client import API_VERSION, SHORT, hub_client, kind_of

# A person waits for each Tab.
SECONDS: Final = 2.0
MAX_NAMES: Final = 500
# The path of a list, from the namespace.
Path = Callable[[str], str]
CLUSTERS: Final = "/apis/cluster.karmada.io/v1alpha1/clusters"


def contexts(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the contexts of the kubeconfig."""
    from fedhpa.kube.config import known_contexts

    return _beginning(known_contexts(ctx.params.get("kubeconfig"))[1], incomplete)


def namespaces(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the namespaces of the hub."""
    return _beginning(_names(ctx, lambda _: "/api/v1/namespaces"), incomplete)


def clusters(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the names of the Clusters."""
    return _beginning(_names(ctx, lambda _: CLUSTERS), incomplete)


def objects(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns our objects in the namespace, as KIND/NAME."""
    kinds = [kind_of(incomplete.partition("/")[0])] if "/" in incomplete else list(SHORT)
    found = [f"{SHORT[kind]}/{name}" for kind in filter(None, kinds) for name in _names(ctx, _path(kind))]
    return _beginning(found, incomplete)


def names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the names of the objects whose kind is the argument before."""
    kind = kind_of(str(ctx.params.get("target") or ""))
    return _beginning(_names(ctx, _path(kind)), incomplete) if kind else []


def _path(kind: str) -> Path:
    return lambda namespace: f"/apis/{API_VERSION}/namespaces/{namespace}/{kind.lower()}s"


def _beginning(found: Iterable[str], incomplete: str) -> list[str]:
    return sorted(each for each in found if each.startswith(incomplete))


def _names(ctx: typer.Context, path: Path) -> list[str]:
    async def read() -> list[str]:
        options = (ctx.params.get("kubeconfig") or "", ctx.params.get("context") or "")
        async with asyncio.timeout(SECONDS), hub_client(*options) as (hub, default):
            place = path(ctx.params.get("namespace") or default)
            found = await hub.request("GET", place, params={"limit": str(MAX_NAMES)}, deadline=SECONDS)
            return [text_at(each, "metadata", "name") for each in entries(found.json(), "items")]

    with suppress(Exception):
        return asyncio.run(read())
    return []
