"""Writes HorizontalPodAutoscalers with the members' own clients (--propagation=direct).

Only an HPA of ours is changed or deleted. Each write names the object that was read, by its uid and
its resourceVersion, so that an HPA that somebody made meanwhile is never touched. Server-side apply would
take over an HPA of somebody else without a conflict where the values are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fedhpa.api.errors import ApiError, FedHPAError, MemberUnavailable
from fedhpa.api.json import convert_json
from fedhpa.api.member_hpas import OWNER, PLURAL, MemberHpa, Owner, differing_fields, new_member_hpa
from fedhpa.api.wire import ObjectMeta
from fedhpa.kube import NOT_FOUND, ApiClient, Key, resource_path
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
    found = await read_if_there(client, path, deadline)
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
    found = await read_if_there(client, path, deadline)
    if found is None:
        return False
    stored = ours_of(convert_json(found, MemberHpa).seen_by(owner.hub))
    return await delete_read(client, path, stored.metadata, deadline)


async def delete_read(client: ApiClient, path: str, metadata: ObjectMeta, deadline: float | None) -> bool:
    """Deletes the object that was read, and no newer one. Returns False if it is gone. Raises ApiError."""
    only = {"uid": metadata.uid, "resourceVersion": metadata.resourceVersion}
    try:
        await client.delete(path, only=only, deadline=deadline)
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise
        return False
    return True


async def read_if_there(client: ApiClient, path: str, deadline: float | None) -> dict[str, Any] | None:
    """Returns an object as decoded JSON; None if there is none. Raises ApiError."""
    try:
        return await client.get_json(path, deadline=deadline)
    except ApiError as error:
        if error.status == NOT_FOUND:
            return None
        raise


@dataclass(eq=False)
class MemberHpaWriter:
    """An HpaWriter by the clients of the members. `deadline` are the seconds of one request."""

    _members: Mapping[str, Member]
    _hpas: HpaCache
    _owner_of: Callable[[Key], Owner]
    _deadline: float

    async def apply(
        self, cluster: str, key: Key, spec: Mapping[str, Any], api_version: str
    ) -> tuple[str, ...]:
        """Create the HPA or change it to this spec, as `HpaWriter.apply`."""
        member = self._member(cluster)
        try:
            owner = self._owner_of(key)
            return await apply_hpa(member.client, owner, spec, api_version, deadline=self._deadline)
        finally:
            # A write without an answer may have been made, too.
            self._hpas.note(member, *key)

    async def delete(self, cluster: str, key: Key) -> bool:
        """Delete the HPA, as `HpaWriter.delete`."""
        member = self._member(cluster)
        version = await self._hpas.version(member)
        try:
            return await delete_hpa(member.client, self._owner_of(key), version, deadline=self._deadline)
        finally:
            self._hpas.note(member, *key)

    def _member(self, cluster: str) -> Member:
        member = self._members.get(cluster)
        if member is None:
            raise MemberUnavailable(cluster, NOT_REGISTERED)
        return member
