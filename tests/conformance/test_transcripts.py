"""What makes two conversations the same, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.plane.normalise import Normaliser
from tests.conformance.plane.record import differences, minor_of
from tests.conformance.plane.verdict import must_be_the_same

ONE, OTHER = "3b1f0d4e-0000-4000-8000-000000000001", "3b1f0d4e-0000-4000-8000-000000000002"


def invalid(*causes: tuple[str, str]) -> dict[str, Any]:
    """A Status as a server makes it of causes."""
    texts = [f"{field}: {message}" for field, message in causes]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    told = [{"reason": "FieldValueInvalid", "message": message, "field": field} for field, message in causes]
    return {
        "kind": "Status",
        "reason": "Invalid",
        "message": f'X "one" is invalid: {listed}',
        "details": {"causes": told},
    }


def test_a_uid_that_comes_again_is_the_same_and_another_is_not() -> None:
    """Whether an object was replaced by another of its name shows in a transcript."""
    names = Normaliser()

    assert names.json({"uid": ONE}) == names.json({"uid": ONE})
    assert names.json({"uid": ONE}) != names.json({"uid": OTHER})


def test_a_new_version_shows_and_the_number_does_not() -> None:
    """The versions of objects are numbered as they come; those of lists, which anybody moves, are not."""
    first = [{"uid": ONE, "resourceVersion": version} for version in ("17", "17", "40")]
    second = [{"uid": OTHER, "resourceVersion": version} for version in ("900", "900", "901")]
    versions = [found["resourceVersion"] for found in Normaliser().json(first)]

    assert Normaliser().json(first) == Normaliser().json(second)
    assert versions == ["<version 1>", "<version 1>", "<version 2>"]
    assert Normaliser().json({"resourceVersion": "17"}) == {"resourceVersion": "<version>"}


def test_times_are_told_apart_by_their_form_and_those_of_2020_by_their_value() -> None:
    """A time of now is one of its form; what a check sent must come back as it was."""
    found = Normaliser().json(["2026-11-21T18:00:00Z", "2026-11-21T18:00:00.000001Z", "2020-01-02T03:04:05Z"])

    assert found == ["<time>", "<microtime>", "2020-01-02T03:04:05Z"]


def test_nulls_of_answers_are_nothing_and_those_of_patches_are_something() -> None:
    """In a merge patch null removes; in an answer it is what Go writes for nothing."""
    found = Normaliser().json({"sent": {"a": {"b": None}}, "body": {"a": None, "cells": [None]}})

    assert found == {"sent": {"a": {"b": None}}, "body": {"cells": [None]}}


def test_causes_are_compared_in_any_order_and_once() -> None:
    """A real server tells the causes of a refusal in the order of a Go map, and some twice."""
    one, other = invalid(("a", "x"), ("b", "y"), ("b", "y")), invalid(("b", "y"), ("a", "x"))

    assert Normaliser().json(one) == Normaliser().json(other)
    assert Normaliser().json(one) != Normaliser().json(invalid(("a", "x"), ("b", "z")))
    assert Normaliser().json(one) != Normaliser().json(invalid(("a", "x")))


@pytest.mark.parametrize(
    ("actual", "said"),
    [
        ([{"ask": "GET /x", "code": 404, "body": {"a": [1]}}], "[0] (GET /x)/code:"),
        ([{"ask": "GET /x", "code": 200, "body": {"a": [1, 2]}}], "[0] (GET /x)/body/a[1]:"),
        ([{"ask": "GET /x", "code": 200, "body": {}}], "[0] (GET /x)/body/a:"),
        ([{"ask": "GET /x", "code": 200, "body": {"a": [True]}}], "[0] (GET /x)/body/a[0]:"),
        ([], "[0]:"),
    ],
)
def test_a_difference_names_its_place(actual: Any, said: str) -> None:
    """Every kind of difference is found, and the message leads to it."""
    expected = [{"ask": "GET /x", "code": 200, "body": {"a": [1]}}]

    assert said in differences(expected, actual)
    assert differences(expected, expected) == ""
    with pytest.raises(AssertionError, match="said otherwise"):
        must_be_the_same(expected, actual, None)


def test_what_broke_a_conversation_off_is_raised_with_what_differed_until_then() -> None:
    """A fact that does not hold fails the test also where the transcript is the recorded one."""
    with pytest.raises(KeyError):
        must_be_the_same([], [], KeyError("x"))


def test_versions_are_compared_by_major_and_minor() -> None:
    """kubectl of another patch release has the same words."""
    assert minor_of("Client Version: v1.36.3\nKustomize Version: v5.5.0") == "1.36"
