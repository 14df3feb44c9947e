"""Member HPAs on a real API server: its defaults, preconditions and versions."""

from __future__ import annotations

from typing import Any

import pytest

from controller.apply.member_hpas import NotOwned, apply_hpa, delete_hpa
from fedhpa.api.member_hpas import MANAGED_BY, PLURAL, V2, Owner, served_version, wanted_spec
from fedhpa.kube import SYSTEM, ApiClient, load_config, resource_path
from testbed.real.plane import Plane
from tests.real.workloads import namespace

SPACE = "member-hpas"
FEDERATED: dict[str, Any] = {
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
    "metrics": [
        {
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "0.5"}},
        },
        {
            "type": "External",
            "external": {
                "aggregation": "Sum",
                "metric": {"name": "queue", "selector": {"matchLabels": {"aggregation": "a"}}},
                "target": {"type": "Value", "value": "0.3k"},
            },
        },
    ],
}
BEHAVIORS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"scaleDown": {"stabilizationWindowSeconds": 60}},
    {"scaleUp": {"tolerance": "0.05", "policies": [{"type": "Pods", "value": 2, "periodSeconds": 30}]}},
    {"scaleUp": {"selectPolicy": "Disabled"}, "scaleDown": {"selectPolicy": "Min"}},
)


async def test_what_the_server_stores_is_no_drift_and_a_change_is(plane: Plane) -> None:
    """A second write over each of our own objects writes nothing. A change by kubectl is repaired."""
    async with ApiClient(await load_config(str(plane.members["member1"].kubeconfig), clock=SYSTEM)) as client:
        await client.post("/api/v1/namespaces", namespace(SPACE))
        groups = await client.get_json("/apis/autoscaling")
        assert served_version(each["groupVersion"] for each in groups["versions"]) == V2
        for number, behavior in enumerate(BEHAVIORS):
            name = f"web-{number}"
            path = resource_path(V2, PLURAL, SPACE, name)
            owner = Owner("hub", SPACE, name, "1")
            spec = wanted_spec({**FEDERATED, "behavior": behavior}, 2, 10, V2)

            assert await apply_hpa(client, owner, spec, V2)
            assert await apply_hpa(client, owner, spec, V2) == ()

            await client.patch(
                path, {"spec": {"maxReplicas": 11, "behavior": {"scaleUp": {"selectPolicy": "Min"}}}}
            )
            assert await apply_hpa(client, owner, spec, V2) == ("behavior", "maxReplicas")
            assert await apply_hpa(client, owner, spec, V2) == ()

            await client.patch(path, {"metadata": {"labels": {MANAGED_BY: None}}})
            with pytest.raises(NotOwned):
                await delete_hpa(client, owner, V2)
            await client.patch(path, {"metadata": {"labels": {MANAGED_BY: "fedhpa"}}})
            assert await delete_hpa(client, owner, V2)
            assert not await delete_hpa(client, owner, V2)
