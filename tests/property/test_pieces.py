"""A list that is decoded in pieces has the same items as the list that is decoded as a whole."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import InvalidJson, decode_json
from fedhpa.kube import pieces
from fedhpa.kube.pieces import decode_in_pieces
from tests.support.nightly import examples

TEXTS = st.text(max_size=12) | st.sampled_from(
    ['},{"metadata":', '"items":[', "]}", '\\"', "{", "}", "\\", ","]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
ITEMS = st.lists(
    st.fixed_dictionaries({"metadata": st.fixed_dictionaries({"name": TEXTS})}, optional={"spec": VALUES})
    | VALUES,
    max_size=40,
)


class _List(msgspec.Struct):
    items: list[Any]


def _decode(body: bytes) -> list[Any]:
    return decode_json(body, _List).items


def _cut(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)] or [b""]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_BYTES", 40)


@settings(deadline=None, max_examples=examples(50, 3_000))
@given(
    items=ITEMS,
    separators=st.sampled_from([(",", ":"), (", ", ": "), (" ,\n ", " :\t")]),
    chunk=st.integers(1, 90),
    tail=st.sampled_from([{}, {"metadata": {"resourceVersion": "7"}}]),
)
def test_no_item_is_lost_doubled_or_changed(
    items: list[Any], separators: tuple[str, str], chunk: int, tail: dict[str, Any]
) -> None:
    """The pieces together have all items of the list, for any items, blanks and chunks."""
    document = {"kind": "List", "apiVersion": "v1", "items": items, **tail}
    body = json.dumps(document, separators=separators).encode()

    found = asyncio.run(decode_in_pieces(_cut(body, chunk), _decode))

    assert [item for piece in found for item in piece] == items


@settings(deadline=None, max_examples=examples(50, 3_000))
@example(
    items=[
        "000000",
        "000000",
        {"metadata": {"name": '0000000""'}, "spec": {'"\\': None, '0000000""': [], "\x1f\x1f": [None, 0]}},
    ],
    chunk=1,
    at=173,
    noise=b"},",
).via("a comma before the end of the list")
@given(items=ITEMS, chunk=st.integers(1, 90), at=st.integers(0, 400), noise=st.binary(max_size=4))
def test_a_spoiled_list_is_refused_as_the_whole_would_be(
    items: list[Any], chunk: int, at: int, noise: bytes
) -> None:
    """A list with bytes in between either has the items of the whole, or raises; it never has others."""
    whole = json.dumps({"kind": "List", "apiVersion": "v1", "items": items}).encode()
    body = whole[:at] + noise + whole[at + 1 :]
    try:
        expected: list[Any] | None = _decode(body)
    except InvalidJson:
        expected = None
    try:
        found = asyncio.run(decode_in_pieces(_cut(body, chunk), _decode))
    except InvalidObject:
        return

    assert [item for piece in found for item in piece] == expected
