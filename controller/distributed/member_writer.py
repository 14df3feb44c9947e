"""Writes member HPAs with the members' own credentials (--propagation=direct)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from controller.distributed.hpa_writes import apply_hpa, delete_hpa
from fedhpa.api.errors import MemberUnavailable
from fedhpa.api.member_hpas import Owner
from fedhpa.kube import Key
from fedhpa.members import HpaCache, Member

NOT_REGISTERED: Final = "no Cluster of this name is registered"


class MemberHpaWriter:
    """An HpaWriter by the clients of the members. `deadline` are the seconds of one request."""

    def __init__(
        self,
        members: Mapping[str, Member],
        hpas: HpaCache,
        owner_of: Callable[[Key], Owner],
        deadline: float,
    ) -> None:
        self._members = members
        self._hpas = hpas
        self._owner_of = owner_of
        self._deadline = deadline

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
