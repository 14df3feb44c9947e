"""`kubectl describe fhpa` is short, because the status leaves out what says nothing new."""

from __future__ import annotations

import pytest

from tests.support.describe import described
from tests.support.three_clusters import MAX_LINES, object_of, quiet_status

STORED = {
    "creationTimestamp": "2026-03-11T12:00:00Z",
    "generation": 2,
    "resourceVersion": "12",
    "uid": "0b5f9c1e-0000-4000-8000-000000000000",
}


@pytest.mark.parametrize(("mode", "most"), MAX_LINES.items())
def test_describe_of_three_clusters_is_short(mode: str, most: tuple[int, int]) -> None:
    """All lines without events, and the lines up to the type of Ready."""
    obj = object_of("web", "shop")
    obj["metadata"] |= STORED

    lines = described({**obj, "status": quiet_status(mode)})

    assert len(lines) <= most[0], "\n".join(lines)
    assert lines.index("Type: Ready") + 1 <= most[1], "\n".join(lines)
