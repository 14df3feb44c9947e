"""Names of one cluster: the one that answers counts, of several that answer the oldest."""

from __future__ import annotations

from itertools import permutations

import pytest

from fedhpa.api.identity import Claim, duplicates_of, short_uid, valid_uid

UID = "0a1b2c3d-0000-4000-8000-000000000001"
MONDAY, TUESDAY = "2026-11-23T08:00:00Z", "2026-11-24T08:00:00Z"

CASES: dict[str, tuple[list[Claim], dict[str, str]]] = {
    "the older": ([Claim("a", UID, True, TUESDAY), Claim("b", UID, True, MONDAY)], {"a": "b"}),
    "the one that answers": ([Claim("a", UID, True, TUESDAY), Claim("b", UID, False, MONDAY)], {"b": "a"}),
    "the older of two that are away": (
        [Claim("a", UID, False, TUESDAY), Claim("b", UID, False, MONDAY)],
        {"a": "b"},
    ),
    "the first of one second": ([Claim("b", UID, True, MONDAY), Claim("a", UID, True, MONDAY)], {"b": "a"}),
    "one of three": (
        [Claim("a", UID, True, TUESDAY), Claim("b", UID, True, MONDAY), Claim("c", UID, False, "")],
        {"a": "b", "c": "b"},
    ),
    "other clusters": ([Claim("a", UID, True, MONDAY), Claim("b", UID[:-1], True, MONDAY)], {}),
    "unknown clusters": ([Claim("a", "", True, MONDAY), Claim("b", "", True, MONDAY)], {}),
    "nobody": ([], {}),
}


@pytest.mark.parametrize("case", CASES)
def test_one_name_of_a_cluster_counts(case: str) -> None:
    """The order in which the names are read makes no difference."""
    claims, expected = CASES[case]

    assert [duplicates_of(order) for order in permutations(claims)] == [expected] * len(
        list(permutations(claims))
    )


@pytest.mark.parametrize("text", ["", "x" * 64, "a/b", "../..", "a b", "a\n", "\x1b[31m", "-a", "\ud800"])
def test_a_text_that_is_no_uid_is_not_shown(text: str) -> None:
    """A member writes it, and conditions and records would repeat it."""
    assert valid_uid(text) == ""


def test_a_uid_is_short_in_records() -> None:
    """The short form differs, has one length, and stands for nothing without a UID."""
    found = {short_uid(f"{UID}{index}") for index in range(1_000)}

    assert len(found) == 1_000
    assert {len(each) for each in found} == {8}
    assert short_uid("") == ""
    assert valid_uid(UID) == UID
