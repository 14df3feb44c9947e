"""The assignment policies: how replicas, or bounds, are divided over clusters.

A policy stands here with its traits, and in `fedhpa.assignment.division.divider`, which divides by it.
Others ask for a trait and not for a name. Source: docs/explanation/placement.md.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

# The fields of a clusterAutoscalingPreference that have an effect under one policy only.
STATIC_WEIGHT: Final = "staticWeight"
PRIORITY: Final = "priority"
_PREFERENCES: Final = {"StaticWeighted": STATIC_WEIGHT, "Prioritized": PRIORITY}


class AssignmentPolicy(StrEnum):
    """A policy, as `federatedHPAAssignmentType` spells it. EQUAL is that of an object that names none.

    copies: each cluster gets the whole size, so nothing is divided.
    by_rank: it fills one cluster after the other. All others divide by weight.
    by_capacity: it needs to know how many more replicas a cluster could run.
    by_load: it divides by the load of the clusters, which bounds have not.
    preference: the field of a preference that it reads.
    """

    DUPLICATED = "Duplicated"
    AGGREGATED = "Aggregated"
    STATIC_WEIGHTED = "StaticWeighted"
    DYNAMIC_WEIGHTED = "DynamicWeighted"
    PRIORITIZED = "Prioritized"
    LOAD_WEIGHTED = "LoadWeighted"
    EQUAL = ""

    def __init__(self, name: str) -> None:
        self.copies = name == "Duplicated"
        self.by_rank = name in ("Aggregated", "Prioritized")
        self.by_capacity = name in ("Aggregated", "DynamicWeighted", "Prioritized")
        self.by_load = name == "LoadWeighted"
        self.preference = _PREFERENCES.get(name, "")

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
