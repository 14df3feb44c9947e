"""Placements for Argo CD's clusterDecisionResource generator (--publish-to=argocd).

They are in Argo CD's namespace, where the generator looks. An owner reference cannot cross namespaces, so an
annotation names the owner, and `collect` deletes what nobody publishes any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import structlog

from controller.apply.kept import HUB_SECONDS, KeptObjects, Stored
from controller.publish import FEDERATED_HPAS
from fedhpa.api.errors import ApiError
from fedhpa.api.member_sources import ARGOCD_NAME
from fedhpa.api.placements import (
    API_VERSION,
    KIND,
    PLURAL,
    Owner,
    new_placement,
    owner_of,
    placement_name,
)
from fedhpa.decision import Finding, PublishedCluster
from fedhpa.kube import ApiClient, Key, Resource, contain, get_if_there
from fedhpa.members import Member

PLACEMENTS: Final = Resource(API_VERSION, KIND, PLURAL, namespaced=True, scale=False)

log = structlog.get_logger(__name__)


class Decisions(NamedTuple):
    """The clusters with the reasons, and the object that publishes them."""

    clusters: tuple[tuple[str, str], ...]
    owner: Owner


class ArgoPlacements(KeptObjects[Decisions]):
    """Keeps the Placements in Argo CD's `namespace`."""

    def __init__(self, hub: ApiClient, namespace: str, clock: Callable[[], float]) -> None:
        super().__init__(hub, PLACEMENTS, _stored, namespace=namespace, clock=clock)
        self.namespace = namespace

    async def publish(
        self, metadata: Mapping[str, Any], clusters: Iterable[PublishedCluster], members: Mapping[str, Member]
    ) -> tuple[Finding, ...]:
        """Makes the Placement of the object with this `metadata` equal to `clusters`. Returns problems.

        Raises Conflict and ApiError.
        """
        if problem := self.problem:
            return (Finding("PlacementsUnreadable", _unreadable(self.namespace, problem)),)
        name = placement_name(metadata["namespace"], metadata["name"])
        named = [(argocd_name(one.cluster, members), one.reason) for one in clusters]
        wanted = [new_placement(self.namespace, metadata, named)] if named else []
        former = [] if named else [name]
        owner = f"{metadata['namespace']}/{metadata['name']}"
        return await self.apply(self.namespace, owner, wanted, former)

    async def collect(
        self, objects: Mapping[Key, Mapping[str, Any]], belongs_to_others: Callable[[Key], bool]
    ) -> None:
        """Deletes the Placements of objects that are gone or publish nothing any more."""
        if self.problem:
            return
        for name, found in tuple(self.of(self.namespace).items()):
            key = found.content.owner.key
            if found.owner and not belongs_to_others(key) and not _publishes(objects.get(key)):
                remove = partial(self._collect, name, found)
                await contain("placements", remove, lambda _: None, name=name)

    async def _collect(self, name: str, found: Stored[Decisions]) -> None:
        """Deletes a Placement whose object does not publish, as the hub itself says."""
        try:
            path = FEDERATED_HPAS.path(*found.content.owner.key)
            raw = await get_if_there(self._hub, path, deadline=HUB_SECONDS)
        except ApiError as error:
            log.debug("owner of a placement not read", name=name, error=str(error))
            return
        if _publishes(raw):
            return  # the watch will show it
        try:
            await self.remove(self.namespace, name, found)
        except ApiError as error:
            log.warning("placement not removed", name=name, error=str(error))


def argocd_name(cluster: str, members: Mapping[str, Member]) -> str:
    """Returns the name of a member in Argo CD."""
    member = members.get(cluster)
    annotations = None if member is None else member.cluster.metadata.annotations
    return (annotations or {}).get(ARGOCD_NAME, "") or cluster


def _publishes(raw: Mapping[str, Any] | None) -> bool:
    """True if the object exists, and publishes its clusters."""
    placement = ((raw or {}).get("spec") or {}).get("placement")
    return isinstance(placement, Mapping) and placement.get("publish") is True


def _stored(raw: dict[str, Any]) -> Stored[Decisions]:
    metadata = raw["metadata"]
    status = raw.get("status")
    listed = status.get("decisions") if isinstance(status, Mapping) else None
    decisions = tuple(
        (str(one.get("clusterName")), str(one.get("reason"))) if isinstance(one, Mapping) else ("", "")
        for one in (listed if isinstance(listed, list) else ())
    )
    owner = owner_of(raw)
    return Stored(
        # An object that was made anew under the same name takes it over.
        owner="/".join(owner.key) if owner.uid else "",
        content=Decisions(decisions, owner),
        uid=str(metadata.get("uid", "")),
        version=str(metadata.get("resourceVersion", "")),
    )


def _unreadable(namespace: str, problem: str) -> str:
    remedy = "apply `fedhpa crds`, and give the controller the rights of `fedhpa rbac controller`"
    return f"Placements in {namespace} cannot be read: {problem}; {remedy} --argocd-namespace={namespace}"
