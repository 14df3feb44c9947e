"""Single objects as API servers send them. An answer that is not the object that was asked for is an error.

`{"status":"ok"}` decodes as an empty object of any kind. Without this check it would mean a scale of no
replicas, or a lease that nobody holds.
"""

from __future__ import annotations

from typing import Final

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import decode_json
from fedhpa.api.lists import TypeMeta, check_collection, collection_of, plurals, wrong_answer

SCALE: Final = ("Scale", "autoscaling/v1")
# Discovery documents: the resources of a version, and the versions of a group.
RESOURCES: Final = "APIResourceList"
GROUP: Final = "APIGroup"
# The most values of a discovery document with 20,000 metrics. Few of them are kept.
MAX_DISCOVERY_VALUES: Final = 150_000
# Subresources whose answer is the object itself.
_OWN_SUBRESOURCES: Final = ("", "status", "finalize")


# The types of watch events about one object.
_CHANGES: Final = ("ADDED", "MODIFIED", "DELETED")
BOOKMARK: Final = "BOOKMARK"


class EventCheck:
    """Checks the events of a watch of the collection at a URL path."""

    def __init__(self, path: str) -> None:
        self._api_version, self._plural = collection_of(path)
        # The kind of the collection, once an event was checked.
        self._kind = ""

    def check(self, event: str, kind: str, api_version: str, name: str) -> None:
        """Raises InvalidObject unless an event is about an object of the collection, or a bookmark.

        API servers name kind and apiVersion in every event, also in bookmarks.
        """
        if event not in _CHANGES and event != BOOKMARK:
            raise InvalidObject(f"{event[:64]!r} is no type of event")
        if not name and event != BOOKMARK:
            raise InvalidObject("an event names no object")
        if kind == self._kind and api_version == self._api_version:
            return
        if api_version != self._api_version or self._plural not in plurals(kind.lower()):
            raise wrong_answer(kind, api_version, f"one of {self._plural} {self._api_version}")
        self._kind = kind


def check_discovery(body: bytes, kind: str) -> None:
    """Raises InvalidObject unless `body` is a discovery document: RESOURCES or GROUP."""
    found = decode_json(body, TypeMeta, max_values=MAX_DISCOVERY_VALUES)
    # API servers send /api/v1 without an apiVersion.
    if found.kind != kind or found.apiVersion not in ("", "v1"):
        raise wrong_answer(found.kind, found.apiVersion, f"{kind} v1")


def check_object(path: str, body: bytes, *, created: bool = False, kind: str = "") -> None:
    """Raises InvalidObject unless `body` is what the API has at a URL path: an object, a list or discovery.

    With `created` the path is the collection to which an object was posted. `kind` is the expected kind of an
    object whose plural is irregular. Paths outside the API groups, as /version, have no kind.
    """
    parts = path.strip("/").split("/")
    if parts[0] not in ("api", "apis"):
        return
    groups = 2 if parts[0] == "api" else 3
    if len(parts) <= groups:
        check_discovery(body, RESOURCES if len(parts) == groups else GROUP)
        return
    found = decode_json(body, TypeMeta)
    version, rest = "/".join(parts[1:groups]), parts[groups:]
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _OWN_SUBRESOURCES:
        rest = rest[2:]
    if len(rest) == 1 and not created:
        check_collection(path, found.kind, found.apiVersion)
        return
    plural, subresource = rest[0], "/".join(rest[2:])
    if subresource == "scale":
        if (found.kind, found.apiVersion) != SCALE:
            raise wrong_answer(found.kind, found.apiVersion, " ".join(SCALE))
    elif subresource in _OWN_SUBRESOURCES:
        is_kind = found.kind == kind if kind else plural in plurals(found.kind.lower())
        if not is_kind or found.apiVersion != version:
            raise wrong_answer(found.kind, found.apiVersion, f"{kind or f'one of {plural}'} {version}")
