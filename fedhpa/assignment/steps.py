"""The steps of a pass of mode Distributed, each with its reason in plain English."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Step: TypeAlias = Literal["initial", "distribute", "assist", "hold", "zero"]

# People read reasons, and a status keeps them, so they name only so many clusters.
_MAX_NAMED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """One step of the pass with its reason.

    `before` and `after` are sums over all clusters: of maxima for initial and distribute, of minima for
    assist and hold, of replicas for zero.
    """

    step: Step
    before: int
    after: int
    reason: str


def sentence(reasons: Iterable[str]) -> str:
    """Returns the first reasons as one text, and the number of the others."""
    found = list(reasons)
    more = len(found) - _MAX_NAMED
    return "; ".join(found[:_MAX_NAMED] + ([f"{more} more"] if more > 0 else []))


def named(clusters: Iterable[str]) -> str:
    """Returns the names of clusters in order, the first ones of many."""
    found = sorted(clusters)
    more = len(found) - _MAX_NAMED
    return ", ".join(found[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
