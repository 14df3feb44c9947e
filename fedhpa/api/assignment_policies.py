"""The assignment policies: how replicas, or bounds, are divided over clusters.

A policy stands here with its traits, and in `fedhpa.assignment.division.divider`, which divides by it.
Others ask for a trait and not for a name. Source: docs/explanation/placement.md.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, NamedTuple

# The fields of a clusterAutoscalingPreference that have an effect under one policy only.
STATIC_WEIGHT: Final = "staticWeight"
PRIORITY: Final = "priority"
Preference = Literal["", "staticWeight", "priority"]


class Traits(NamedTuple):
    """The traits of a policy.

    copies: each cluster gets the whole size, so nothing is divided.
    by_rank: it fills one cluster after the other. All others divide by weight.
    by_capacity: it needs to know how many more replicas a cluster could run.
    by_load: it divides by the load of the clusters, which bounds have not.
    preference: the field of a preference that it reads.
    """

    copies: bool = False
    by_rank: bool = False
    by_capacity: bool = False
    by_load: bool = False
    preference: Preference = ""


class AssignmentPolicy(StrEnum):
    """A policy, as `federatedHPAAssignmentType` spells it. EQUAL is that of an object that names none."""

    copies: bool
    by_rank: bool
    by_capacity: bool
    by_load: bool
    preference: Preference

    def __new__(cls, name: str, traits: Traits) -> AssignmentPolicy:
        """Makes a member with its traits as attributes."""
        member = str.__new__(cls, name)
        member._value_ = name
        for trait, value in traits._asdict().items():
            setattr(member, trait, value)
        return member

    DUPLICATED = "Duplicated", Traits(copies=True)
    AGGREGATED = "Aggregated", Traits(by_rank=True, by_capacity=True)
    STATIC_WEIGHTED = "StaticWeighted", Traits(preference=STATIC_WEIGHT)
    DYNAMIC_WEIGHTED = "DynamicWeighted", Traits(by_capacity=True)
    PRIORITIZED = "Prioritized", Traits(by_rank=True, by_capacity=True, preference=PRIORITY)
    LOAD_WEIGHTED = "LoadWeighted", Traits(by_load=True)
    EQUAL = "", Traits()

    @classmethod
    def of(cls, name: str | None) -> AssignmentPolicy:
        """Returns the policy of a name; EQUAL for none, and for one that the gate of objects refuses."""
        return _BY_NAME.get(name or "", cls.EQUAL)


_BY_NAME: Final = {str(policy): policy for policy in AssignmentPolicy}
# The names that an object can give.
ASSIGNMENT_POLICIES: Final = tuple(name for name in _BY_NAME if name)
(
    DUPLICATED,
    AGGREGATED,
    STATIC_WEIGHTED,
    DYNAMIC_WEIGHTED,
    PRIORITIZED,
    LOAD_WEIGHTED,
    EQUAL,
) = AssignmentPolicy
