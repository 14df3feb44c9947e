"""The comparison of transcripts: what counts as a difference."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.plane.normalise import Normaliser
from tests.conformance.plane.record import differences, must_be_the_same


def invalid(*causes: tuple[str, str]) -> dict[str, Any]:
    """Returns a Status with causes."""
    texts = [f"{field}: {message}" for field, message in causes]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = [
        {"reason": "FieldValueInvalid", "message": message, "field": field} for field, message in causes
    ]
    head = {"kind": "Status", "reason": "Invalid", "message": f'X "one" is invalid: {text}'}
    return {**head, "details": {"causes": details}}


def test_causes_are_compared_without_order_and_duplicates() -> None:
    """Other messages and missing causes are differences."""
    one, other = invalid(("a", "x"), ("b", "y"), ("b", "y")), invalid(("b", "y"), ("a", "x"))

    assert Normaliser().json(one) == Normaliser().json(other)
    assert Normaliser().json(one) != Normaliser().json(invalid(("a", "x"), ("b", "z")))
    assert Normaliser().json(one) != Normaliser().json(invalid(("a", "x")))


@pytest.mark.parametrize(
    ("actual", "place"),
    [
        ([{"ask": "GET /x", "code": 404, "body": {"a": [1]}}], "[0] (GET /x)/code:"),
        ([{"ask": "GET /x", "code": 200, "body": {"a": [1, 2]}}], "[0] (GET /x)/body/a[1]:"),
        ([{"ask": "GET /x", "code": 200, "body": {}}], "[0] (GET /x)/body/a:"),
        ([{"ask": "GET /x", "code": 200, "body": {"a": [True]}}], "[0] (GET /x)/body/a[0]:"),
        ([], "[0]:"),
    ],
)
def test_a_difference_names_its_place(actual: Any, place: str) -> None:
    """Every kind of difference is found and located."""
    expected = [{"ask": "GET /x", "code": 200, "body": {"a": [1]}}]

    assert place in differences(expected, actual)
    assert differences(expected, expected) == ""
    with pytest.raises(AssertionError, match="differs from the record"):
        must_be_the_same(expected, actual, None)


def test_the_error_of_a_conversation_is_raised() -> None:
    """A failed assertion fails the test even if the transcript is the recorded one."""
    with pytest.raises(KeyError):
        must_be_the_same([], [], KeyError("x"))
