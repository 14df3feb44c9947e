"""The record keeps every field of the state of mode Distributed."""

from __future__ import annotations

import msgspec
import pytest

from fedhpa.assignment import ClusterState, Course
from tests.support.distributed import NOW

FULL = ClusterState(minimum=1, floor=3, maximum=2, lost=True, zero_since=NOW, idle_since=NOW)
COURSE = Course(written=NOW, step_at=NOW, size=4, unconfirmed=("m1",))


@pytest.mark.parametrize("full", [FULL, COURSE], ids=["cluster", "course"])
def test_every_field_is_stored(full: msgspec.Struct) -> None:
    """JSON keeps them, and leaves out what is not set. The example sets each of them."""
    default = type(full)()

    assert [name for name in full.__struct_fields__ if getattr(full, name) == getattr(default, name)] == []
    assert msgspec.json.decode(msgspec.json.encode(full), type=type(full)) == full
    assert msgspec.json.encode(default) == b"{}"


def test_a_cluster_has_at_most_eight_fields() -> None:
    """Each field is one more thing that can be wrong after a restart. `holds_hpa` stands beside them."""
    assert len(ClusterState.__struct_fields__) + len(("holds_hpa",)) <= 8


def test_a_state_of_another_release_is_read() -> None:
    """Fields that this one does not know are skipped."""
    known = msgspec.json.decode(
        b'{"minimum":1,"maximum":4,"given":3,"cap":{"replicas":2}}', type=ClusterState
    )

    assert known == ClusterState(minimum=1, maximum=4)
