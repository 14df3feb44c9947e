"""Pages of a list: the options of a request for them, and how they are decoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from typing import Any, TypedDict

import msgspec

from fedhpa.api.json import MAX_NESTING, TOO_DEEP, InvalidJson, decode_json, nested_deeper
from fedhpa.api.wire import ObjectList


class ListOptions(TypedDict, total=False):
    """The options of a list: selectors, items per page, and `idle`, the seconds after which it fails.

    `idle` counts from the last byte, so the whole list may take longer.
    """

    label_selector: str
    field_selector: str
    page_size: int
    idle: float


class WriteOptions(TypedDict, total=False):
    """The options of a write: its deadline in seconds, and `manager`, its field manager.

    The API server derives a field manager from the User-Agent if there is none.
    """

    manager: str
    deadline: float | None


class Page(Sized):
    """A page of a list, or a piece of one: its items, and what it says of the list."""

    def __init__(self, items: Sequence[Any], page: ObjectList[Any]) -> None:
        self.items = items
        self.version = page.metadata.resourceVersion
        self.continue_ = page.metadata.continue_
        self.kind = page.kind
        self.api_version = page.apiVersion

    def __len__(self) -> int:
        return len(self.items)


def page_decoder(item: type[Any]) -> Callable[[bytes], Page]:
    """Returns the function that decodes a page of a list. It raises InvalidJson."""
    kind = ObjectList[item]  # type: ignore[valid-type]  # a type made at run time
    is_free = getattr(item, "__origin__", item) is dict

    def decode(body: bytes) -> Page:
        found = decode_json(body, kind)
        if is_free and any(nested_deeper(entry, MAX_NESTING) for entry in found.items or ()):
            raise InvalidJson(TOO_DEEP)
        return Page(found.items or (), found)

    return decode


def undecoded_page(items: Sequence[bytes], empty: bytes) -> Page:
    """Returns a page of items as their text; `empty` is the page without items. Raises InvalidJson."""
    page = decode_json(empty, ObjectList[msgspec.Raw])
    for item in items:
        try:
            decode_json(item, msgspec.Raw)
        except InvalidJson as error:
            # One object that is nested too deeply must not hide the others. All else spoils the answer.
            if not isinstance(error.__cause__, RecursionError):
                raise
    return Page([msgspec.Raw(item) for item in items], page)
