"""Tables for `kubectl get`: columns of paths, and ages as people read them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from testbed.embedded.api.tables import at, table
from testbed.embedded.api.types import Object
from testbed.embedded.objects.kinds import BUILTIN, Kind

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
KIND = Kind("example.com", "v1", "things", "Thing", custom=True)


def named(name: str, **fields: Any) -> Object:
    return {"metadata": {"name": name, "creationTimestamp": "2026-03-01T11:59:55Z"}, **fields}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (200, "3m20s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (48 * 3600 - 1, "47h"),
        (48 * 3600, "2d"),
        (-5, "0s"),
    ],
)
def test_ages_are_as_kubectl_prints_them(seconds: int, text: str) -> None:
    """Seconds, minutes with seconds, minutes, hours, days; never negative."""
    made = table(KIND, named("a"), NOW + timedelta(seconds=seconds - 5), {})

    assert made["rows"][0]["cells"] == ["a", text]


def test_paths_find_fields_and_items() -> None:
    """A path that leads nowhere finds nothing."""
    obj = {
        "spec": {"n": 3},
        "status": {"conditions": [{"type": "Other"}, {"type": "Ready", "status": "True"}]},
    }
    paths = (".spec.n", '.status.conditions[?(@.type=="Ready")].status', ".spec.n.deeper", ".status.none")

    assert [at(path)(obj) for path in paths] == [3, "True", None, None]


def test_a_row_holds_what_was_asked_for() -> None:
    """Metadata alone unless the client wants the whole object, or nothing."""
    shown = [
        table(KIND, named("a", spec={}), NOW, {"includeObject": wanted})["rows"][0]["object"]
        for wanted in ("Metadata", "Object", "None")
    ]

    assert [sorted(each) if each else each for each in shown] == [
        ["apiVersion", "kind", "metadata"],
        ["apiVersion", "kind", "metadata", "spec"],
        None,
    ]


@pytest.mark.parametrize("kind", BUILTIN, ids=lambda kind: kind.kind)
def test_every_kind_can_be_shown(kind: Kind) -> None:
    """An object with nothing in it has a cell for each column."""
    made = table(kind, {"items": [named("a")], "metadata": {"resourceVersion": "1"}}, NOW, {})

    assert [len(row["cells"]) for row in made["rows"]] == [len(made["columnDefinitions"])]
