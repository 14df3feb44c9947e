"""The comparison of transcripts: what counts as a difference."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.plane.normalise import Normaliser
from tests.conformance.plane.record import differences, minor_of, must_be_the_same

ONE, OTHER = "3b1f0d4e-0000-4000-8000-000000000001", "3b1f0d4e-0000-4000-8000-000000000002"


def invalid(*causes: tuple[str, str]) -> dict[str, Any]:
    """Returns a Status with causes."""
    texts = [f"{field}: {message}" for field, message in causes]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = [
        {"reason": "FieldValueInvalid", "message": message, "field": field} for field, message in causes
    ]
    head = {"kind": "Status", "reason": "Invalid", "message": f'X "one" is invalid: {text}'}
    return {**head, "details": {"causes": details}}


def test_identifiers_are_numbered() -> None:
    """Equal uids and versions get equal names; versions of lists have no number."""
    first = [{"uid": ONE, "resourceVersion": version} for version in ("17", "17", "40")]
    second = [{"uid": OTHER, "resourceVersion": version} for version in ("900", "900", "901")]
    versions = [found["resourceVersion"] for found in Normaliser().json(first)]
    names = Normaliser()

    assert names.json({"uid": ONE}) == names.json({"uid": ONE}) != names.json({"uid": OTHER})
    assert Normaliser().json(first) == Normaliser().json(second)
    assert versions == ["<version 1>", "<version 1>", "<version 2>"]
    assert Normaliser().json({"resourceVersion": "17"}) == {"resourceVersion": "<version>"}


def test_times_are_replaced_except_those_of_2020() -> None:
    """Current times keep their format only; checks send times of 2020."""
    found = Normaliser().json(["2026-11-21T18:00:00Z", "2026-11-21T18:00:00.000001Z", "2020-01-02T03:04:05Z"])

    assert found == ["<time>", "<microtime>", "2020-01-02T03:04:05Z"]


def test_nulls_of_answers_are_dropped() -> None:
    """A null in a sent merge patch has a meaning and stays."""
    found = Normaliser().json({"sent": {"a": {"b": None}}, "body": {"a": None, "cells": [None]}})

    assert found == {"sent": {"a": {"b": None}}, "body": {"cells": [None]}}


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


def test_versions_are_compared_by_major_and_minor() -> None:
    """Patch releases of kubectl print the same."""
    assert minor_of("Client Version: v1.36.3\nKustomize Version: v5.5.0") == "1.36"
