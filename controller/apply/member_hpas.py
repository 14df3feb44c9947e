"""Writes HorizontalPodAutoscalers with the members' own clients (--propagation=direct).

Only an HPA of ours is changed or deleted. Each write names the object that was read, by its uid and
its resourceVersion, so that an HPA that somebody made meanwhile is never touched. Server-side apply would
take over an HPA of somebody else without a conflict where the values are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fedhpa.api.errors import FedHPAError, MemberUnavailable
from fedhpa.api.json import convert_json
from fedhpa.api.member_hpas import OWNER, PLURAL, MemberHpa, Owner, differing_fields, new_member_hpa
from fedhpa.kube import ApiClient, Key, delete_if_there, get_if_there, resource_path
from fedhpa.members import Member
from fedhpa.members.hpas import HpaCache

FIELD_MANAGER: Final = "fedhpa-distributed"
NOT_REGISTERED: Final = "no Cluster of this name is registered"


class NotOwned(FedHPAError):
    """The member has an HPA, or the hub a Work, of this name that is not ours."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what} is not ours and stays as it is: {remedy}")


def ours_of(hpa: MemberHpa) -> MemberHpa:
    """Returns an HPA that is ours. Raises NotOwned for another one."""
    if not hpa.ours:
        place = f"{hpa.metadata.namespace}/{hpa.metadata.name}"
        raise NotOwned(f"HorizontalPodAutoscaler {place}", hpa.remedy)
    return hpa


async def apply_hpa(
    client: ApiClient,
    owner: Owner,
    spec: Mapping[str, Any],
    api_version: str,
    *,
    deadline: float | None = None,
) -> tuple[str, ...]:
    """Creates this owner's HPA, or changes it to this spec.

    Returns the fields that differed: none if it was right, all for a new HPA. Raises NotOwned, Conflict if
    somebody wrote meanwhile, and ApiError. The deadline applies to each of two requests.
    """
    path = resource_path(api_version, PLURAL, owner.namespace, owner.name)
    found = await get_if_there(client, path, deadline=deadline)
    if found is None:
        created = new_member_hpa(owner, spec, api_version)
        await client.post(resource_path(api_version, PLURAL, owner.namespace), created, deadline=deadline)
        return tuple(sorted(spec))
    stored = ours_of(convert_json(found, MemberHpa).seen_by(owner.hub))
    fields = differing_fields(stored.spec, spec)
    if fields:
        annotations = {**(stored.metadata.annotations or {}), OWNER: str(owner)}
        changed = {**found, "metadata": {**found["metadata"], "annotations": annotations}, "spec": spec}
        await client.put(path, changed, manager=FIELD_MANAGER, deadline=deadline)
    return fields


async def delete_hpa(
    client: ApiClient, owner: Owner, api_version: str, *, deadline: float | None = None
) -> bool:
    """Deletes this owner's HPA. Returns False if it is gone. Raises NotOwned, Conflict and ApiError."""
    path = resource_path(api_version, PLURAL, owner.namespace, owner.name)
    found = await get_if_there(client, path, deadline=deadline)
    if found is None:
        return False
    metadata = ours_of(convert_json(found, MemberHpa).seen_by(owner.hub)).metadata
    only = {"uid": metadata.uid, "resourceVersion": metadata.resourceVersion}
    return await delete_if_there(client, path, only=only, deadline=deadline)


@dataclass(eq=False)
class MemberHpaWriter:
    """Writes the HPAs of FederatedHPAs into the members. `key` is namespace and name of both.

    `deadline` are the seconds of one request. All raise NotOwned, Conflict if somebody wrote meanwhile,
    MemberUnavailable and ApiError.
    """

    _members: Mapping[str, Member]
    _hpas: HpaCache
    _owner_of: Callable[[Key], Owner]
    _deadline: float

    async def apply(self, cluster: str, key: Key, spec: Mapping[str, Any], api_version: str) -> None:
        """Create the HPA or change it to this spec."""
        member = self._member(cluster)
        try:
            owner = self._owner_of(key)
            await apply_hpa(member.client, owner, spec, api_version, deadline=self._deadline)
        finally:
            # A write without an answer may have been made, too.
            self._hpas.note(member, *key)

    async def delete(self, cluster: str, key: Key) -> None:
        """Delete the HPA if it is there."""
        member = self._member(cluster)
        version = await self._hpas.version(member)
        try:
            await delete_hpa(member.client, self._owner_of(key), version, deadline=self._deadline)
        finally:
            self._hpas.note(member, *key)

    async def discard(self, key: Key) -> None:
        """Delete what the hub itself holds of the HPAs, if anything."""

    def _member(self, cluster: str) -> Member:
        member = self._members.get(cluster)
        if member is None:
            raise MemberUnavailable(cluster, NOT_REGISTERED)
        return member
