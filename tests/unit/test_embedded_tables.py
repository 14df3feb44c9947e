"""Tables of the embedded plane: ages and columns of every built-in kind."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from testbed.embedded.api.tables import table
from testbed.embedded.api.types import Object
from testbed.embedded.objects.kinds import BUILTIN, Kind

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
KIND = Kind("example.com", "v1", "things", "Thing", custom=True)


def named(name: str, **fields: Any) -> Object:
    return {"metadata": {"name": name, "creationTimestamp": "2026-03-01T11:59:55Z"}, **fields}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (119, "119s"), (120, "2m"), (10799, "179m"), (10800, "3h"), (172800, "2d")],
)
def test_ages_are_as_kubectl_prints_them(seconds: int, text: str) -> None:
    """Seconds, minutes, hours, days; never negative."""
    made = table(KIND, named("a"), NOW + timedelta(seconds=seconds - 5))

    assert made["rows"][0]["cells"] == ["a", text]


@pytest.mark.parametrize("kind", BUILTIN, ids=lambda kind: kind.kind)
def test_every_kind_has_a_table(kind: Kind) -> None:
    """An empty object has a cell for each column."""
    made = table(kind, {"items": [named("a")], "metadata": {"resourceVersion": "1"}}, NOW)

    assert [len(row["cells"]) for row in made["rows"]] == [len(made["columnDefinitions"])]
