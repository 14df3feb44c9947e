"""Names of the assignment policies, as `federatedHPAAssignmentType` spells them."""

from __future__ import annotations

from typing import Final, TypeAlias

DUPLICATED: Final = "Duplicated"
AGGREGATED: Final = "Aggregated"
STATIC_WEIGHTED: Final = "StaticWeighted"
DYNAMIC_WEIGHTED: Final = "DynamicWeighted"
PRIORITIZED: Final = "Prioritized"
LOAD_WEIGHTED: Final = "LoadWeighted"

# Policies that need to know how many more replicas a cluster could run.
BY_CAPACITY: Final = frozenset((AGGREGATED, DYNAMIC_WEIGHTED, PRIORITIZED))
# Policies that fill one cluster after the other; all others divide by weight.
BY_RANK: Final = frozenset((AGGREGATED, PRIORITIZED))

# One of the names above. None means equal weights.
Policy: TypeAlias = str | None
