"""The rules of Argo CD's generator clusterDecisionResource, as its code has them.

Source: argo-cd v2 (commit 017bd373) and v3, applicationset/generators/duck_type.go, GenerateParams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# The ConfigMap that the how-to page shows.
RESOURCE = {
    "apiVersion": "fedhpa.io/v1alpha1",
    "kind": "placements",
    "statusListKey": "decisions",
    "matchKey": "clusterName",
}


class Panic(Exception):
    """The generator would panic, which ends the applicationset controller."""


def generate(
    config: Mapping[str, str], resources: Sequence[Mapping[str, Any]], clusters: Mapping[str, str]
) -> list[dict[str, str]]:
    """Returns the parameters that the generator makes; raises Panic where it would.

    `resources` are the objects that it lists, and `clusters` Argo CD's, with the server of each by name.
    Without any object the generator ends with an error; here it makes no parameters.
    """
    found = []
    for decision in _decisions(config["statusListKey"], resources):
        if not isinstance(decision, Mapping):
            raise Panic("an entry is no map")
        name = decision.get(config["matchKey"])
        if name is None:
            continue
        if not isinstance(name, str):
            raise Panic(f"{config['matchKey']} is no string")
        if name not in clusters:
            continue
        params = {"name": name, "server": clusters[name]}
        for key, value in decision.items():
            if not isinstance(value, str):
                raise Panic(f"{key} is no string")
            params[key] = value
        found.append(params)
    return found


def _decisions(key: str, resources: Sequence[Mapping[str, Any]]) -> list[Any]:
    decisions: list[Any] = []
    for resource in resources:
        status = resource.get("status")
        if not status:
            continue  # it has no status yet
        listed = status.get(key) if isinstance(status, Mapping) else None
        if not isinstance(listed, list):
            raise Panic(f"status.{key} is no list")
        decisions += listed
    return decisions
