"""Says where a workload was looked for in vain, where it is instead, and which flag or right is missing.

A controller with --propagation=direct looks in the member clusters, one with karmada on the hub. The message
then says if the workload is on the other side: often the flag is wrong, and not the workload.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from fedhpa.api.texts import listed

# People read the condition, and there may be a thousand clusters.
_MAX_NAMED: Final = 8
_MAX_REASON: Final = 256


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """Where a workload was looked for on the other side.

    `found` and `absent` name the places that have it and that answered 404. `unknown` maps places without a
    usable answer to the reason. A place is a cluster, or the hub.
    """

    found: Sequence[str] = ()
    absent: Sequence[str] = ()
    unknown: Mapping[str, str] = {}


def missing_in_members(workload: str, clusters: Sequence[str], hub: Search) -> str:
    """Returns the message for a workload (`KIND NAMESPACE/NAME`) that none of the `clusters` has."""
    head = f"{workload}: 404 in {_names(clusters)}"
    if hub.found:
        return f"{head}; it exists on the hub: is --propagation=karmada meant?"
    if hub.absent:
        return f"{head}, and on the hub: create it in the clusters"
    return f"{head}: create it in the clusters{_unknown(hub)}"


def awaited_in(workload: str, clusters: Sequence[str]) -> str:
    """Returns the message for a published workload that none of the `clusters` has yet."""
    return f"{workload} runs in no cluster yet, and is awaited in {_names(clusters)}"


def missing_on_hub(workload: str, error: str, members: Search) -> str:
    """Returns the message for a workload that the hub does not have; `error` is the hub's answer."""
    head = f"{workload}: 404 on the hub"
    if members.found:
        return f"{head}; {_elsewhere(members)} ({error})"
    also = f", and in {_names(members.absent)}" if members.absent else ""
    return f"{head}{also}: create it on the hub ({error}){_unknown(members)}"


def forbidden_on_hub(workload: str, right: str, error: str, members: Search) -> str:
    """Returns the message for a workload that the controller may not read on the hub.

    `right` is the missing right, like `get deployments/scale`, and `error` the hub's answer.
    """
    elsewhere = f"; {_elsewhere(members)}" if members.found else ""
    return f"{workload}: the controller may not {right} on the hub{elsewhere} (HTTP 403: {error})"


def forbidden_in_member(right: str, error: str) -> str:
    """Returns why a member does not answer that forbids to read the workload's scale."""
    return f"the controller may not {right} in this cluster (HTTP 403: {error})"


def no_candidates(registered: int) -> str:
    """Returns the message for an object without any cluster; `registered` Clusters exist on the hub."""
    if not registered:
        return "no Cluster is registered on the hub: register the member clusters"
    return f"spec.clusterAffinity selects none of the {registered} registered clusters"


def _elsewhere(members: Search) -> str:
    return f"it exists in {_names(members.found)}: is --propagation=direct meant?"


def _unknown(search: Search) -> str:
    unasked = [
        f"{place} cannot be asked: {reason[:_MAX_REASON]}"
        for place, reason in list(search.unknown.items())[:_MAX_NAMED]
    ]
    return "".join(f"; {one}" for one in unasked)


def _names(clusters: Sequence[str]) -> str:
    return listed(clusters, _MAX_NAMED, "more clusters")
