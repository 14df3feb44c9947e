"""Discovery and OpenAPI: the served groups, versions, resources and schemas.

kubectl reads OpenAPI v3 for `explain` and for the merge keys of `apply`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from testbed.embedded.api.types import Object
from testbed.embedded.extensions.aggregation import available
from testbed.embedded.objects.definitions import META, PREFIX, closure, definitions, name_of, schema_of
from testbed.embedded.objects.kinds import API_SERVICES, VERBS, Kind, Kinds
from testbed.embedded.storage.store import Store

OPENAPI_V3: Final = "/openapi/v3"
# kubectl reads OpenAPI v2 (protobuf only) when it validates a List. This document has no definitions, so
# kubectl leaves the validation to the server.
OPENAPI_V2: Final = "/openapi/v2"
OPENAPI_V2_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
OPENAPI_V2_DOCUMENT: Final = b"\n\x032.0"
_PARAMETERS: Final = [
    {"name": name, "in": "query", "schema": {"type": "string"}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]
VERSION: Final = {"major": "1", "minor": "36", "gitVersion": "v1.36.3+embedded"}


@dataclass(frozen=True)
class ReviewResource:
    """A resource that is only posted to, and not stored: a review or a token request."""

    group: str
    resource: str
    kind: str
    subresource: str = ""
    namespaced: bool = False
    version: str = "v1"

    def entry(self) -> Object:
        """Returns the resource as discovery lists it."""
        name = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        found: Object = {
            "name": name,
            "singularName": "" if self.subresource else self.kind.lower(),
            "namespaced": self.namespaced,
            "kind": self.kind,
            "verbs": ["create"],
        }
        if self.kind == "TokenRequest":
            found |= {"group": "authentication.k8s.io", "version": "v1"}
        return found


class Discovery:
    """Answers the discovery paths."""

    def __init__(self, kinds: Kinds, store: Store) -> None:
        self.reviews: list[ReviewResource] = []
        self._kinds = kinds
        self._store = store

    def answer(self, path: str) -> Object | None:
        """Returns the document at a path, or None."""
        match path.strip("/").split("/"):
            case ["version"]:
                return dict(VERSION)
            case ["api"]:
                address = {"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:443"}
                return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]}
            case ["apis"]:
                groups = [_group(name, versions) for name, versions in self._groups().items()]
                return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
            case ["apis", group] if group in self._groups():
                return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, self._groups()[group])}
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group, version]:
                return self._resources(group, version)
            case ["openapi", "v3"]:
                return openapi_index(self._kinds, self._aggregated())
            case ["openapi", "v3", "api" | "apis", *rest]:
                return openapi_document(self._kinds, "/".join(rest))
            case _:
                return None

    def _aggregated(self) -> list[str]:
        """Returns the group versions of the aggregated servers that are available."""
        return [
            f"{service['spec']['group']}/{service['spec']['version']}"
            for service in self._store.list(API_SERVICES)
            if service["spec"].get("service") and available(service).get("status") == "True"
        ]

    def _groups(self) -> Mapping[str, list[str]]:
        """Returns the versions of each named group, the preferred version first."""
        services = [service["spec"] for service in self._store.list(API_SERVICES)]
        services.sort(key=lambda spec: -spec.get("versionPriority", 0))
        served = [
            *((kind.group, kind.version) for kind in self._kinds),
            *((spec.get("group", ""), spec["version"]) for spec in services),
            *((review.group, review.version) for review in self.reviews),
        ]
        found: dict[str, list[str]] = {}
        for group, version in served:
            if group and version not in found.setdefault(group, []):
                found[group].append(version)
        return found

    def _resources(self, group: str, version: str) -> Object | None:
        kinds = [kind for kind in self._kinds if (kind.group, kind.version) == (group, version)]
        entries = [entry for kind in kinds for entry in _entries(kind)]
        entries += [each.entry() for each in self.reviews if (each.group, each.version) == (group, version)]
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


# -- OpenAPI --------------------------------------------------------------------------------------------


def openapi_index(kinds: Kinds, aggregated: Iterable[str] = ()) -> Object:
    """Returns the index of documents; `aggregated` are group versions of other servers."""
    prefixes = dict.fromkeys(aggregated, "apis")
    prefixes |= {kind.api_version: "apis" if kind.group else "api" for kind in kinds}
    paths = [f"{prefix}/{version}" for version, prefix in prefixes.items()]
    return {"paths": {path: {"serverRelativeURL": f"{OPENAPI_V3}/{path}"} for path in paths}}


def openapi_document(kinds: Kinds, api_version: str) -> Object | None:
    """Returns the document of a group version."""
    found = [kind for kind in kinds if kind.api_version == api_version]
    if not found:
        return None
    schemas = closure({name_of(kind) for kind in found if not kind.custom} | {META}, definitions())
    for kind in found:
        if kind.custom:
            schemas[_custom_name(kind)] = {
                **schema_of(kind),
                "x-kubernetes-group-version-kind": [_group_version_kind(kind)],
            }
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.3"},
        "paths": {path: operations for kind in found for path, operations in _openapi_paths(kind).items()},
        "components": {"schemas": schemas},
    }


def _custom_name(kind: Kind) -> str:
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def _group_version_kind(kind: Kind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _openapi_paths(kind: Kind) -> Object:
    prefix = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.api_version}"
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    collection = f"{prefix}{scope}/{kind.plural}"
    reference = {"$ref": PREFIX + (_custom_name(kind) if kind.custom else name_of(kind))}
    responses = {"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}}

    def operation(action: str) -> Object:
        return {
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _group_version_kind(kind),
            "parameters": [] if action in ("list", "get") else _PARAMETERS,
            "responses": responses,
        }

    return {
        collection: {"get": operation("list"), "post": operation("post")},
        f"{collection}/{{name}}": {method: operation(method) for method in ("get", "put", "patch")},
    }
