"""On a real hub a user with the documented permissions finds out why a workload has its size."""

import asyncio
import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import aiohttp
import yaml

from testbed.real.plane import Plane
from testbed.stage.processes import CONTROLLER, Processes
from tests.real.settling import settled
from tests.real.workloads import federated_hpa, federated_hpa_path, run_everywhere, set_usage_everywhere
from tests.support.commands import fedhpa

SECONDS = 180.0  # usage is scraped every 10 s, and rates need two scrapes
NAME, SPACE = "web", "why"
READER, VIEWER = "why-reader", "why-viewer"
SCALE = "would scale 4 -> 6 replicas"


def granted(user: str, *rules: tuple[str, list[str], list[str]]) -> list[dict[str, Any]]:
    """Returns a ClusterRole for a user, from tuples of group, resources and verbs."""
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": user}}
    return [
        {
            **role,
            "kind": "ClusterRole",
            "rules": [
                {"apiGroups": [group], "resources": resources, "verbs": verbs}
                for group, resources, verbs in rules
            ],
        },
        {
            **role,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
            "subjects": [
                {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"},
                {"kind": "ServiceAccount", "name": user, "namespace": SPACE},
            ],
        },
    ]


RECORDS = ("fedhpa.io", ["scalingrecords"], ["get"])


async def test_why_it_has_its_size(plane: Plane, processes: Processes, tmp_path: Path) -> None:
    """explain needs the permission to get the object and its record. record, replay and preview need clusters
    and their Secrets. /decisions needs a token whose user may get the object.
    """
    await run_everywhere(plane, NAME, SPACE, replicas=2)
    await set_usage_everywhere(plane, NAME, SPACE, "450m")
    autoscaler = federated_hpa(NAME, SPACE, low=2, high=6)
    autoscaler["spec"]["dryRun"] = True
    kind = ("autoscaling.karmada.io", ["federatedhpas"])
    async with plane.hub.api() as hub:
        await hub.apply_all(
            [
                *granted(VIEWER, (*kind, ["get"]), RECORDS),
                *granted(
                    READER,
                    (*kind, ["get", "list"]),
                    RECORDS,
                    ("cluster.karmada.io", ["clusters"], ["list", "watch"]),
                    ("", ["secrets"], ["list", "watch"]),
                ),
                {
                    "apiVersion": "v1",
                    "kind": "ServiceAccount",
                    "metadata": {"name": VIEWER, "namespace": SPACE},
                },
            ]
        )
        await hub.apply_all([autoscaler])
        await hub.wait(
            federated_hpa_path(NAME, SPACE),
            lambda found: (found.get("status") or {}).get("desiredReplicas") == 6,
            what="six are wanted",
            seconds=SECONDS,
        )
        # On a busy machine a member may miss the deadline of one command, and the hub's authorizer learns of
        # the roles by a watch.
        explained = await settled(
            lambda: asked(plane, VIEWER, "explain", f"fhpa/{NAME}"), lambda ran: SCALE in ran.stdout
        )
        refused = await settled(
            lambda: asked(plane, VIEWER, "record", f"fhpa/{NAME}"), lambda ran: ran.returncode == 2
        )
        scenario = tmp_path / "scenario.json"
        recorded, replayed = await settled(lambda: replay(plane, scenario), lambda both: complete(both[1]))
        changed = tmp_path / "changed.yaml"
        changed.write_text(yaml.safe_dump(federated_hpa(NAME, SPACE, low=2, high=5)))
        previewed = await settled(
            lambda: asked(plane, READER, "preview", "-f", str(changed), "-o", "json"),
            lambda ran: ran.returncode == 0 and in_preview(ran) == (6, 5),
        )
        token = await hub.token(SPACE, VIEWER)
        shown = await settled(
            lambda: decisions(processes, token, name=NAME, namespace=SPACE),
            lambda found: found[0] == 200 and found[1]["items"][0]["decision"]["desiredReplicas"] == 6,
        )

        async def asked_for_more() -> list[int]:
            queries: tuple[tuple[str, dict[str, str]], ...] = (
                (token, {"namespace": SPACE}),
                (token, {}),
                ("none", {"namespace": SPACE}),
            )
            return [(await decisions(processes, given, **query))[0] for given, query in queries]

        hidden = await settled(asked_for_more, lambda found: found == [403, 403, 401])
        await hub.delete(federated_hpa_path(NAME, SPACE))

    assert explained.returncode == 0, explained.stderr
    assert SCALE in explained.stdout
    assert refused.returncode == 2
    assert "FederatedHPAs" in refused.stderr or "Clusters" in refused.stderr
    assert (recorded.returncode, replayed.returncode) == (0, 0), recorded.stderr
    decision = json.loads(replayed.stdout)
    assert (decision["currentReplicas"], decision["desiredReplicas"]) == (4, 6)
    assert sorted(decision["coverage"]["answered"]) == ["member1", "member2"]
    assert previewed.returncode == 0, previewed.stderr
    assert in_preview(previewed) == (6, 5)
    assert shown[0] == 200
    assert shown[1]["items"][0]["decision"]["desiredReplicas"] == 6
    assert hidden == [403, 403, 401]


async def replay(plane: Plane, scenario: Path) -> tuple[CompletedProcess[str], CompletedProcess[str]]:
    """Records into the file, replays it, and returns the results of both."""
    recorded = await asked(plane, READER, "record", f"fhpa/{NAME}", "-f", str(scenario))
    return recorded, await asyncio.to_thread(fedhpa, "replay", "-o", "json", str(scenario))


def complete(replayed: CompletedProcess[str]) -> bool:
    """True if the replayed decision had answers of both members."""
    if replayed.returncode != 0:
        return False
    return sorted(json.loads(replayed.stdout)["coverage"]["answered"]) == ["member1", "member2"]


def in_preview(previewed: CompletedProcess[str]) -> tuple[int, int]:
    """Returns the desired replicas now and with the change."""
    (preview,) = json.loads(previewed.stdout)
    return preview["now"]["desiredReplicas"], preview["then"]["desiredReplicas"]


async def asked(plane: Plane, user: str, *arguments: str) -> CompletedProcess[str]:
    """Runs the command as a user of the hub."""
    kubeconfig = f"--kubeconfig={plane.hub.user_kubeconfig(user)}"
    return await asyncio.to_thread(fedhpa, *arguments, kubeconfig, "-n", SPACE)


async def decisions(processes: Processes, token: str, **query: str) -> tuple[int, Any]:
    """Returns status and body of /decisions, which the controller serves beside its health here."""
    url = f"http://127.0.0.1:{processes.ports[CONTROLLER]}/decisions"
    headers = {"Authorization": f"Bearer {token}"}
    timeout = aiohttp.ClientTimeout(total=60)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(url, headers=headers, params=query) as response,
    ):
        return response.status, await response.json(content_type=None)
