"""Lists as API servers send them. An answer that is not the list that was asked for is an error.

`{"status":"ok"}` decodes as an empty list of anything. Without this check it would mean that nothing exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import decode_json
from fedhpa.api.wire import ObjectList

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
