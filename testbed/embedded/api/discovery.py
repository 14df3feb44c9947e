"""What is served, as clients ask for it: versions, groups, resources, OpenAPI v3."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from testbed.embedded.api import one_document, openapi
from testbed.embedded.api.types import Object
from testbed.embedded.extensions.availability import available
from testbed.embedded.objects.kinds import API_SERVICES, NAMESPACES, VERBS, Kind, Kinds
from testbed.embedded.storage.store import Store

VERSION: Final = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3+embedded",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "python",
    "platform": "any",
}


class Discovery:
    """The answers to paths that are no objects'."""

    def __init__(self, kinds: Kinds, store: Store) -> None:
        self._kinds = kinds
        self._store = store
        self._virtual: dict[tuple[str, str], list[Object]] = {}
        # What the server behind an APIService serves, by the APIService's name.
        self.remote: Callable[[str], Sequence[Object] | None] = lambda _: None

    def add_virtual(
        self, group: str, version: str, resource: str, kind: str, *, subresource: str, namespaced: bool
    ) -> None:
        """A resource that can only be posted to."""
        name = f"{resource}/{subresource}" if subresource else resource
        singular = "" if subresource else kind.lower()
        found: Object = {
            "name": name,
            "singularName": singular,
            "namespaced": namespaced,
            "kind": kind,
            "verbs": ["create"],
        }
        if kind == "TokenRequest":
            found |= {"group": "authentication.k8s.io", "version": "v1"}
        self._virtual.setdefault((group, version), []).append(found)

    def answer(self, path: str) -> Object | None:
        """The document of a path, or None."""
        parts = path.strip("/").split("/")
        match parts:
            case ["version"]:
                return dict(VERSION)
            case ["api"]:
                address = {"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:443"}
                return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]}
            case ["apis"]:
                groups = [_group(name, versions) for name, versions in self._groups().items()]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case ["apis", group] if group in self._groups():
                found = _group(group, self._groups()[group])
                return {"kind": "APIGroup", "apiVersion": "v1", **found}
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group, version]:
                return self._resources(group, version)
            case ["openapi", "v3"]:
                return openapi.index(self._kinds, self._aggregated())
            case ["openapi", "v3", "api" | "apis", *rest]:
                return openapi.document(self._kinds, "/".join(rest))
            case _:
                return None

    def one_document(self, path: str, version: str) -> Object | None:
        """All resources of the core group (/api) or of all others (/apis); None where some are not known."""
        names = {"": ["v1"]} if path == "/api" else self._groups()
        groups = [(name, {v: self._listed(name, v) for v in versions}) for name, versions in names.items()]
        for name, served in groups:
            for each, resources in served.items():
                if resources is None and not self._is_remote(name, each):
                    return None
        return one_document.document(version, groups)

    def _listed(self, group: str, version: str) -> Sequence[Object] | None:
        if self._is_remote(group, version):
            service = self._store.find(API_SERVICES, "", f"{version}.{group}")
            answers = service is not None and available(service).get("status") == "True"
            return self.remote(f"{version}.{group}") if answers else None
        found = self._resources(group, version)
        return None if found is None else found["resources"]

    def _is_remote(self, group: str, version: str) -> bool:
        service = self._store.find(API_SERVICES, "", f"{version}.{group}")
        return service is not None and bool(service["spec"].get("service"))

    def _aggregated(self) -> list[str]:
        """The group versions whose servers are behind this one and answer; the router has their documents."""
        return [
            f"{service['spec']['group']}/{service['spec']['version']}"
            for service in self._store.list(API_SERVICES)
            if service["spec"].get("service") and available(service).get("status") == "True"
        ]

    def _groups(self) -> Mapping[str, list[str]]:
        """The versions of each group but the core one, the preferred first."""
        found: dict[str, list[str]] = {}
        served = [(kind.group, kind.version) for kind in self._kinds]
        for service in sorted(self._store.list(API_SERVICES), key=_preference):
            served.append((service["spec"].get("group", ""), service["spec"]["version"]))
        for group, version in [*served, *self._virtual]:
            if group and version not in found.setdefault(group, []):
                found[group].append(version)
        return found

    def _resources(self, group: str, version: str) -> Object | None:
        kinds = [kind for kind in self._kinds if (kind.group, kind.version) == (group, version)]
        virtual = self._virtual.get((group, version), [])
        if not kinds and not virtual:
            return None
        found = sorted([each for kind in kinds for each in _entries(kind)] + virtual, key=_name)
        api_version = f"{group}/{version}" if group else version
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": api_version,
            "resources": found,
        }


def _preference(service: Object) -> tuple[int, str]:
    """Versions of higher priority come first, of which clients take the first."""
    return -service["spec"].get("versionPriority", 0), service["metadata"]["name"]


def _name(entry: Object) -> Any:
    return entry["name"]


def _group(name: str, versions: list[str]) -> Object:
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
    if kind.collection == NAMESPACES:
        first["verbs"].remove("deletecollection")
    if kind.short_names:
        first["shortNames"] = list(kind.short_names)
    if kind.categories:
        first["categories"] = list(kind.categories)
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
