"""Every scenario gets one line of output, whatever it holds."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fedhpa.api.times import parse_time
from fedhpa.assignment import ClusterState
from fedhpa.cli.replay import answer
from tests.support.scenarios import CPU, NOW, cluster, external, scenario

Path = tuple[str | int, ...]
START: Final = parse_time(NOW)

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
    """A scenario that uses every part of the format, but for a record."""
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


def recorded() -> dict[str, Any]:
    """A scenario of mode Distributed that carries a record with every field."""
    found = scenario([cluster("m1", [80], hpa={}), cluster("m2", [10], error="down")])
    del found["history"]
    found["federatedHPA"]["spec"]["mode"] = "Distributed"
    names = {*ClusterState.__struct_encode_fields__}
    assignment: dict[str, Any] = {name: START if name.endswith("Since") else 1 for name in names}
    assignment["lost"] = True
    away = {"replicas": 1, "state": "Missing", "seen": START, "scaled": START, "holdsHpa": True}
    record: dict[str, Any] = {
        "size": 3,
        "absences": {"m2": {"since": START, "back": START, "answered": 5}},
        "rebalance": {"requested": NOW, "since": START, "ended": "Rebalanced"},
        "history": {
            "recommendations": [{"time": START, "replicas": 2}],
            "scaleUps": [{"time": START, "change": 2}],
            "scaleDowns": [{"time": START, "change": 2}],
        },
        "clusters": {"m1": {"state": "Answered"}, "m2": {**away, "assignment": assignment}},
        "assignedFor": "0123456789abcdef/10",
        "course": {
            "written": START,
            "stepAt": START,
            "size": 1,
            "unconfirmed": ["m1"],
        },
    }
    return found | {"record": record}


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


def test_the_record_of_this_module_is_readable() -> None:
    """Only the replaced value of a hostile scenario may be at fault."""
    assert answer(msgspec.json.encode(recorded()))[1]


@given(
    st.sampled_from([(make, path) for make in (whole, recorded) for path in places(make())]),
    values,
    st.booleans(),
)
def test_any_value_anywhere_is_answered(
    place: tuple[Callable[[], dict[str, Any]], Path], value: Any, as_text: bool
) -> None:
    """With any one value replaced by any other, a scenario gives a decision or an error."""
    make, path = place
    hostile = copy.deepcopy(make())  # parts of it are constants
    parent: Any = hostile
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value

    line, _ = answer(msgspec.json.encode(hostile), as_text=as_text)

    assert line.endswith(b"\n")
    if not as_text:
        assert {"name", "error"} <= set(msgspec.json.decode(line))
        assert line.count(b"\n") == 1
