"""Discovery: the served groups, versions and resources.

There are no schemas, so `kubectl explain` has nothing to show, and validation is the server's alone.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from testbed.embedded.api.types import Object
from testbed.embedded.objects.kinds import API_SERVICES, VERBS, Kind, Kinds
from testbed.embedded.storage.store import Store

# kubectl reads it (protobuf only) before `apply`. This document has no definitions, so kubectl leaves the
# validation to the server.
OPENAPI_V2: Final = "/openapi/v2"
OPENAPI_V2_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
OPENAPI_V2_DOCUMENT: Final = b"\n\x032.0"
VERSION: Final = {"major": "1", "minor": "36", "gitVersion": "v1.36.3+embedded"}


class Discovery:
    """Answers the discovery paths."""

    def __init__(self, kinds: Kinds, store: Store) -> None:
        self._kinds = kinds
        self._store = store

    def answer(self, path: str) -> Object | None:
        """Returns the document at a path, or None."""
        match path.strip("/").split("/"):
            case ["version"]:
                return dict(VERSION)
            case ["api"]:
                return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
            case ["apis"]:
                groups = [_group(name, versions) for name, versions in self._groups().items()]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case ["apis", group] if group in self._groups():
                return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, self._groups()[group])}
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group, version]:
                return self._resources(group, version)
            case _:
                return None

    def _groups(self) -> Mapping[str, list[str]]:
        """Returns the versions of each named group, the preferred version first."""
        services = [service["spec"] for service in self._store.list(API_SERVICES)]
        services.sort(key=lambda spec: -spec.get("versionPriority", 0))
        served = [
            *((kind.group, kind.version) for kind in self._kinds),
            *((spec.get("group", ""), spec["version"]) for spec in services),
        ]
        found: dict[str, list[str]] = {}
        for group, version in served:
            if group and version not in found.setdefault(group, []):
                found[group].append(version)
        return found

    def _resources(self, group: str, version: str) -> Object | None:
        kinds = [kind for kind in self._kinds if (kind.group, kind.version) == (group, version)]
        entries = [entry for kind in kinds for entry in _entries(kind)]
        if not entries:
            return None
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": sorted(entries, key=lambda entry: str(entry["name"])),
        }


def _group(name: str, versions: Sequence[str]) -> Object:
    found = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": found, "preferredVersion": found[0]}


def _entries(kind: Kind) -> list[Object]:
    first: Object = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(VERBS),
    }
    names = {"shortNames": kind.short_names, "categories": kind.categories}
    first |= {key: list(each) for key, each in names.items() if each}
    found = [first]
    for subresource in sorted(kind.subresources):
        entry: Object = {
            "name": f"{kind.plural}/{subresource}",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": ["get", "patch", "update"],
        }
        if subresource == "scale":
            entry |= {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        found.append(entry)
    return found
