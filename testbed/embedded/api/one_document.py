"""The aggregated discovery document: all resources of all groups in one answer, for which clients ask first.

After k8s.io/apiserver 0.36, endpoints/discovery/aggregated, and k8s.io/kube-aggregator for what other servers
serve: an API whose server does not answer is listed as stale.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from testbed.embedded.api.types import Object

GROUP: Final = "apidiscovery.k8s.io"
LIST: Final = "APIGroupDiscoveryList"
VERSIONS: Final = ("v2", "v2beta1")

# The resources of each version, as a list of them has them; None where they are not known.
Served = Mapping[str, Sequence[Object] | None]


def asked_for(accept: str) -> str | None:
    """The version of the document that a client wants before the plain one; None if it does not."""
    for media in accept.split(","):
        kind, *rest = (part.strip() for part in media.split(";"))
        parameters = dict(part.partition("=")[::2] for part in rest)
        if kind == "application/json" and "as" not in parameters:
            return None
        version = parameters.get("v", "")
        if (parameters.get("g"), parameters.get("as")) == (GROUP, LIST) and version in VERSIONS:
            return version
    return None


def content_type(version: str) -> str:
    """By which a client tells it from the plain document."""
    return f"application/json;g={GROUP};v={version};as={LIST}"


def document(version: str, groups: Iterable[tuple[str, Served]]) -> Object:
    """The document of groups, the core one having no name."""
    return {
        "kind": LIST,
        "apiVersion": f"{GROUP}/{version}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": name} if name else {},
                "versions": [_version(name, each, resources) for each, resources in served.items()],
            }
            for name, served in groups
        ],
    }


def _version(group: str, version: str, resources: Sequence[Object] | None) -> Object:
    if resources is None:
        return {"version": version, "freshness": "Stale"}
    found: dict[str, Object] = {}
    for entry in resources:
        resource, _, subresource = entry["name"].partition("/")
        own = {"group": entry.get("group", group), "version": entry.get("version", version)}
        kind = {**own, "kind": entry["kind"]}
        if not subresource:
            found[resource] = {
                **_resource(resource, entry, kind),
                **_called(entry),
                **_below(found, resource),
            }
            continue
        # A metric of an object has no resource above it that could be asked for.
        parent = found.setdefault(resource, _resource(resource, {**entry, "verbs": []}, {**own, "kind": ""}))
        below = {"subresource": subresource, "responseKind": kind, "verbs": entry["verbs"]}
        parent.setdefault("subresources", []).append(below)
    return {"version": version, "resources": list(found.values()), "freshness": "Current"}


def _resource(name: str, entry: Object, kind: Object) -> Object:
    return {
        "resource": name,
        "responseKind": kind,
        "scope": "Namespaced" if entry["namespaced"] else "Cluster",
        "singularResource": "" if "/" in entry["name"] else entry["singularName"],
        "verbs": entry["verbs"],
    }


def _called(entry: Object) -> Object:
    return {key: entry[key] for key in ("shortNames", "categories") if key in entry}


def _below(found: Mapping[str, Object], resource: str) -> Object:
    known = found.get(resource, {})
    return {"subresources": known["subresources"]} if "subresources" in known else {}
