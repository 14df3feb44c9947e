"""Removes a member: its Cluster and credentials on the hub, then its account and rights in the member."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fedhpa.api import membership
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
from fedhpa.cli.join.release import until_released
from fedhpa.cli.options import Hub
from fedhpa.kube import ApiConfig, get_if_there, resource_path

Say = Callable[[str], None]


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
