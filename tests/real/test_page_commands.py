"""Commands and objects of the how-to pages on a real hub, without the steps between them.

`test_install_page.py` runs those of install.md in full, at night.
"""

from __future__ import annotations

import subprocess
import sys
from asyncio import to_thread
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.real.plane import Plane
from testbed.stage.processes import Processes
from tests.real.settling import kubectl
from tests.real.workloads import deployment, federated_hpa_path, namespace
from tests.support.chart import render
from tests.support.page_commands import BLOCK, DOCS, commands
from tests.support.tutorial import blocks

INSTALL = "how-to/install.md"
PAGES = (INSTALL, "how-to/migrate-from-hpa.md", "how-to/register-a-cluster.md")
SPACE, NAME = "shop", "web"
SECONDS = 180.0


def hpa() -> dict[str, Any]:
    """Returns an HPA of the workload, as `kubectl autoscale` makes it."""
    target = {"type": "Utilization", "averageUtilization": 60}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": NAME, "namespace": SPACE},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
            "minReplicas": 2,
            "maxReplicas": 10,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }


def decided(found: Any) -> bool:
    """True once the controller has written a status."""
    return bool((found.get("status") or {}).get("conditions"))


def forms(page: str) -> dict[tuple[str, ...], list[str]]:
    """Returns one command of kubectl and helm for each combination of words and names of flags."""
    found = {}
    for words in commands((DOCS / page).read_text(encoding="utf-8")):
        if words[0] != "fedhpa":
            names = {word.partition("=")[0] for word in words if word.startswith("-")}
            found[(*words[:3], *sorted(names))] = words
    return found


@pytest.mark.parametrize("page", PAGES)
def test_flags_of_the_pages_exist(assets: Path, page: str) -> None:
    """kubectl and helm know the commands of the page and their flags. They only print their help."""
    found = forms(page)
    wrong = {}
    for words in found.values():
        given = words[1 : words.index("--")] if "--" in words else words[1:]
        done = subprocess.run(
            [str(assets / words[0]), *given, "--help"],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode:
            wrong[" ".join(words)] = done.stderr

    assert found
    assert wrong == {}


def test_argo_ignores_each_ca_bundle_of_the_chart(assets: Path) -> None:
    """The settings on the page of GitOps name exactly the registrations that get a caBundle at run time."""
    page = (DOCS / "how-to" / "gitops.md").read_text(encoding="utf-8")
    settings = next(yaml.safe_load(text) for text in BLOCK.findall(page) if "caBundle" in text)
    ignored = {(each["kind"], each.get("name", "")) for each in settings["ignoreDifferences"]}
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "APIService")
    rendered = {key for key in render(assets / "helm") if key[0] in kinds}

    assert {(kind, "" if kind == "APIService" else name) for kind, name in rendered} == ignored


async def test_objects_of_the_install_page_are_admitted(plane: Plane, processes: Processes) -> None:
    """A hub with the webhook accepts each object of the page."""
    assert processes.ports
    page = (DOCS / INSTALL).read_text(encoding="utf-8")
    manifests = ["\n".join(lines) for lines in blocks(page, "yaml") if "apiVersion:" in "\n".join(lines)]
    async with plane.hub.api() as api:
        await api.apply_all([namespace(SPACE)])
    answers = [
        await kubectl(plane.hub, "apply", "--dry-run=server", "--filename=-", stdin=manifest)
        for manifest in manifests
    ]

    assert len(answers) == 2
    assert [answer.code for answer in answers] == [0, 0], answers


async def test_the_commands_of_the_migration_hand_over(
    plane: Plane, processes: Processes, assets: Path, tmp_path: Path
) -> None:
    """The blocks of the page, run in their order, end with an active FederatedHPA and without the HPA."""
    assert processes.ports
    member = plane.members["member1"]
    path = federated_hpa_path(NAME, SPACE)
    hpas = f"/apis/autoscaling/v2/namespaces/{SPACE}/horizontalpodautoscalers"
    page = (DOCS / "how-to" / "migrate-from-hpa.md").read_text(encoding="utf-8")
    steps = BLOCK.findall(page)
    (tmp_path / "member1.config").write_bytes(member.kubeconfig.read_bytes())
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{assets}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(plane.hub.kubeconfig),
    }
    assert len(steps) == 4
    async with plane.hub.api() as hub, member.api() as api:
        await hub.apply_all([namespace(SPACE)])
        await api.apply_all([namespace(SPACE), deployment(NAME, SPACE, replicas=2), hpa()])
        try:
            for script in steps:
                # The controller decides a moment after the object exists.
                if "explain" in script:
                    await hub.wait(path, decided, what="the controller has decided", seconds=SECONDS)
                done = await to_thread(
                    subprocess.run,
                    ["bash", "-euc", script],
                    cwd=tmp_path,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=SECONDS,
                    check=False,
                )
                assert done.returncode == 0, (script, done.stdout, done.stderr)
                if script.startswith("kubectl apply"):
                    assert (await hub.get(path))["spec"]["dryRun"] is True
            active = await hub.get(path)
            left = await api.get(hpas)
        finally:
            await hub.delete(path)
            await api.delete(f"{hpas}/{NAME}")
            await api.delete(f"/apis/apps/v1/namespaces/{SPACE}/deployments/{NAME}")

    assert active["spec"]["dryRun"] is False
    assert active["spec"]["maxReplicas"] == 10
    assert [one["metadata"]["name"] for one in left["items"]] == []
