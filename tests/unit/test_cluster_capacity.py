"""The resource summary tells how many more replicas fit; without one that is unknown."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.federatedhpa.capacity import fits_by_summary, requests_of_replica
from fedhpa.api.known_cluster import known_cluster
from fedhpa.api.wire import Pod
from fedhpa.members.cluster import Cluster
from fedhpa.scaling.records import PodRecord, pod_record


def pod(*requests: dict[str, str], **spec: Any) -> PodRecord:
    """A pod with containers of these requests."""
    containers = [
        {"name": f"c{index}", "resources": {"requests": request}} for index, request in enumerate(requests)
    ]
    return pod_record("m1", msgspec.convert({"spec": {"containers": containers, **spec}}, Pod))


def cluster(**summary: Any) -> Cluster:
    """A Cluster with a resource summary."""
    return msgspec.convert({"metadata": {"name": "m1"}, "status": {"resourceSummary": summary}}, Cluster)


ALLOCATABLE = {"cpu": "4", "memory": "8Gi", "pods": "20"}


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        ({"allocatable": ALLOCATABLE}, 8),
        ({"allocatable": ALLOCATABLE, "allocated": {"cpu": "1500m", "memory": "1Gi"}}, 5),
        ({"allocatable": ALLOCATABLE, "allocated": {"cpu": "3"}, "allocating": {"cpu": "700m"}}, 0),
        ({"allocatable": ALLOCATABLE, "allocated": {"cpu": "9"}}, 0),
        ({"allocatable": ALLOCATABLE, "allocated": {"pods": "18"}}, 2),
        ({"allocatable": {"cpu": "4"}}, None),
        ({"allocatable": {**ALLOCATABLE, "cpu": "many"}}, None),
        ({}, None),
    ],
)
def test_what_fits(summary: dict[str, Any], expected: int | None) -> None:
    """The scarcest resource limits the replicas; a summary without one of the resources says nothing."""
    one_more = requests_of_replica([pod({"cpu": "300m", "memory": "64Mi"}, {"cpu": "200m"})])

    assert fits_by_summary(cluster(**summary), one_more) == expected


def test_without_a_summary_nothing_is_known() -> None:
    """Without a resource summary the capacity is unknown, as on a plain hub."""
    assert fits_by_summary(Cluster(), requests_of_replica([pod({"cpu": "1"})])) is None


def test_the_highest_requests_of_all_pods_count() -> None:
    """The highest request of any pod counts, because pods differ during a rollout."""
    found = requests_of_replica(
        [pod({"cpu": "100m"}), pod({"cpu": "50m", "memory": "1Ki"}), pod({"cpu": "100m"})]
    )

    assert found == {"pods": 1000, "cpu": 100, "memory": 1_024_000}


def test_a_cluster_is_known_by_what_affinities_look_at() -> None:
    """The fields for affinities are read; `zone` is the older form of `zones`."""
    raw = {"metadata": {"name": "m1", "labels": {"a": "b"}}, "spec": {"region": "eu", "zone": "eu-1"}}

    found = known_cluster(msgspec.convert(raw, Cluster))

    assert (found.name, found.labels, found.region, found.zones) == ("m1", {"a": "b"}, "eu", ("eu-1",))
