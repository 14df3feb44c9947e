"""clusterHPAPreference caps a cluster by the share of its resources that the requests may take."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from controller.federatedhpa.capacity import FreeCapacity, replicas_within, summed_capacity
from fedhpa.api.errors import InvalidObject
from fedhpa.decision import decode_object
from fedhpa.members.cluster import Cluster

OFFER = {"cpu": 10_000, "memory": 8_000, "pods": 110_000}


@pytest.mark.parametrize(
    ("share", "offer", "asked", "expected"),
    [
        ("0.5", OFFER, {"cpu": 500, "pods": 1000}, 10),
        ("0.29", OFFER, {"cpu": 100}, 29),
        ("0.5", OFFER, {"cpu": 600}, 8),
        ("0.5", OFFER, {"cpu": 500, "memory": 1000}, 4),
        ("0", OFFER, {"cpu": 500}, 0),
        ("1", OFFER, {"cpu": 500}, 20),
        ("0.5", {"cpu": -5}, {"cpu": 500}, 0),
        ("0.5", OFFER, {"pods": 1000}, None),
        ("0.5", OFFER, {"gpu": 1000}, 3),
        ("0.5", None, {"cpu": 500}, 3),
    ],
    ids=[
        "cpu",
        "an exact decimal",
        "whole replicas",
        "the scarcest",
        "nothing",
        "all",
        "a negative offer",
        "pods without requests",
        "a resource that the cluster lacks",
        "an unknown offer",
    ],
)
def test_how_many_a_cap_allows(
    share: str, offer: Mapping[str, int] | None, asked: Mapping[str, int], expected: int | None
) -> None:
    """The cap of a cluster with three replicas. If the cap is unknown, the cluster keeps at most these."""
    capacity = None if offer is None else FreeCapacity((), offer)

    assert replicas_within(Fraction(share), capacity, asked, 3) == expected


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (None, {}),
        ({"clusterName": "m1", "maxResourceUsage": 0.29}, {"m1": Fraction(29, 100)}),
        (
            [{"clusterName": "m1", "maxResourceUsage": 1}, {"clusterName": "m2", "maxResourceUsage": 0.5}],
            {"m1": Fraction(1), "m2": Fraction(1, 2)},
        ),
        (
            [{"clusterName": "m1", "maxResourceUsage": 7}, {"clusterName": "m2", "maxResourceUsage": -1}],
            {"m1": Fraction(1), "m2": Fraction(0)},
        ),
        ([{"clusterName": "m1", "maxResourceUsage": share} for share in (0.5, 0.25)], {"m1": Fraction(1, 4)}),
        ([{"clusterName": "m1"}], {}),
    ],
)
def test_how_caps_are_read(written: Any, read: Mapping[str, Fraction]) -> None:
    """One object or a list is read, and values that admission refuses count as the nearest allowed value."""
    raw = {"metadata": {"name": "web"}, "spec": {"maxReplicas": 5, "clusterHPAPreference": written}}

    assert decode_object(raw).spec.assignment.caps == read


def test_what_cannot_be_read_is_an_error() -> None:
    """The error names the field."""
    raw = {"metadata": {"name": "web"}, "spec": {"maxReplicas": 5, "clusterHPAPreference": "m1"}}

    with pytest.raises(InvalidObject, match="clusterHPAPreference"):
        decode_object(raw)


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        ({"allocatable": {"cpu": "2"}}, {"cpu": 2000}),
        ({"allocatable": {"cpu": "many"}}, None),
        ({}, None),
    ],
)
def test_allocatable_of_the_summary(summary: dict[str, Any], expected: Mapping[str, int] | None) -> None:
    """All allocatable resources count, used or not."""
    cluster = msgspec.convert({"status": {"resourceSummary": summary}}, Cluster)

    found = summed_capacity(cluster)

    assert (found and found.allocatable) == expected
