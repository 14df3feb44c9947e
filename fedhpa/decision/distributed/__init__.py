"""Mode Distributed: the members' HPAs scale the workload, and a decision keeps their bounds right.

Source: docs/explanation/distributed.md; the arithmetic is `fedhpa.assignment.plan`.
"""

from fedhpa.decision.distributed.bounds_view import SeenMembers
from fedhpa.decision.distributed.decide import decide_bounds
