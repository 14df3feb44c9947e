"""A store's answer that is decoded in pieces has the same series as the answer that is decoded as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedhpa.api.errors import MetricsUnavailable
from fedhpa.api.texts import redacted
from fedhpa.kube import pieces
from metrics_adapter.prometheus import results
from metrics_adapter.prometheus.client import _redacted_chunks
from metrics_adapter.prometheus.results import QueryResult, decode_result
from tests.support.nightly import examples

NOW = 1_773_230_400.0
PIECE = 40
TEXTS = st.text(max_size=12) | st.sampled_from(
    ['},{"metric":', '"result":[', "]}}", '\\"', "{", "}", "\\", ","]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
SERIES = st.lists(
    st.fixed_dictionaries(
        {"metric": st.dictionaries(TEXTS, TEXTS, max_size=3)},
        optional={"value": st.tuples(st.just(NOW), TEXTS), "histogram": VALUES},
    ),
    max_size=30,
)
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n ", " :\t")])
CHUNKS = st.integers(1, 90)


@contextmanager
def pieces_of(size: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE_BYTES", size)
        patch.setattr(results, "WHOLE_BYTES", size)
        yield


def whole(body: bytes) -> QueryResult | None:
    with pieces_of(2**20):
        try:
            return decode_result([body], NOW)
        except MetricsUnavailable:
            return None


def in_pieces(body: bytes, chunk: int) -> QueryResult | None:
    with pieces_of(PIECE):
        try:
            return decode_result([body[at : at + chunk] for at in range(0, len(body), chunk)], NOW)
        except MetricsUnavailable:
            return None


def answer(series: list[Any], **more: Any) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": "vector", "result": series}, **more}


@settings(deadline=None, max_examples=examples(60, 3_000))
@given(
    series=SERIES,
    separators=SEPARATORS,
    chunk=CHUNKS,
    is_sorted=st.booleans(),
    more=st.fixed_dictionaries({}, optional={"warnings": st.lists(TEXTS), "stats": VALUES, "infos": VALUES}),
)
def test_no_series_is_lost_doubled_or_changed(
    series: list[Any], separators: tuple[str, str], chunk: int, is_sorted: bool, more: dict[str, Any]
) -> None:
    """The pieces together have all series, for any labels, blanks, orders of keys and chunks."""
    document = answer(series, **more)
    body = json.dumps(document, separators=separators, sort_keys=is_sorted).encode()
    found = in_pieces(body, chunk)

    assert found is not None
    assert found == whole(body)
    assert [one["metric"] for one in series] == [one.metric for one in found.series]


@settings(deadline=None, max_examples=examples(100, 5_000))
@given(
    series=SERIES,
    separators=SEPARATORS,
    chunk=CHUNKS,
    at=st.integers(0, 600),
    cut=st.integers(0, 3),
    noise=st.binary(max_size=4) | st.sampled_from([b",", b"]", b"}", b"]}}", b'"', b"],[", b"{", b"\\"]),
)
@example([{"metric": {}}] * 8, (",", ":"), 9, 165, 0, b",")
@example([{"metric": {"a": "b" * 40}}], (",", ":"), 9, 104, 0, b",")
@example([{"metric": {}}] * 8, (",", ":"), 9, 66, 0, b']},"data":{"result":[')
def test_a_spoiled_answer_is_refused_by_both(
    series: list[Any], separators: tuple[str, str], chunk: int, at: int, cut: int, noise: bytes
) -> None:
    """An answer with other bytes in it has the same series in pieces and whole, or is refused by both."""
    sound = json.dumps(answer(series, warnings=["slow"]), separators=separators).encode()
    body = sound[:at] + noise + sound[at + cut :]

    assert whole(body) == in_pieces(body, chunk)


@pytest.mark.parametrize(
    "rest",
    [
        b'],"result":[]}}',
        b'],"result":["."]}}',
        b']},"data":{"resultType":"vector","result":[]}}',
        b']},"data":{"resultType":"vector"}}',
        b']},"data":null}',
        b']},"d\\u0061ta":{"resultType":"vector","result":[{"metric":{"a":"other"}}]}}',
    ],
)
def test_two_results_are_no_answer(rest: bytes) -> None:
    """An answer with two results is refused, because a JSON decoder keeps only the last of them."""
    first = b'{"status":"success","data":{"resultType":"vector","result":['
    body = first + b",".join([b'{"metric":{"a":"b"},"value":[1,"2"]}'] * 9) + rest

    assert in_pieces(body, 64) is None


def test_a_result_of_another_name_is_not_taken() -> None:
    """A list called result that is not in data is passed over."""
    other = [{"metric": {"a": "other"}}] * 9
    body = json.dumps({"x": {"result": other}, **answer([{"metric": {"a": "b"}}] * 9)}).encode()
    found = in_pieces(body, 64)

    assert found is not None
    assert [one.metric for one in found.series] == [{"a": "b"}] * 9


def test_an_answer_without_a_result_is_no_empty_one() -> None:
    """A vector without a result is refused, in any size."""
    body = b'{"status":"success","data":{"resultType":"vector"},"x":"' + b"y" * 90 + b'"}'

    assert whole(body) is None
    assert in_pieces(body, 64) is None


@given(
    before=st.binary(max_size=60),
    after=st.binary(max_size=60),
    chunk=st.integers(1, 40),
    repeated=st.booleans(),
)
def test_a_credential_is_removed_wherever_the_answer_is_cut(
    before: bytes, after: bytes, chunk: int, repeated: bool
) -> None:
    """The parts of an answer have the text of the whole answer without the credential."""
    credential = b"abcdefghijkl.mno-pqr"
    body = before + (credential + b'","') * (1 + repeated) + after
    parts = [body[at : at + chunk] for at in range(0, len(body), chunk)]
    authorization = f"Bearer {credential.decode()}"

    assert redacted(body, authorization) == b"".join(_redacted_chunks(parts, authorization))
