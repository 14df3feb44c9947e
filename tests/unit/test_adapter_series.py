"""The adapter's series about members: availability, missing answers, and the age of answers."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest

from fedhpa.kube import SYSTEM
from fedhpa.members.cluster import Cluster, ClusterMeta
from fedhpa.members.member import Member
from metrics_adapter.adapter_series import Telemetry
from metrics_adapter.members.probes import Probe

USAGE, CUSTOM, EXTERNAL = "metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"


def member(name: str) -> Member:
    async def nothing() -> None:
        """There is no Secret to read again."""

    return Member(
        Cluster(metadata=ClusterMeta(name=name)), reread=nothing, clock=SYSTEM.monotonic, wall=SYSTEM.wall
    )


def shown(telemetry: Telemetry, name: str) -> list[str]:
    """Returns the samples of a series."""
    lines = generate_latest(telemetry.registry).decode().splitlines()
    return [line.removeprefix(name) for line in lines if line.startswith(f"{name}{{")]


def test_a_member_is_counted_by_api() -> None:
    """A member has no sample for an API before the first request. An unavailable member is down for all."""
    telemetry = Telemetry(lambda: {"m1": member("m1")})
    telemetry.outcome(CUSTOM, "m1", answered=False)
    telemetry.outcome(CUSTOM, "m1", answered=False)
    telemetry.outcome(CUSTOM, "m1", answered=True)
    telemetry.outcome(EXTERNAL, "m1", answered=False)

    assert shown(telemetry, "fedhpa_adapter_member_missing_total") == [
        f'{{api="{CUSTOM}",cluster="m1"}} 2.0',
        f'{{api="{EXTERNAL}",cluster="m1"}} 1.0',
    ]
    # Its credentials are unknown, so it counts as unavailable whatever it answered before.
    assert shown(telemetry, "fedhpa_adapter_member_api_answered") == [
        f'{{api="{CUSTOM}",cluster="m1"}} 0.0',
        f'{{api="{EXTERNAL}",cluster="m1"}} 0.0',
    ]
    assert shown(telemetry, "fedhpa_adapter_member_up") == ['{cluster="m1"} 0.0']


@pytest.mark.parametrize("probed", [True, False])
def test_series_of_health_follow_probes_alone(probed: bool) -> None:
    """No series that is called "up" changes with the requests of callers, in any API."""
    telemetry = Telemetry(lambda: {"m1": available("m1")})
    telemetry.probed("m1", Probe(probed, 0.1))
    before = health(telemetry)
    for api in (USAGE, CUSTOM, EXTERNAL):
        telemetry.outcome(api, "m1", answered=not probed)
    after = health(telemetry)

    assert before == after == {"fedhpa_adapter_member_up": float(probed)}


def health(telemetry: Telemetry) -> dict[str, float]:
    """Returns the values of all series that are called "up"."""
    return {
        sample.name: sample.value
        for family in telemetry.registry.collect()
        for sample in family.samples
        if sample.name.endswith("_up")
    }


def available(name: str) -> Member:
    """A member that is available, whatever its credentials are."""
    made = member(name)
    made.unavailable = lambda: None  # type: ignore[method-assign]
    return made


def test_a_member_that_left_leaves_no_series() -> None:
    """Clusters come and go for years in one process."""
    members = {"m1": member("m1")}
    telemetry = Telemetry(lambda: members)
    telemetry.outcome(USAGE, "m1", answered=False)
    before = shown(telemetry, "fedhpa_adapter_member_missing_total")
    members.clear()
    after = shown(telemetry, "fedhpa_adapter_member_missing_total")

    assert (len(before), after) == (1, [])
    assert shown(telemetry, "fedhpa_adapter_member_up") == []


def test_ages_of_answers_are_counted_by_api() -> None:
    """There are buckets on both sides of the maximum age."""
    telemetry = Telemetry(dict)
    telemetry.answered(USAGE, 0.0)
    telemetry.answered(USAGE, 9.0)
    buckets = shown(telemetry, "fedhpa_adapter_answer_age_seconds_bucket")

    assert f'{{api="{USAGE}",le="0.1"}} 1.0' in buckets
    assert f'{{api="{USAGE}",le="7.5"}} 1.0' in buckets
    assert f'{{api="{USAGE}",le="10.0"}} 2.0' in buckets
    assert f'{{api="{CUSTOM}",le="+Inf"}} 0.0' in buckets


def test_what_alarms_are_made_of_is_there_from_the_start() -> None:
    """increase() does not see a counter that appears with its first event."""
    telemetry = Telemetry(dict)

    assert shown(telemetry, "fedhpa_adapter_partial_answers_total") == [
        f'{{api="{api}"}} 0.0' for api in (CUSTOM, EXTERNAL, USAGE)
    ]
    assert len(shown(telemetry, "fedhpa_adapter_requests_in_flight")) == 4
