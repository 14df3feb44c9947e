"""`fedhpa migrate hpa` reads an HPA of a member or of the hub, and the hub admits its output."""

from __future__ import annotations

import asyncio
from pathlib import Path

import yaml

from tests.support.commands import fedhpa
from tests.support.installation import FHPAS, HPAS, installation

HPA = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web", "namespace": "shop", "annotations": {"note\n- hostile: x": "y"}},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 2,
        "maxReplicas": 6,
    },
}


async def test_an_hpa_of_a_member_becomes_a_dry_run_on_the_hub(tmp_path: Path) -> None:
    """Comments are above the object, the next commands on stderr. An absent HPA is one line with a hint."""
    async with installation(tmp_path) as made:
        member = made.plane.members["m1"]
        member.store.create(HPAS, HPA)
        hub, own = str(made.hub.kubeconfig), str(member.kubeconfig)
        of_member = ("--cluster-kubeconfig", own)
        ran = await asyncio.to_thread(fedhpa, "migrate", "hpa", "web", "-n", "shop", *of_member)
        absent = await asyncio.to_thread(fedhpa, "migrate", "hpa", "web", "-n", "shop", "--kubeconfig", hub)
        made.delete(FHPAS, "web", "shop")
        (manifest,) = yaml.safe_load_all(ran.stdout)
        async with made.hub.api() as api:
            stored = await api.apply(manifest)

    assert ran.returncode == 0
    assert stored["spec"]["dryRun"] is True
    assert (stored["spec"]["minReplicas"], stored["spec"]["maxReplicas"]) == (2, 6)
    comments = [line for line in ran.stdout.splitlines() if line.startswith("#")]
    assert len(comments) == 2
    assert ran.stderr.splitlines()[0] == "next, apply the object and compare:"
    assert (absent.returncode, absent.stdout) == (2, "")
    assert absent.stderr == (
        "fedhpa: HorizontalPodAutoscaler shop/web not found: "
        "for an HPA of a member add --cluster-kubeconfig\n"
    )
