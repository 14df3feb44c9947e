"""Admission of spec.placement and of clusterAffinity.placementDecision, and the slices of a decision."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fedhpa.admission.federatedhpa import validate_federatedhpa, warn_federatedhpa
from fedhpa.api.decode import WrongType, decode
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import FederatedHPA
from fedhpa.api.placement_decisions import (
    INDEX_LABEL,
    KEY_LABEL,
    DecisionSlice,
    Profile,
    listed_profiles,
    slice_name,
    slices_of,
)
from tests.support.controller import federated_hpa

SELECTS: dict[str, Any] = {"clusterNames": ["m1"]}
PUBLISH = {"publish": True}


def errors(karmada: bool = False, **spec: Any) -> list[str]:
    """The errors of an object with this spec."""
    found = decode(FederatedHPA, federated_hpa(**{"behavior": None, **spec}))
    return [str(one) for one in validate_federatedhpa(found, karmada=karmada)]


def test_publication_needs_a_selection() -> None:
    assert errors(placement=PUBLISH, clusterAffinity=SELECTS) == []
    assert errors(placement={"publish": False}) == []
    lacking = (
        "spec.clusterAffinity: Required value: spec.placement.publish publishes the clusters that it selects"
    )
    assert errors(placement=PUBLISH) == [lacking]


def test_publication_is_refused_on_karmada() -> None:
    refused = errors(karmada=True, placement=PUBLISH, clusterAffinity=SELECTS)

    assert len(refused) == 1
    assert refused[0].startswith("spec.placement.publish: Forbidden: is for --propagation=direct; on Karmada")
    assert errors(karmada=True, placement={}) == []


@pytest.mark.parametrize(("name", "refused"), [("chosen", 0), ("", 1), ("No.", 1), ("../x", 1)])
def test_a_followed_decision_has_a_name(name: str, refused: int) -> None:
    found = errors(clusterAffinity={"placementDecision": {"name": name}})

    assert len(found) == refused
    assert all(one.startswith("spec.clusterAffinity.placementDecision.name: ") for one in found)


@pytest.mark.parametrize(
    ("name", "refused"), [("web-0", True), ("web-9", True), ("web-x", False), ("b-0", False)]
)
def test_no_object_follows_itself(name: str, refused: bool) -> None:
    found = errors(placement=PUBLISH, clusterAffinity={"placementDecision": {"name": name}})

    assert bool(found) is refused


def test_a_value_of_another_type_is_refused() -> None:
    with pytest.raises(WrongType):
        errors(placement={"publish": "yes"})


def test_a_dry_run_publishes_nothing() -> None:
    found = decode(FederatedHPA, federated_hpa(placement=PUBLISH, clusterAffinity=SELECTS, dryRun=True))

    assert "spec.placement.publish: has no effect while dryRun is true" in list(warn_federatedhpa(found))


def of_slices(count: int) -> list[DecisionSlice]:
    """The PlacementDecisions of an object that publishes so many clusters, as they are read again."""
    owner = {"name": "web", "namespace": "shop", "uid": "u"}
    chosen = [(Profile("fleet", f"c{number}"), "Member") for number in range(count)]
    made = slices_of(owner, "v1", "X", chosen)
    return msgspec.convert(made, list[DecisionSlice])


@pytest.mark.parametrize(("count", "slices"), [(0, 0), (1, 1), (100, 1), (101, 2), (1000, 10)])
def test_a_slice_has_at_most_100_clusters(count: int, slices: int) -> None:
    found = of_slices(count)

    assert len(found) == slices
    assert all(len(one.decisions or ()) <= 100 for one in found)
    assert [one.metadata.labels for one in found] == [
        {KEY_LABEL: "u", INDEX_LABEL: str(index)} for index in range(slices)
    ]
    if found:
        assert len(listed_profiles("web-0", list(reversed(found)))) == count


def test_a_missing_slice_is_told() -> None:
    first, second, third = of_slices(250)

    for left in ([first, third], [second, third], [second]):
        name = left[0].metadata.name
        with pytest.raises(InvalidObject, match=r"a slice of .* is missing"):
            listed_profiles(name, left)
    with pytest.raises(InvalidObject, match="does not exist"):
        listed_profiles("other", [first])


def test_a_reference_without_a_namespace_is_in_that_of_the_decision() -> None:
    raw = {
        "metadata": {"name": "x", "namespace": "shop"},
        "decisions": [{"clusterProfileRef": {"name": "a"}}, {"clusterProfileRef": {"name": "a"}}],
    }

    assert listed_profiles("x", [msgspec.convert(raw, DecisionSlice)]) == (Profile("shop", "a"),)


def test_a_decision_lists_no_more_clusters_than_an_object_may_have() -> None:
    many = [{"clusterProfileRef": {"name": f"c{number}"}} for number in range(1001)]
    raw = {"metadata": {"name": "x", "namespace": "shop"}, "decisions": many}

    with pytest.raises(InvalidObject, match="more than 1000"):
        listed_profiles("x", [msgspec.convert(raw, DecisionSlice)])


def test_the_name_of_a_slice_fits() -> None:
    assert slice_name("web", 3) == "web-3"
    assert len(slice_name("a" * 253, 10)) == 253
