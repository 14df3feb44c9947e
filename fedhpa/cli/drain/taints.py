"""Writes our taints into a Cluster. A write names the version that it changes, so no other taint is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fedhpa.api.errors import ConfigError
from fedhpa.api.known_cluster import API_VERSION
from fedhpa.api.member_sources import CLUSTERS, MemberSources
from fedhpa.api.taints import NO_SCHEDULE, OWN_TAINTS
from fedhpa.api.times import format_time
from fedhpa.cli import member_notes
from fedhpa.cli.hub_client import DEADLINE_SECONDS, asking, find

if TYPE_CHECKING:
    from fedhpa.kube import ApiClient

Object = dict[str, Any]
# A change of a list of taints.
Change = Callable[[list[Any]], list[Any]]


def with_taint(key: str, now: float) -> Change:
    """Returns the change that adds our taint of this key, unless it is there."""

    def change(taints: list[Any]) -> list[Any]:
        if any(_is(taint, key) for taint in taints):
            return taints
        # API servers keep whole seconds of such a time.
        return [*taints, {"key": key, "effect": NO_SCHEDULE, "timeAdded": format_time(int(now))}]

    return change


def without_own(taints: list[Any]) -> list[Any]:
    """Returns the taints that are not ours."""
    return [taint for taint in taints if not (isinstance(taint, dict) and taint.get("key") in OWN_TAINTS)]


def taints_of(cluster: Object) -> list[Any]:
    """Returns the taints as stored. Another program may have written them."""
    spec = cluster.get("spec")
    taints = spec.get("taints") if isinstance(spec, dict) else None
    return taints if isinstance(taints, list) else []


def _is(taint: object, key: str) -> bool:
    return isinstance(taint, dict) and (taint.get("key"), taint.get("effect")) == (key, NO_SCHEDULE)


async def noted_in(hub: ApiClient, name: str, sources: MemberSources) -> str:
    """Returns the namespace of the ConfigMap with the taints of a member; "" for a Cluster's own.

    Raises ConfigError for a name that no source knows.
    """
    if not sources.has_foreign:
        return ""
    if CLUSTERS in sources.names and await find(hub, _path(name), f"Cluster {name}") is not None:
        return ""
    await member_notes.check_member(hub, sources.namespace, name)
    return sources.namespace


async def read_cluster(hub: ApiClient, name: str, noted: str = "") -> Object:
    """Returns a Cluster, or what `noted` has of a member that is none. Raises ConfigError with the remedy."""
    if noted:
        return {"spec": {"taints": await member_notes.read_taints(hub, noted, name)}}
    found = await find(hub, _path(name), f"Cluster {name}")
    if found is None:
        raise ConfigError(f"Cluster {name} not found: see the names with: kubectl get clusters")
    return found


async def change_taints(hub: ApiClient, name: str, change: Change, noted: str = "") -> Object | None:
    """Changes the taints of a Cluster; after a conflict again, on what is stored then.

    Those of a member that is none stand in the namespace `noted`. Returns the Cluster as it is then, None if
    nothing had to be written. Raises ConfigError with the remedy.
    """
    from fedhpa.kube import update_with_retry

    if noted:
        changed = await member_notes.change_taints(hub, noted, name, change)
        return None if changed is None else {"spec": {"taints": changed}}

    wanted: list[Any] | None = None

    def with_change(cluster: Object) -> Object | None:
        nonlocal wanted
        taints = taints_of(cluster)
        changed = change(taints)
        wanted = None if changed == taints else changed
        spec = {**(cluster.get("spec") or {}), "taints": wanted}
        return None if wanted is None else {**cluster, "spec": spec}

    with asking(f"cannot write Cluster {name}"):
        written = await update_with_retry(hub, _path(name), with_change, deadline=DEADLINE_SECONDS)
    if wanted is None:
        return None
    if len(taints_of(written)) != len(wanted):
        raise ConfigError(
            f"the hub drops spec.taints of Cluster {name}, because its CRD is of an earlier release: "
            "bring it up to date with: fedhpa crds --with-clusters | kubectl apply -f -"
        )
    return written


def _path(name: str) -> str:
    from fedhpa.kube import resource_path

    return resource_path(API_VERSION, "clusters", name=name)
