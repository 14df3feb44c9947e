"""Cases of tables as named parameters, and the relative times that they are written in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pytest

from fedhpa.api.times import ZERO_TIME, format_time
from fedhpa.scaling import PodRecord

# The moment that relative times are relative to, and the moment of evaluation: Go's clock is always a hair
# later than the table it has just built.
BASE = 1_773_235_397.0
NOW = BASE + 0.001


class ClusterOfPods(NamedTuple):
    """A cluster that answers now with these pods."""

    name: str
    pods: Sequence[PodRecord]
    age: float = 0.0


def params(cases: Iterable[dict[str, Any]], *keys: str) -> list[Any]:
    """The cases as parameters, named by the first of `keys` (default: id) that each has."""
    return [
        pytest.param(case, id="/".join(str(case[key]) for key in keys or ("id",) if key in case))
        for case in cases
    ]


def at(value: float | str | None) -> float | None:
    """A time of a table as POSIX seconds: relative to BASE, "zero" for Go's zero time, "epoch+N"."""
    if value is None:
        return None
    if isinstance(value, str):
        return ZERO_TIME if value == "zero" else float(value.removeprefix("epoch+"))
    return BASE + value


def text_at(value: float | str | None) -> str | None:
    """A time of a table as RFC 3339."""
    moment = at(value)
    return None if moment is None else format_time(moment)


def pod_json(pod: dict[str, Any]) -> dict[str, Any]:
    """A pod of a table with its relative times written as Kubernetes writes them."""
    metadata, status = dict(pod["metadata"]), dict(pod.get("status", {}))
    if "deletionTimestamp" in metadata:
        metadata["deletionTimestamp"] = text_at(metadata["deletionTimestamp"])
    if "startTime" in status:
        status["startTime"] = text_at(status["startTime"])
    if "conditions" in status:
        status["conditions"] = [
            {**condition, "lastTransitionTime": text_at(condition.get("lastTransitionTime"))}
            for condition in status["conditions"]
        ]
    return {"metadata": metadata, "spec": pod.get("spec", {}), "status": status}
