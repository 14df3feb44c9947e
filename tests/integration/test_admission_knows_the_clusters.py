"""Warnings about unknown clusters, from a webhook that reads an embedded hub."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fedhpa.admission import crd
from fedhpa.api import rights
from testbed.embedded.controlplane import ControlPlane
from testbed.stage.waiting import eventually as soon
from tests.integration.test_admission_reads_the_hub import admitting, deployment, fhpa, warned
from tests.support.embedded_plane import have_patience
from tests.support.fakeapi import PATIENCE


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    have_patience(monkeypatch)


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    plane = ControlPlane(tmp_path / "hub", "hub")
    await plane.start()
    try:
        async with plane.api() as api:
            kinds = (crd.FEDERATED_HPA, crd.CRON_FEDERATED_HPA, crd.CLUSTER)
            await api.apply_all([crd.custom_resource_definition(kind) for kind in kinds])
            await api.apply_all([*rights.rights_of("webhook", rights.user("fedhpa-webhook")), deployment()])
        yield plane
    finally:
        await plane.end()


def cluster(name: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name, "labels": labels},
        "spec": {"syncMode": "Push"},
    }


async def test_an_unknown_cluster_gets_a_warning(plane: ControlPlane, tmp_path: Path) -> None:
    """The warning names the field. It ends when a matching cluster is registered."""
    gold = {"labelSelector": {"matchLabels": {"tier": "gold"}}}
    preferences = [{"targetCluster": gold}]
    odd = fhpa(
        "odd",
        clusterAffinity={"clusterNames": ["member1", "membr2"]},
        federatedHPAAssignment={"clusterAutoscalingPreference": preferences},
    )
    expected = [
        ('spec.clusterAffinity.clusterNames[1]: "membr2" is not a known cluster; known: member1'),
        (
            "spec.federatedHPAAssignment.clusterAutoscalingPreference[0].targetCluster: "
            "selects no known cluster; known: member1"
        ),
    ]
    async with admitting(plane, tmp_path), plane.api() as hub:
        await hub.apply(cluster("member1", tier="iron"))

        async def both_warnings() -> bool:
            return await warned(hub, odd) == expected

        await soon(both_warnings, what="both selections are warned about", seconds=PATIENCE)
        await hub.apply(cluster("membr2", tier="gold"))

        async def silent() -> bool:
            return await warned(hub, odd) == []

        await soon(silent, what="the new cluster is known", seconds=PATIENCE)


async def test_a_hub_without_the_cluster_api_causes_no_warning(plane: ControlPlane, tmp_path: Path) -> None:
    """The webhook cannot know the clusters of such a hub."""
    async with plane.api() as hub:
        await hub.delete(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusters.cluster.karmada.io"
        )
    async with admitting(plane, tmp_path), plane.api() as hub:
        assert await warned(hub, fhpa("odd", clusterAffinity={"clusterNames": ["membr2"]})) == []
