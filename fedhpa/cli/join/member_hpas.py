"""Removes the HPAs of mode Distributed from a member that leaves, with the access of its administrator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from fedhpa.api.errors import ApiError, ConfigError, Conflict
from fedhpa.api.member_hpas import API_VERSIONS, MANAGED_BY, MANAGER, OWNER, PLURAL, MemberHpa, Owner
from fedhpa.api.texts import listed
from fedhpa.cli.hub_client import DEADLINE_SECONDS, MEMBER, hub_error
from fedhpa.cli.join.registration import Side
from fedhpa.kube import NOT_FOUND, resource_path

Say = Callable[[str], None]
# Those that Karmada carries come back until their FederatedHPA is gone, so they are left to the controller.
SELECTOR: Final = f"{MANAGED_BY}={MANAGER},karmada.io/managed!=true"
REMAINING: Final = (
    "HorizontalPodAutoscalers of mode Distributed may remain there, too, and go on scaling. Remove them "
    f"with: kubectl --kubeconfig=FILE delete {PLURAL} --all-namespaces --selector={MANAGED_BY}={MANAGER}"
)
# An HPA controller writes the status of each HPA every 15 s, so a second conflict in a row is rare.
TRIES: Final = 3
CONCURRENT: Final = 16
# For all of them. A member that answers removes a thousand in seconds.
REMOVAL_SECONDS: Final = 120.0


async def remove_member_hpas(member: Side, hub_id: str, say: Say) -> None:
    """Removes the HPAs that this hub made. Workloads keep their replicas, and HPAs of other hubs stay.

    Raises ConfigError with the remedy if one could not be removed.
    """
    # An unknown hub owns none that names an owner.
    hub_id = hub_id or "-"
    version, found = await _listed(member)
    ours = [hpa for hpa in found if hpa.seen_by(hub_id).ours]
    slots = asyncio.Semaphore(CONCURRENT)
    try:
        async with asyncio.timeout(REMOVAL_SECONDS), asyncio.TaskGroup() as group:  # the tasks raise nothing
            tasks = [group.create_task(_remove(member, hpa, hub_id, version, slots)) for hpa in ours]
    except TimeoutError as error:
        raise ConfigError(
            f"{MEMBER}: its HorizontalPodAutoscalers were not removed within {REMOVAL_SECONDS:g} s: run the "
            "command again"
        ) from error
    results = [task.result() for task in tasks]
    if removed := results.count(True):
        say(f"Removed {removed} HorizontalPodAutoscalers of mode Distributed. Replicas stay as they are.")
    if left := [f"{hpa.metadata.namespace}/{hpa.metadata.name}" for hpa in found if hpa not in ours]:
        say(f"HorizontalPodAutoscalers of other hubs stay (annotation {OWNER}): {listed(left)}")
    for result in results:
        if isinstance(result, ConfigError):
            raise result


async def _listed(member: Side) -> tuple[str, Sequence[MemberHpa]]:
    """Returns the HPAs with our label, and their version. The client bounds bytes and time of the list."""
    for version in API_VERSIONS:
        try:
            path = resource_path(version, PLURAL)
            return version, (await member.api.list(path, MemberHpa, label_selector=SELECTOR)).items
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise hub_error(f"cannot list {PLURAL}", error, member.side) from error
    return API_VERSIONS[0], []


async def _remove(
    member: Side, hpa: MemberHpa, hub_id: str, version: str, slots: asyncio.Semaphore
) -> bool | ConfigError:
    """Removes an HPA. Returns False if it is gone or was handed over, and why it remains."""
    # The other commands need no controller, which takes long to import.
    from controller.apply.member_hpas import NotOwned, delete_hpa

    owner = Owner(hub_id, hpa.metadata.namespace, hpa.metadata.name, hpa.metadata.uid)
    async with slots:
        for attempt in range(1, TRIES + 1):
            try:
                return await delete_hpa(member.api, owner, version, deadline=DEADLINE_SECONDS)
            except NotOwned:
                return False
            except ApiError as error:
                if not isinstance(error, Conflict) or attempt == TRIES:
                    action = f"cannot delete {PLURAL} {owner.namespace}/{owner.name}"
                    return hub_error(action, error, member.side)
    return False
