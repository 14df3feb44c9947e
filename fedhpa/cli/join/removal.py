"""Removes a member: its Cluster and credentials on the hub, then its account and rights in the member."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from fedhpa.api import membership
from fedhpa.api.cluster_finalizers import own_finalizers
from fedhpa.api.errors import ConfigError
from fedhpa.api.known_cluster import API_VERSION
from fedhpa.api.membership import SECRET_ANNOTATION, Address
from fedhpa.api.rights import Switches
from fedhpa.cli.hub_client import DEADLINE_SECONDS, HUB, MEMBER
from fedhpa.cli.join.member_hpas import REMAINING, remove_member_hpas
from fedhpa.cli.join.registration import (
    MANAGER,
    Side,
    is_of,
    opened,
    other_name,
    path_of,
)
from fedhpa.cli.options import Hub
from fedhpa.kube import ApiConfig, get_if_there, resource_path
from fedhpa.members import change_finalizers, leading_controller, without_own

Say = Callable[[str], None]
Monotonic = Callable[[], float]

# Between two looks at a Cluster, and at the Leases while it waits.
LOOK_SECONDS: Final = 2.0
LEASES_SECONDS: Final = 60.0
# A controller with nothing to move needs a moment, which is not worth a line.
TELL_SECONDS: Final = 10.0


async def until_released(hub: Side, name: str, say: Say, monotonic: Monotonic) -> None:
    """Waits until the finalizers of ours have left a deleted Cluster.

    A controller that holds a Lease removes them once the replicas run in other clusters, and after an hour at
    most. Where none does, they are removed at once. Raises ConfigError.
    """
    uid, led_until, tell_at = "", float("-inf"), monotonic() + TELL_SECONDS
    while (found := await _deleted(hub, name)) is not None and uid in ("", found["uid"]):
        if not own_finalizers(found.get("finalizers")):
            others = ", ".join(found.get("finalizers") or ())
            say(f"Cluster {name} is deleted, but stays until others remove its finalizers: {others}")
            return
        if monotonic() >= led_until:
            if not await _leader(hub, monotonic):
                await _release(hub, found)
                say(f"No controller runs, so the replicas in {name} stay as they are.")
                continue
            led_until = monotonic() + LEASES_SECONDS
        if monotonic() >= tell_at:
            say(
                f"Cluster {name} stays until the controller has moved its replicas to other "
                f"clusters, for an hour at most. See: kubectl describe cluster {name}"
            )
            tell_at = float("inf")
        uid = found["uid"]
        await asyncio.sleep(LOOK_SECONDS)


async def release_all(hub: Side, namespace: str, timeout: float, say: Say, monotonic: Monotonic) -> None:
    """Removes our finalizers from all Clusters, once nobody holds a Lease in the namespace, "" for all.

    Raises ConfigError if one still does after `timeout` seconds.
    """
    ends = monotonic() + timeout
    while holder := await _leader(hub, monotonic, namespace):
        if monotonic() >= ends:
            raise ConfigError(f"{holder} still holds a Lease: stop the controller, and run the command again")
        await asyncio.sleep(LOOK_SECONDS)
    with hub.asking("cannot list Clusters"):
        listed = await hub.api.get_json(resource_path(API_VERSION, "clusters"), deadline=DEADLINE_SECONDS)
    held = [
        one["metadata"]
        for one in listed.get("items") or ()
        if own_finalizers(one["metadata"].get("finalizers"))
    ]
    for metadata in held:
        await _release(hub, metadata)
    say(f"{len(held)} Clusters had finalizers of the controller, which are removed.")


async def _deleted(hub: Side, name: str) -> dict[str, Any] | None:
    """Returns the metadata of a Cluster that is being deleted; None if it is gone."""
    found = await hub.find(resource_path(API_VERSION, "clusters", name=name), f"Cluster {name}")
    metadata = (found or {}).get("metadata") or {}
    return metadata if metadata.get("deletionTimestamp") else None


async def _leader(hub: Side, monotonic: Monotonic, namespace: str = "") -> str:
    with hub.asking("cannot list Leases"):
        return await leading_controller(hub.api, namespace, monotonic, deadline=DEADLINE_SECONDS)


async def _release(hub: Side, metadata: Mapping[str, Any]) -> None:
    with hub.asking(f"cannot write Cluster {metadata['name']}"):
        await change_finalizers(hub.api, metadata, without_own, manager=MANAGER, deadline=DEADLINE_SECONDS)


async def remove(
    name: str,
    namespace: str,
    hub: Hub,
    member: Hub | None,
    say: Say,
    empty: Callable[[], Awaitable[None]],
    *,
    monotonic: Callable[[], float],
    hub_id: str = "",
    force: bool = False,
) -> None:
    """Removes a member. Objects that do not exist are no error. Raises ConfigError with the remedy.

    Without `member` it says by which command the member's part is removed. `empty` is called before the first
    removal, once the arguments are known to be right, and may raise to prevent it. `hub_id` is the identity
    of the hub in its member HPAs, if it is not the UID of its namespace kube-system. With `force` the
    member's part is also removed from a member that the hub does not know.
    """
    async with opened(HUB, hub) as (side, _):
        stored = await _stored_cluster(side, name)
        if member is not None:
            async with opened(MEMBER, member) as (there, config):
                await _check_same(name, stored, there, config, side)
                if stored is None and not force:
                    raise ConfigError(
                        f"NAME={name}: the hub has no Cluster of that name: correct NAME, or add --force to "
                        f"remove the account and the rights from {config.server} all the same"
                    )
                await empty()
                await _remove_from_hub(side, name, namespace, stored, say, monotonic)
                # The controller has forgotten the member, so it does not create them again.
                await remove_member_hpas(there, hub_id or await side.uid(), say)
                await _remove_from_member(there, name, namespace, say)
            return
        await empty()
        is_known = await _remove_from_hub(side, name, namespace, stored, say, monotonic)
    if not is_known:
        say("See the names of the members with: kubectl get clusters")
    say(
        f"The account and the rights in the member {'' if is_known else 'may '}remain. "
        f"Remove them with: fedhpa unjoin {name} "
        f"--namespace={namespace} --cluster-kubeconfig=FILE"
    )
    say(REMAINING)


async def _stored_cluster(hub: Side, name: str) -> dict[str, Any] | None:
    path = resource_path(API_VERSION, "clusters", name=name)
    with hub.asking(f"cannot read Cluster {name}"):
        # None, too, if the hub serves no Clusters any more.
        return await get_if_there(hub.api, path, deadline=DEADLINE_SECONDS)


async def _check_same(
    name: str, stored: dict[str, Any] | None, member: Side, config: ApiConfig, hub: Side
) -> None:
    """Raises ConfigError if the kubeconfig is of another cluster, or of one with another name, too."""
    uid = await member.uid()
    if uid and uid == await hub.uid():
        raise ConfigError(
            f"the hub and the member are the same cluster ({config.server}): correct --cluster-kubeconfig or "
            "--cluster-context"
        )
    spec = (stored or {}).get("spec") or {}
    registered = spec.get("id")
    if registered and uid and registered != uid:
        raise ConfigError(
            f"--cluster-kubeconfig: {config.server} is another cluster than the one that is registered as "
            f"{name} ({str(spec.get('apiEndpoint'))[:300]}): correct it, or --cluster-context"
        )
    other = await other_name(hub, name, uid, config.server.rstrip("/"))
    if other and stored is None:
        raise ConfigError(
            f"NAME={name}: the hub has no Cluster of that name, and the cluster of --cluster-kubeconfig "
            f"({config.server}) is registered as {other}: correct NAME or --cluster-kubeconfig"
        )
    if other:
        raise ConfigError(
            f"--cluster-kubeconfig: {config.server} is registered as {other}, too, which needs the account "
            f"there: leave --cluster-kubeconfig out to remove only the name {name}"
        )


async def _remove_from_hub(
    hub: Side,
    name: str,
    namespace: str,
    stored: dict[str, Any] | None,
    say: Say,
    monotonic: Callable[[], float],
) -> bool:
    """Removes what join made on the hub. Returns False if there was nothing."""
    address = Address("https://unused")
    cluster = membership.cluster(name, namespace, address)
    removed = []
    if stored is not None and is_of(stored, name):
        removed.append(await hub.delete(cluster))
        await until_released(hub, name, say, monotonic)
    elif stored is not None:
        removed.append(await _forget_secret(hub, cluster, stored))
        if not removed[-1]:
            say(
                f"Cluster {name} was not registered by fedhpa join, so it stays: "
                f"kubectl delete cluster {name}"
            )
    for account in membership.ACCOUNTS:
        secret = membership.credentials(name, namespace, address, account=account)
        found = await hub.find(path_of(secret), f"Secret {secret['metadata']['name']}")
        if found is not None and is_of(found, name):
            removed.append(await hub.delete(secret))
    for manifest in reversed(membership.secret_rights(name, namespace)):
        removed.append(await hub.delete(manifest))
    if any(removed):
        say(f"The hub has forgotten {name}.")
    else:
        say(f"The hub has nothing of {name} in namespace {namespace}.")
    return any(removed)


async def _forget_secret(hub: Side, cluster: dict[str, Any], stored: dict[str, Any]) -> bool:
    """Removes our annotation from a Cluster of another owner. Returns False if it has none."""
    annotations = (stored.get("metadata") or {}).get("annotations") or {}
    if SECRET_ANNOTATION not in annotations:
        return False
    patch = {"metadata": {"annotations": {SECRET_ANNOTATION: None}}}
    with hub.asking("cannot write the Cluster"):
        await hub.api.patch(path_of(cluster), patch, manager=MANAGER, deadline=DEADLINE_SECONDS)
    return True


async def _remove_from_member(member: Side, name: str, namespace: str, say: Say) -> None:
    everything = [*membership.lasting_tokens(namespace), *_without_namespace(namespace)]
    removed = [await member.delete(manifest) for manifest in reversed(everything)]
    if any(removed):
        say(f"{name} has forgotten the hub. Its namespace {namespace} stays.")
    else:
        say(f"{name} has nothing of the hub in namespace {namespace}.")


def _without_namespace(namespace: str) -> list[dict[str, Any]]:
    return [
        one for one in membership.member_part(namespace, Switches("direct")) if one["kind"] != "Namespace"
    ]
