"""Objects and lists as API servers send them. An answer that is not what was asked for is an error.

`{"status":"ok"}` decodes as an empty object of any kind, and as an empty list of anything. Without this check
it would mean a scale of no replicas, a lease that nobody holds, or that nothing exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import decode_json
from fedhpa.api.wire import ObjectList

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


T = TypeVar("T")

# A body of at most this size is no piece from the middle of a list (`fedhpa.kube.pieces`).
WHOLE_BYTES: Final = 64 * 1024
_SHOWN: Final = 64


class TypeMeta(msgspec.Struct, frozen=True):
    """metav1.TypeMeta: which object an answer says it is."""

    kind: str = ""
    apiVersion: str = ""


class ListHead(Protocol):
    """The kind and version of list that an answer names."""

    @property
    def kind(self) -> str:
        """The kind, such as PodList; "" if it is missing."""

    @property
    def apiVersion(self) -> str:  # the field's name
        """The apiVersion; "" if it is missing."""


def list_items(body: bytes, item: type[T], kind: str, *api_versions: str) -> Sequence[T]:
    """Returns the items of a list, or of a piece of one. Raises InvalidObject for another kind or version."""
    page: ObjectList[Any] = decode_json(body, ObjectList[item])  # type: ignore[valid-type]  # a type made at run time
    check_list_type(page, len(body), (kind,), api_versions)
    return page.items or ()


def check_list_type(page: ListHead, size: int, kinds: Sequence[str], api_versions: Sequence[str]) -> None:
    """Raises InvalidObject unless a list of `size` bytes has one of the kinds and one of the versions.

    A large list is decoded in pieces. A server that sorts its keys names the kind after the items, where only
    the last piece has it. `fedhpa.kube.pieces` checks that one piece has both.
    """
    kind, api_version = page.kind, page.apiVersion
    if size > WHOLE_BYTES:
        kind, api_version = kind or kinds[0], api_version or api_versions[0]
    if kind not in kinds or api_version not in api_versions:
        raise wrong_answer(kind, api_version, f"{' or '.join(kinds)} {' or '.join(api_versions)}")


def check_named(first: bytes, last: bytes) -> None:
    """Raises InvalidObject unless the first or the last piece of a list has a kind, and one an apiVersion."""
    ends = [decode_json(piece, TypeMeta) for piece in dict.fromkeys((first, last))]
    kind = next((end.kind for end in ends if end.kind), "")
    api_version = next((end.apiVersion for end in ends if end.apiVersion), "")
    if not kind or not api_version:
        raise wrong_answer(kind, api_version, "a list with kind and apiVersion")


def check_collection(path: str, kind: str, api_version: str) -> None:
    """Raises InvalidObject unless kind and apiVersion are those of a list of the collection at a URL path."""
    group, plural = collection_of(path)
    singular = kind.removesuffix("List").lower()
    if api_version != group or not kind.endswith("List") or plural not in plurals(singular):
        raise wrong_answer(kind, api_version, f"a list of {plural} {group}")


def wrong_answer(kind: str, api_version: str, wanted: str) -> InvalidObject:
    """Returns the error for an answer of another kind or version than the wanted one."""
    found = f"{kind or 'no kind'} {api_version or 'without apiVersion'}"
    return InvalidObject(f"the answer is {found[:_SHOWN]}, not {wanted}")


def collection_of(path: str) -> tuple[str, str]:
    """Returns apiVersion and plural of a collection's path."""
    parts = path.strip("/").split("/")
    version = parts[1] if parts[0] == "api" else "/".join(parts[1:3])
    return version, parts[-1]


def plurals(singular: str) -> tuple[str, ...]:
    """Returns the plurals that a kind in lower case may have."""
    return singular + "s", singular + "es", singular.removesuffix("y") + "ies", singular
