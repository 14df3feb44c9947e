"""The hub keeps every field of the state of mode Distributed that the status has."""

from __future__ import annotations

import dataclasses

from fedhpa.admission import crd
from fedhpa.admission.crd import FEDERATED_HPA
from fedhpa.assignment.state import Cap, ClusterState, read_state, written_state
from fedhpa.decision.record.status import ASSIGNMENT_FIELDS
from tests.support.distributed import NOW
from tests.support.karmada_crds import pruned

FULL = ClusterState(
    minimum=1,
    maximum=2,
    given=3,
    given_since=NOW,
    given_share=4,
    ready_since=NOW,
    deficit_before=5,
    ineffective_since=NOW,
    held=6,
    held_since=NOW,
    lower_replicas=7,
    cap=Cap(replicas=8, since=NOW - 60, until=NOW, minutes=4, room_seen=1, ended_early=True),
    zero_since=NOW,
    at_min_since=NOW,
    lost=True,
    over_since=NOW,
    away=True,
    starting=True,
    spare=True,
    idle_since=NOW,
)


def test_the_example_sets_every_field() -> None:
    """A new field needs a value above, so that the other tests see it."""
    unset = [
        field.name for field in dataclasses.fields(ClusterState) if getattr(FULL, field.name) == field.default
    ]

    assert unset == []


def test_a_hub_stores_every_field() -> None:
    """The schema of status.clusters has all fields of an entry, and of the objects in it."""
    version = crd.custom_resource_definition(FEDERATED_HPA)["spec"]["versions"][0]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    entry = written_state(FULL)

    assert pruned(entry, status["properties"]["clusters"]["items"]) == entry
    assert read_state(entry, NOW) == FULL


def test_a_decision_reads_every_field() -> None:
    """The entries that a decision reads have them, too."""
    assert written_state(FULL).keys() <= set(ASSIGNMENT_FIELDS)
