"""A status stays small enough for an API server, for any messages and any number of members."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.support.scenarios import answered, cluster, scenario

MOST = 4096


def away(name: str, error: str) -> dict[str, Any]:
    return {"name": name, "ready": False, "error": error, "scale": {"error": error}}


def test_a_thousand_missing_clusters_are_told_of_in_one_message() -> None:
    """The first by name and reason, and how many more; each has its own entry beside."""
    given = scenario([cluster("m0", [50]), *(away(f"m{i}", "no answer within 3 s") for i in range(1, 1001))])

    answer = answered(given)
    message = next(c["message"] for c in answer["conditions"] if c["type"] == "MetricsComplete")

    assert message.startswith("m1: no answer within 3 s, since 2026-03-11T13:23:17Z; m2: ")
    assert message.endswith("and 984 more clusters")
    assert len(answer["status"]["clusters"]) == 1001


def test_a_verbose_member_is_cut_short() -> None:
    """In conditions and in its own entry."""
    given = scenario([cluster("m1", [50], podMetrics={"error": "x" * 100_000}), away("m2", "y" * 100_000)])

    answer = answered(given)

    assert max(len(condition["message"]) for condition in answer["conditions"]) <= MOST
    assert max(len(entry.get("message", "")) for entry in answer["status"]["clusters"]) <= 512
    assert len(msgspec.json.encode(answer["status"])) < 20_000
