"""The doctor on FederatedHPAs of mode Distributed: their member HPAs, and the rights to write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedhpa.api import rights
from fedhpa.api.member_hpas import MANAGED_BY, MANAGER
from fedhpa.api.rights import Switches
from testbed.stage.registrations import NAMESPACE
from tests.support.installation import CLUSTER_ROLES, FHPAS, HPAS, Installation, installation, merge


def grant(made: Installation, *, distributed: bool) -> None:
    """Gives the hub's token its printed rights in both members."""
    switches = Switches("direct", distributed=distributed)
    (role,) = [
        each
        for each in rights.member_rights(NAMESPACE, switches=switches)
        if (each["kind"], each["metadata"]["name"]) == ("ClusterRole", "fedhpa:member")
    ]
    for member in made.plane.members.values():
        merge(member.store, CLUSTER_ROLES, "fedhpa:member", rules=role["rules"])


def distribute(made: Installation, labels: dict[str, str]) -> None:
    """Changes the mode of the FederatedHPA, and makes an HPA of its target in one member."""
    made.edit(FHPAS, "web", "shop", spec={"mode": "Distributed"})
    hpa: dict[str, Any] = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop", "labels": labels},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 3,
        },
    }
    made.plane.members["m1"].store.create(HPAS, hpa)


@pytest.mark.parametrize(
    ("labels", "expected"), [({MANAGED_BY: MANAGER}, []), ({}, ["second-owner"])], ids=["ours", "foreign"]
)
async def test_a_member_hpa_of_ours_is_no_second_owner(
    tmp_path: Path, labels: dict[str, str], expected: list[str]
) -> None:
    async with installation(tmp_path) as made:
        grant(made, distributed=True)
        distribute(made, labels)
        report = await made.diagnosis()

    assert [each.id for each in report.findings] == expected


async def test_a_token_that_may_not_write_hpas_is_found(tmp_path: Path) -> None:
    """The command grants what mode Distributed needs."""
    async with installation(tmp_path) as made:
        grant(made, distributed=False)
        distribute(made, {MANAGED_BY: MANAGER})
        report = await made.diagnosis()

    assert {each.id for each in report.findings} == {"member-rights-missing"}
    assert "create horizontalpodautoscalers.autoscaling" in report.findings[0].what
    command = "fedhpa rbac member -n fedhpa-system --propagation=direct --distributed | kubectl apply -f -"
    assert command in report.findings[0].advice
