"""Reads the HPAs of one FederatedHPA in all candidate clusters at once, each within its deadline.

An error becomes the reason in the reading, never a missing HPA.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from fedhpa.api.errors import ApiError, MemberUnavailable
from fedhpa.api.member_hpas import PLURAL, V2, MemberHpa
from fedhpa.decision import Failure
from fedhpa.kube import Key, contain_each
from fedhpa.members import Member
from fedhpa.members.hpas import HpaCache

TASK: Final = "read-member-hpa"
RIGHT: Final = f"list and watch {PLURAL} of API group autoscaling"
FORBIDDEN: Final = 403


def forbidden_in_member(right: str, error: str) -> str:
    """Returns why a member does not answer that forbids to read the workload's scale."""
    return f"the controller may not {right} in this cluster (HTTP 403: {error})"


class HpaReading(NamedTuple):
    """The HPA of one cluster, None without one, or why it could not be read, and the version served there."""

    hpa: MemberHpa | Failure | None
    api_version: str = V2


def is_ours(reading: HpaReading) -> bool:
    """True if the cluster has an HPA that we created."""
    return isinstance(reading.hpa, MemberHpa) and reading.hpa.ours


async def read_hpas(
    cache: HpaCache, members: Mapping[str, Member], names: Iterable[str], key: Key
) -> dict[str, HpaReading]:
    """Read the HPA of this namespace and name in the named clusters that are registered."""
    found: dict[str, HpaReading] = {}
    missing, now = [], cache.clock()
    for name in names:
        member = members.get(name)
        if member is None:
            continue
        if not member.ready:
            found[name] = _unread(member.state.message or member.state.reason)
        elif member.client.breaker.reason or (known := cache.of_available(member, key, now)) is None:
            missing.append(name)
        else:
            found[name] = HpaReading(*known)

    async def read(name: str) -> HpaReading:
        try:
            return HpaReading(*await cache.read(members[name], *key))
        except MemberUnavailable as error:
            reason = error.reason
        except ApiError as error:
            reason = str(error)
            if error.status == FORBIDDEN:
                return _unread(forbidden_in_member(RIGHT, reason))
        # The watch keeps only the text of a refusal.
        return _unread(forbidden_in_member(RIGHT, reason) if "forbidden" in reason else reason)

    if missing:
        found |= await contain_each(TASK, missing, read, _unread, namespace=key[0], name=key[1])
    return found


def _unread(reason: str) -> HpaReading:
    return HpaReading(Failure(reason))
