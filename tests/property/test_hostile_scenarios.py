"""Every scenario gets one line of output, whatever it holds."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fedhpa.cli.replay import answer
from tests.support.scenarios import CPU, NOW, cluster, external, scenario

Path = tuple[str | int, ...]

OTHERS: Final[list[Any]] = [
    {"type": "External", "external": {"metric": {"name": "queue"}, "target": {"value": "10"}}},
    {
        "type": "Object",
        "object": {
            "describedObject": {"kind": "Service", "name": "web"},
            "metric": {"name": "rps", "selector": {"matchLabels": {"a": "b"}}},
            "target": {"type": "AverageValue", "averageValue": "10"},
        },
    },
    {"type": "Pods", "pods": {"metric": {"name": "qps"}, "target": {"averageValue": "10"}}},
]
SAMPLE: Final = {"describedObject": {"kind": "Pod", "name": "web-0"}, "metric": {"name": "qps"}, "value": "1"}


def whole() -> dict[str, Any]:
    """A scenario that uses every part of the format."""
    present = cluster("m1", [80], externalMetrics=[external("queue", "9")], customMetrics=[SAMPLE], hpa={})
    away = cluster("m2", [10], error="down", lastReplicas=1)
    found = scenario(
        [present, away],
        spec={
            "metrics": [CPU, *OTHERS],
            "behavior": {"scaleUp": {"tolerance": "0.1", "policies": [{"type": "Pods", "value": 1}]}},
            "partialMetrics": {"policy": "Fallback", "lostAfterSeconds": 10, "fallbackReplicas": 3},
        },
        controller={"tolerance": 0.1, "downscaleStabilization": "5m"},
        hubMetrics={"externalMetrics": [external("queue", "1")]},
        history={
            "recommendations": [{"time": NOW, "replicas": 3}],
            "scaleUps": [{"time": NOW, "change": 3}],
            "scaleDowns": [],
        },
    )
    found["federatedHPA"]["status"] = {
        "conditions": [{"type": "AbleToScale", "status": "True", "lastTransitionTime": NOW}],
        "clusters": [{"name": "m2", "state": "Missing", "lastSeen": NOW}],
    }
    return found


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Returns the path of every key and index in a value."""
    keys: Any = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


values: st.SearchStrategy[Any] = st.one_of(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(),
    st.sampled_from(
        ["1e400", "-5", "9" * 2000, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "a in (b"]
    ),
    st.sampled_from([[], {}, [None], [{}], {"error": ""}, {"matchExpressions": [{}]}, {"matchLabels": [1]}]),
)


@given(st.sampled_from(list(places(whole()))), values, st.booleans())
def test_any_value_anywhere_is_answered(path: Path, value: Any, as_text: bool) -> None:
    """With any one value replaced by any other, a scenario gives a decision or an error."""
    hostile = copy.deepcopy(whole())
    parent: Any = hostile
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value

    line, _ = answer(msgspec.json.encode(hostile), as_text=as_text)

    assert line.endswith(b"\n")
    if not as_text:
        assert {"name", "error"} <= set(msgspec.json.decode(line))
        assert line.count(b"\n") == 1
