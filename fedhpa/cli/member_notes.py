"""Reads and writes what the hub notes about members that are no Clusters, one key a member.

A write names the version that it changes, and only its own key, so the right to patch the two ConfigMaps
suffices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from fedhpa.api.errors import ConfigError, Conflict, InvalidObject
from fedhpa.api.json import decode_json
from fedhpa.api.member_sources import SERVERS_MAP, TAINTS_MAP, AcceptedServer
from fedhpa.api.texts import listed
from fedhpa.cli.hub_client import DEADLINE_SECONDS, asking, find

if TYPE_CHECKING:
    from fedhpa.kube import ApiClient

TRIES: Final = 5
MAX_NAMED: Final = 10
Data = dict[str, str]
# A change of the text of a key; None removes the key.
Change = Callable[[str | None], str | None]


async def known_members(hub: ApiClient, namespace: str) -> list[str]:
    """Returns the names of the members that have answered at some time. Raises ConfigError."""
    return sorted((await _read(hub, namespace, SERVERS_MAP))[1])


async def check_member(hub: ApiClient, namespace: str, name: str) -> None:
    """Raises ConfigError with the known names unless a member of this name has answered at some time."""
    known = await known_members(hub, namespace)
    if name not in known:
        others = listed(known, MAX_NAMED) or "none"
        raise ConfigError(f"{name} is no member that is known; known are: {others}")


async def read_taints(hub: ApiClient, namespace: str, name: str) -> list[Any]:
    """Returns the taints of a member as stored. Raises ConfigError."""
    return _taints((await _read(hub, namespace, TAINTS_MAP))[1].get(name))


async def change_taints(
    hub: ApiClient, namespace: str, name: str, change: Callable[[list[Any]], list[Any]]
) -> list[Any] | None:
    """Changes the taints of a member. Returns them; None if nothing had to be written. Raises ConfigError."""

    def changed(text: str | None) -> str | None:
        taints = change(_taints(text))
        return msgspec.json.encode(taints).decode() if taints else None

    before, after = await _change(hub, namespace, TAINTS_MAP, name, changed)
    return None if before == after else _taints(after)


async def accept_server(hub: ApiClient, namespace: str, name: str) -> AcceptedServer | None:
    """Accepts the server that waits, and returns it; None if none waits. Raises ConfigError."""

    def accepted(text: str | None) -> str | None:
        entry = _entry(namespace, name, text)
        if entry is None or entry.changed is None:
            return text
        return msgspec.json.encode(entry.changed).decode()

    before, after = await _change(hub, namespace, SERVERS_MAP, name, accepted)
    return None if before == after else _entry(namespace, name, after)


def _entry(namespace: str, name: str, text: str | None) -> AcceptedServer | None:
    try:
        return None if text is None else decode_json(text, AcceptedServer)
    except InvalidObject as error:
        where = f"ConfigMap {namespace}/{SERVERS_MAP}: {name}"
        raise ConfigError(
            f"{where}: {error}: remove the key, and the controller notes the server anew"
        ) from error


def _taints(text: str | None) -> list[Any]:
    try:
        found = [] if text is None else decode_json(text, list[Any])
    except InvalidObject:
        # The processes count it as a cordon, so any change mends it.
        return []
    return [one for one in found if isinstance(one, dict)]


async def _change(
    hub: ApiClient, namespace: str, config_map: str, key: str, change: Change
) -> tuple[str | None, str | None]:
    """Returns the text of the key before and after the change. A merge patch writes nothing else."""
    from fedhpa.kube import resource_path

    path = resource_path("v1", "configmaps", namespace, config_map)
    for attempt in range(TRIES):
        version, data = await _read(hub, namespace, config_map)
        before = data.get(key)
        after = change(before)
        if after == before:
            return before, after
        body = {"metadata": {"resourceVersion": version}, "data": {key: after}}
        with asking(f"cannot write ConfigMap {namespace}/{config_map}"):
            try:
                await hub.patch(path, body, manager="fedhpa", deadline=DEADLINE_SECONDS)
                return before, after
            except Conflict:
                if attempt == TRIES - 1:
                    raise
    raise AssertionError("the last try returns or raises")


async def _read(hub: ApiClient, namespace: str, config_map: str) -> tuple[str, Data]:
    from fedhpa.kube import resource_path

    path = resource_path("v1", "configmaps", namespace, config_map)
    found = await find(hub, path, f"ConfigMap {namespace}/{config_map}")
    if found is None:
        raise ConfigError(
            f"ConfigMap {namespace}/{config_map} not found: name the controller's --members-namespace, "
            "or create it with: fedhpa rbac hub --members-from=... | kubectl apply -f -"
        )
    data = found.get("data")
    texts = {str(key): str(value) for key, value in (data if isinstance(data, dict) else {}).items()}
    return str(found["metadata"].get("resourceVersion", "")), texts
