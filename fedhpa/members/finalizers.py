"""Writes the finalizers of a Cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedhpa.api.cluster_finalizers import own_finalizers
from fedhpa.api.known_cluster import API_VERSION
from fedhpa.kube import ApiClient, patch_finalizers, resource_path


def without_own(finalizers: Sequence[str]) -> list[str]:
    """Returns the finalizers that are not ours."""
    own = own_finalizers(finalizers)
    return [each for each in finalizers if each not in own]


async def change_finalizers(
    hub: ApiClient,
    metadata: Mapping[str, Any],
    change: Callable[[Sequence[str]], list[str]],
    *,
    manager: str,
    deadline: float,
) -> None:
    """Changes the finalizers of the Cluster that was read with these `metadata`.

    Raises Conflict after five tries, and ApiError if the hub refuses.
    """
    path = resource_path(API_VERSION, "clusters", name=metadata["name"])
    known = {"metadata": metadata}
    await patch_finalizers(hub, path, known, change, manager=manager, deadline=deadline)
