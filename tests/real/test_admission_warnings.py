"""kubectl prints the admission warnings beside the verdict, on the real API server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.real.plane import Plane
from testbed.stage.api import PlaneApi
from testbed.stage.processes import WEBHOOK, Processes
from tests.real.settling import kubectl, settled
from tests.real.workloads import deployment, federated_hpa, federated_hpa_path, namespace

SPACE = "warned"
AUTOSCALING = "autoscaling.karmada.io/v1alpha1"


def cron(name: str, target: dict[str, str], **rule: Any) -> dict[str, Any]:
    rules = [{"name": "morning", "schedule": "0 8 * * *", "timeZone": "Europe/Berlin", **rule}]
    return {
        "apiVersion": AUTOSCALING,
        "kind": "CronFederatedHPA",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"scaleTargetRef": target, "rules": rules},
    }


def hpa(name: str, target: str) -> dict[str, Any]:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"scaleTargetRef": reference, "maxReplicas": 3},
    }


async def rights(reader: str, authority: Path) -> list[dict[str, Any]]:
    """Returns the output of `fedhpa webhook-config --reader` without the existing registration."""
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("fedhpa")),
        *("webhook-config", "--url=https://127.0.0.1", f"--reader={reader}", f"--ca-file={authority}"),
        "--propagation=karmada",
        stdout=subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, _ = await process.communicate()
    documents: Iterator[dict[str, Any]] = yaml.safe_load_all(out)
    return [document for document in documents if document["kind"].startswith("ClusterRole")]


@asynccontextmanager
async def reading_the_hub(plane: Plane, processes: Processes, hub: PlaneApi) -> AsyncIterator[None]:
    """Runs the webhook with a kubeconfig of the documented permissions only."""
    await hub.apply_all(await rights(WEBHOOK, processes.folder / "ca.crt"))
    await processes.kill(WEBHOOK)
    try:
        kubeconfig = f"--kubeconfig={plane.hub.user_kubeconfig(WEBHOOK)}"
        await processes.start_one(WEBHOOK, kubeconfig, "--propagation=karmada")
        await processes.webhook_is_called()
        yield
    finally:
        await processes.kill(WEBHOOK)
        await processes.start_one(WEBHOOK)
        await processes.webhook_is_called()


@pytest.fixture
async def hub(plane: Plane) -> AsyncIterator[PlaneApi]:
    async with plane.hub.api() as api:
        await api.apply_all([namespace(SPACE)])
        yield api


async def shown(plane: Plane, manifest: dict[str, Any]) -> list[str]:
    """Returns the warnings that kubectl prints. The object must be admitted."""
    answer = await kubectl(
        plane.hub,
        *("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-"),
        stdin=json.dumps(manifest),
    )
    assert answer.code == 0, answer.err
    return [
        line.removeprefix("Warning: ") for line in answer.err.splitlines() if line.startswith("Warning: ")
    ]


def left_over() -> list[str]:
    """Returns the paths of the objects that own one Deployment. They are removed, because a later test starts
    an autoscaler on this hub.
    """
    return [
        federated_hpa_path("mine", SPACE),
        federated_hpa_path("theirs", SPACE),
        f"/apis/autoscaling/v2/namespaces/{SPACE}/horizontalpodautoscalers/plain",
        f"/apis/apps/v1/namespaces/{SPACE}/deployments/mine",
    ]


async def test_sound_objects_pass_where_warnings_are_errors(
    plane: Plane, hub: PlaneApi, processes: Processes
) -> None:
    """A pipeline with --warnings-as-errors applies sound objects, and stops at an object with a warning."""
    target = {"apiVersion": AUTOSCALING, "kind": "FederatedHPA", "name": "sound"}
    evening = {"name": "evening", "schedule": "0 20 * * *", "timeZone": "UTC", "targetMinReplicas": 1}
    calendar = cron("sound", target, targetMinReplicas=2, duration="4h", excludeDates=["2026-12-25"])
    calendar["spec"]["rules"].append(evening)
    odd = cron("odd", target, targetMinReplicas=2, duration="4h", schedule="0 8 13 * FRI")

    async def applied(manifest: dict[str, Any], code: int) -> str:
        command = ("apply", "--warnings-as-errors", "--dry-run=server", "-f", "-")
        answer = await kubectl(plane.hub, *command, stdin=json.dumps(manifest), code=code)
        assert answer.code == code, answer.err
        return answer.err

    assert await applied(federated_hpa("sound", SPACE, low=1, high=3), 0) == ""
    assert await applied(calendar, 0) == ""
    assert await applied(odd, 1) == (
        "Warning: spec.rules[0] (morning): fires on day-of-month 13 and also on every day-of-week FRI, "
        "because one match is enough; write * in the field that does not matter\n"
        "error: 1 warning received\n"
    )


async def test_other_objects_on_the_hub_are_warned_about(
    plane: Plane, hub: PlaneApi, processes: Processes
) -> None:
    """The webhook warns of a missing target, of a second and a third owner, and of a minimum above the
    present maximum.
    """
    mine = federated_hpa("mine", SPACE, low=1, high=3)
    theirs = federated_hpa("theirs", SPACE, low=1, high=3)
    theirs["spec"]["scaleTargetRef"]["name"] = "mine"
    target = {"apiVersion": AUTOSCALING, "kind": "FederatedHPA", "name": "mine"}
    calendar = cron("calendar", target, targetMinReplicas=5)

    async with reading_the_hub(plane, processes, hub):
        # If the hub's answer comes too late for one request, the next request has it.
        missing = await settled(lambda: shown(plane, mine), bool)
        await hub.apply_all([deployment("mine", SPACE, replicas=1), mine, theirs, hpa("plain", "mine")])
        try:
            # The webhook learns of other owners at once by a watch. It caches a missing target for seconds.
            owners = await settled(
                lambda: shown(plane, mine),
                lambda found: len(found) == 1 and '"theirs"' in found[0] and '"plain"' in found[0],
            )
            crossed = await settled(
                lambda: shown(plane, calendar), lambda found: any("maxReplicas 3" in text for text in found)
            )
        finally:
            for path in left_over():
                await hub.delete(path)

    assert missing == ['spec.scaleTargetRef: Deployment "mine" does not exist in namespace "warned"']
    assert owners == [
        (
            'spec.scaleTargetRef: Deployment "mine" is the target of FederatedHPA "theirs" and '
            'HorizontalPodAutoscaler "plain" too; they will overwrite one another'
        )
    ]
    assert any("minReplicas 5, above the maxReplicas 3" in text for text in crossed)
    assert not any("overwrite" in text for text in crossed)


async def test_a_refusal_of_the_schema_comes_with_what_to_write(
    plane: Plane, hub: PlaneApi, processes: Processes
) -> None:
    """The defaulting webhook runs before the schema's validation. Its warnings name each mistake once."""
    wrong = federated_hpa("wrong", SPACE, low=1, high=3)
    wrong["spec"]["metrics"][0]["type"] = "Memory"
    quoted = federated_hpa("quoted", SPACE, low=1, high=3)
    quoted["spec"]["maxReplicas"] = "3"

    async def refused(manifest: dict[str, Any]) -> str:
        # The webhook's registration admits an object if the webhook does not answer in time.
        answer = await kubectl(
            plane.hub, "create", "-f", "-", stdin=json.dumps(manifest), code=1, words="Warning: "
        )
        assert answer.code != 0
        return answer.err

    by_schema, by_type = await refused(wrong), await refused(quoted)

    assert 'The FederatedHPA "wrong" is invalid' in by_schema
    assert by_schema.count("Warning: spec.metrics[0].type: write Resource, which has the field resource") == 1
    assert by_type.startswith("Warning: spec.maxReplicas: write 3 without quotes\n")
