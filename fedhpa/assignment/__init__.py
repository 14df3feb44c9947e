"""Assignment arithmetic: how many replicas each cluster gets. Pure: no I/O and no clock."""

from fedhpa.assignment.apportion import apportion
from fedhpa.assignment.direct import Place, limits, size_of_each, split
from fedhpa.assignment.policies import BY_CAPACITY, DUPLICATED, LOAD_WEIGHTED

__all__ = [
    "BY_CAPACITY",
    "DUPLICATED",
    "LOAD_WEIGHTED",
    "Place",
    "apportion",
    "limits",
    "size_of_each",
    "split",
]
