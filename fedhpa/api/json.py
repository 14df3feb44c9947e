"""Decodes JSON that comes from outside the process: one function, one error; and checks which object it is.

Outside is everything that a member, the hub, a user or a file sends. The library behind it raises several
errors, and how deep nesting may be before a RecursionError depends on the caller's stack. Callers of this
module see one error for all of them.

`{"status":"ok"}` decodes as an empty object of any kind, and as an empty list of anything. Without a check it
would mean a scale of no replicas, a lease that nobody holds, or that nothing exists.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, TypeVar, cast, overload

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.wire import ObjectList

T = TypeVar("T")
Json = bytes | bytearray | memoryview | msgspec.Raw | str

# The levels of objects and lists within each other that a decoded value may have. Kubernetes' own objects
# have about 15. Code that walks a value calls itself for each level, and Python allows about 1,000 calls in
# all. Every reader bears this many levels, and admission refuses objects with fewer.
MAX_NESTING: Final = 200
TOO_DEEP: Final = "JSON is nested too deeply"
# The most values in a text that is decoded at once, because the decoder holds Python's lock. Keys and texts
# that are all different take 0.4 µs each. Kubernetes' own objects have some thousand values.
MAX_VALUES: Final = 80_000


_NO_SEPARATOR: Final = bytes(set(range(256)) - set(b'",{['))


class InvalidJson(InvalidObject):
    """Bytes are no JSON, do not fit the type, or are nested too deeply.

    The message names the path of the field, and never its content.
    """


@overload
def decode_json(data: Json, kind: type[T], *, max_values: int = MAX_VALUES) -> T: ...
@overload
def decode_json(data: Json, kind: Any, *, max_values: int = MAX_VALUES) -> Any: ...
def decode_json(data: Json, kind: Any, *, max_values: int = MAX_VALUES) -> Any:
    """Returns the JSON in `data` decoded as `kind`. Raises InvalidJson, and nothing else.

    A text with more than `max_values` values is refused.
    Values that are decoded as free JSON (Any, dict[str, Any] and the like) have at most MAX_NESTING levels.
    A struct may keep deeper values in a field of such a type.
    """
    size = len(data) if isinstance(data, bytes | str) else memoryview(data).nbytes
    # Each value takes two bytes or more, with its comma or its brackets, so few texts need the count.
    too_large = size > 2 * max_values and has_more_values(data, max_values)
    # The text is only passed over if it is too large, to find out if it is nested too deeply.
    decoder, is_free = _decoder(msgspec.Raw if too_large else cast(Hashable, kind))
    try:
        value = decoder.decode(cast(bytes, data))
    except RecursionError as error:
        raise InvalidJson(TOO_DEEP) from error
    except ValueError as error:  # msgspec's errors, and UnicodeDecodeError
        raise InvalidJson(str(error)) from error
    if too_large:
        raise InvalidJson(f"more than {max_values} values")
    if is_free and nested_deeper(value, MAX_NESTING):
        raise InvalidJson(TOO_DEEP)
    return value


def has_more_values(data: Json, most: int) -> bool:
    """True if a text has more than `most` values, counted by commas and opening brackets outside strings."""
    text = data.encode(errors="replace") if isinstance(data, str) else bytes(data)
    if _separators(text) <= most:
        return False
    # An annotation may consist of commas. Without escaped quotes every second part is outside strings, also
    # after strings that became empty are removed.
    text = text.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NO_SEPARATOR).replace(b'""', b"")
    return _separators(b"".join(text.split(b'"')[::2])) > most


def _separators(text: bytes) -> int:
    return text.count(b",") + text.count(b"{") + text.count(b"[")


def convert_json(value: Any, kind: type[T], *, dec_hook: Callable[[type, Any], Any] | None = None) -> T:
    """Returns decoded JSON converted to `kind`. Raises InvalidJson, and nothing else.

    `dec_hook` makes the values of types of our own, as in msgspec. Its TypeError or ValueError says why not.
    """
    try:
        return msgspec.convert(value, kind, dec_hook=dec_hook)
    except RecursionError as error:
        raise InvalidJson(TOO_DEEP) from error
    except ValueError as error:
        raise InvalidJson(str(error)) from error


def nested_deeper(value: object, levels: int) -> bool:
    """True if a decoded value has more than `levels` levels of objects and lists within each other."""
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        # Decoders make no subclasses, and isinstance takes twice as long.
        level = [
            child
            for parent in level
            for child in (parent.values() if type(parent) is dict else parent)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return False
    return True


@functools.lru_cache(maxsize=256)
def _decoder(kind: Hashable) -> tuple[msgspec.json.Decoder[Any], bool]:
    origin = getattr(kind, "__origin__", kind)
    is_free = kind is Any or (origin in (dict, list) and Any in getattr(kind, "__args__", (Any,)))
    return msgspec.json.Decoder(cast(Any, kind)), is_free


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


# A body of at most this size is no piece from the middle of a list (`fedhpa.kube.pieces`).
WHOLE_BYTES: Final = 64 * 1024
_SHOWN: Final = 64


class TypeMeta(msgspec.Struct, frozen=True):
    """metav1.TypeMeta: which object an answer says it is."""

    kind: str = ""
    apiVersion: str = ""


def list_items(body: bytes, item: type[T], kind: str, *api_versions: str) -> Sequence[T]:
    """Returns the items of a list, or of a piece of one. Raises InvalidObject for another kind or version."""
    page: ObjectList[Any] = decode_json(body, ObjectList[item])  # type: ignore[valid-type]  # a type made at run time
    check_list_type(page.kind, page.apiVersion, len(body), (kind,), api_versions)
    return page.items or ()


def check_list_type(
    kind: str, api_version: str, size: int, kinds: Sequence[str], api_versions: Sequence[str]
) -> None:
    """Raises InvalidObject unless a list of `size` bytes has one of the kinds and one of the versions.

    A large list is decoded in pieces. A server that sorts its keys names the kind after the items, where only
    the last piece has it. `fedhpa.kube.pieces` checks that one piece has both.
    """
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
