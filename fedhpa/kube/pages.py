"""The options of lists, and the pages of a list: decoding, and reading until the last page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypedDict

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import MAX_NESTING, TOO_DEEP, InvalidJson, check_collection, decode_json, nested_deeper
from fedhpa.api.wire import ObjectList
from fedhpa.kube.pieces import MAX_ITEMS, TooLarge, decode_in_pieces
from fedhpa.kube.responses import Response
from fedhpa.kube.transport import Params

# The bounds of a whole list: 150,000 pods of 3.5 kB. A server may fill its pages only partly.
MAX_LIST_BYTES = 512 * 2**20
MAX_PAGES = 1_000
MAX_TOKEN = 8 * 1024


class ListOptions(TypedDict, total=False):
    """The options of a list: selectors, items per page, and `idle`, the seconds after which it fails.

    `idle` counts from the last byte, so the whole list may take longer.
    """

    label_selector: str
    field_selector: str
    page_size: int
    idle: float


def page_decoder(item: type[Any]) -> Callable[[bytes], ObjectList[Any]]:
    """Returns the function that decodes a page of a list. It raises InvalidJson."""
    kind = ObjectList[item]  # type: ignore[valid-type]  # a type made at run time
    is_free = getattr(item, "__origin__", item) is dict

    def decode(body: bytes) -> ObjectList[Any]:
        found: ObjectList[Any] = decode_json(body, kind)
        if is_free and any(nested_deeper(entry, MAX_NESTING) for entry in found.items or ()):
            raise InvalidJson(TOO_DEEP)
        return found

    return decode


def undecoded_page(items: Sequence[bytes], empty: bytes) -> ObjectList[Any]:
    """Returns a page of items as their text; `empty` is the page without items. Raises InvalidJson."""
    page: ObjectList[Any] = decode_json(empty, ObjectList[msgspec.Raw])
    for item in items:
        try:
            decode_json(item, msgspec.Raw)
        except InvalidJson as error:
            # One object that is nested too deeply must not hide the others. All else spoils the answer.
            if not isinstance(error.__cause__, RecursionError):
                raise
    return msgspec.structs.replace(page, items=[msgspec.Raw(item) for item in items])


async def read_pages(
    fetch: Callable[[Params], Awaitable[Response]],
    path: str,
    decode: Callable[[bytes], ObjectList[Any]],
    salvage: Callable[[Sequence[bytes], bytes], ObjectList[Any]] | None,
    params: dict[str, str | int],
) -> tuple[Sequence[Any], str]:
    """Returns the items of all pages of the list at `path`, and the version from which to watch.

    `fetch` requests a page with its parameters.

    Raises InvalidObject if the list exceeds a bound or repeats a continue token, and what `fetch` raises.
    """
    items: list[Any] = []
    tokens: set[str] = set()
    size, version = 0, ""
    while True:
        response = await fetch(params)
        size += response.size
        pieces = await decode_in_pieces(
            response.parts, decode, salvage=salvage, max_items=MAX_ITEMS - len(items)
        )
        # A server that sorts its keys names the kind after the items, so only some pieces have it.
        kind = next((piece.kind for piece in pieces if piece.kind), "")
        check_collection(path, kind, next((piece.apiVersion for piece in pieces if piece.apiVersion), ""))
        for piece in pieces:
            items += piece.items or ()
        token = next((one.metadata.continue_ for one in pieces if one.metadata.continue_), "")
        # As in client-go: a watch from the version of a later page would miss changes of the earlier items.
        version = version or next((found for one in pieces if (found := one.metadata.resourceVersion)), "")
        if not token:
            return items, version
        if token in tokens:
            raise InvalidObject("the continue token is that of an earlier page")
        if len(token) > MAX_TOKEN or len(tokens) == MAX_PAGES or size > MAX_LIST_BYTES:
            raise TooLarge(f"the list goes on after {len(tokens) + 1} pages with {size} bytes")
        tokens.add(token)
        params["continue"] = token
