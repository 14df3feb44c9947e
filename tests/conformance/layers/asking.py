"""Sends the objects to an API server with the CRDs and without the webhook."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Iterable
from typing import Any

from fedhpa.admission import crd
from testbed.stage.api import PlaneApi, has_condition
from testbed.stage.waiting import eventually

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KINDS = {"FederatedHPA": "federatedhpas", "CronFederatedHPA": "cronfederatedhpas"}
NAMESPACE = "/apis/autoscaling.karmada.io/v1alpha1/namespaces/default"


async def install(api: PlaneApi) -> None:
    """Applies the CRDs and waits until the API server serves both kinds."""
    manifests = [crd.custom_resource_definition(each) for each in (crd.FEDERATED_HPA, crd.CRON_FEDERATED_HPA)]
    await api.apply_all(manifests)
    for manifest in manifests:
        await api.wait(
            f"{DEFINITIONS}/{manifest['metadata']['name']}",
            functools.partial(has_condition, kind="Established"),
            what=f"CRD {manifest['metadata']['name']} is served",
            seconds=120,
        )

    async def poll() -> bool:
        for plural in KINDS.values():
            await api.get(f"{NAMESPACE}/{plural}")
        return True

    await eventually(poll, what="the kinds are served", seconds=120)


async def answers(api: PlaneApi, objects: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, list[str]]:
    """Returns the errors of each object, [] if it is admitted. Nothing is stored."""
    at_once = asyncio.Semaphore(8)

    async def ask(name: str, manifest: dict[str, Any]) -> tuple[str, list[str]]:
        async with at_once:
            return name, await refusal(api, manifest)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(name, manifest)) for name, manifest in objects]
    return dict(task.result() for task in tasks)


async def refusal(api: PlaneApi, manifest: dict[str, Any]) -> list[str]:
    """Returns the sorted causes of a refusal, each as `field: message`; [] if the object is admitted."""
    path = f"{NAMESPACE}/{KINDS[manifest['kind']]}"
    status, _, body = await api.request("POST", path, body=manifest, params={"dryRun": "All"})
    if status == 201:
        return []
    said = json.loads(body)
    causes = (said.get("details") or {}).get("causes") or [{"message": said["message"]}]
    found = [": ".join(filter(None, (cause.get("field", ""), cause["message"]))) for cause in causes]
    return sorted(found)  # Their order is that of Go's maps.
