"""The six commands of docs/how-to/use-your-fleet.md lead from ClusterProfiles to a scaled workload.

Besides what test_install_page.py has, the following stands in for what a person has:

| on the page | here |
|---|---|
| a fleet manager | The test writes ClusterProfiles, and Secrets with the tokens. |
| `REGISTRY/plugins`, an init container | The test puts a script into the volume, which runs the plugin. |
| the account of the plugin's pod | The script gives the plugin a kubeconfig of that account. |
| `servers` of the clusters | 127.0.0.1, because all planes run on this machine. |
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from contextlib import AsyncExitStack
from pathlib import Path

import yaml

from fedhpa.api import rights
from testbed.real.assets import module_sources
from testbed.real.member import Member
from testbed.real.tools import TOOLS
from testbed.stage import gather, has_condition
from testbed.stage.registrations import namespace
from tests.real.helm import RenderedProcess
from tests.real.pods import empty_clusters
from tests.real.test_fleets_of_others import PROFILE_PATH, described
from tests.real.test_install_page import COMMAND_SECONDS, PAGE, checkout, use
from tests.real.workloads import BUSY
from tests.support.chart import NAMESPACE
from tests.support.nightly import only_at_night
from tests.support.tutorial import ROOT, Terminal, blocks, save_manifests, started, steps

FLEET_PAGE = ROOT / "docs" / "how-to" / "use-your-fleet.md"
SERVERS = 'servers: ["*.example.com", 10.0.0.0/8]'
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def fleet(hub: Member, members: dict[str, Member]) -> None:
    """Writes what a fleet manager writes: the CRD, and a profile for each cluster."""
    tool = next(tool for tool in TOOLS if tool.name == "secretreader")
    file = module_sources(tool) / "config/crd/bases/multicluster.x-k8s.io_clusterprofiles.yaml"
    crd = yaml.safe_load(file.read_text(encoding="utf-8"))
    async with hub.api() as api:
        await api.apply_all([crd, namespace("fleet"), namespace(NAMESPACE)])
        path = f"{CRDS}/{crd['metadata']['name']}"
        await api.wait(path, lambda found: has_condition(found, kind="Established"), what="CRD", seconds=120)
        for member in members.values():
            made, status = described(member)
            await api.apply(made)
            stored = await api.get(f"{PROFILE_PATH}/{member.name}")
            await api.send("PUT", f"{PROFILE_PATH}/{member.name}/status", body={**stored, "status": status})


async def tokens(hub: Member, members: dict[str, Member]) -> None:
    """Writes the Secrets that the plugin reads, with tokens of the account that the page gives rights."""
    async with hub.api() as api:
        for member in members.values():
            async with member.api() as there:
                token = await there.token(rights.NAMESPACE, rights.MEMBER)
            data = {"token": base64.b64encode(token.encode()).decode()}
            metadata = {"name": member.name, "namespace": NAMESPACE}
            await api.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


@only_at_night
async def test_six_commands_lead_to_a_scaled_workload(assets: Path, tmp_path: Path) -> None:
    """Each command prints what the page shows, and the last one ends once the workload has grown."""
    page = FLEET_PAGE.read_text(encoding="utf-8")
    commands = [step for block in blocks(page, "console") for step in steps(block)]
    assert len(commands) == 6

    def prepare(process: RenderedProcess, account: Path) -> None:
        if process.name == "webhook":
            return
        plugins = process.folder / "plugins"
        plugins.mkdir()
        kubeconfig = yaml.safe_load(account.read_text(encoding="utf-8"))
        kubeconfig["contexts"][0]["context"]["namespace"] = NAMESPACE
        (plugins / "account").write_text(json.dumps(kubeconfig), encoding="utf-8")
        script = plugins / "secretreader"
        script.write_text(f"#!/bin/sh\nKUBECONFIG={plugins}/account exec {assets}/secretreader\n")
        script.chmod(0o755)

    async with AsyncExitStack() as stack:
        hub, members = await stack.enter_async_context(empty_clusters(assets, "member1", "member2"))
        await fleet(hub.cluster, members)
        folder = checkout(tmp_path / "fedhpa", {"hub": hub.cluster, **members})
        save_manifests(PAGE.read_text(encoding="utf-8"), folder)
        save_manifests(page, folder)
        values = folder / "values.yaml"
        text = values.read_text(encoding="utf-8")
        assert SERVERS in text
        values.write_text(text.replace(SERVERS, 'servers: ["127.0.0.1"]'), encoding="utf-8")
        await use(members, BUSY)
        for member in members.values():
            done = await member.kubectl("apply", "-f", str(folder / "web.yaml"))
            assert done.code == 0, done.err
        environment = os.environ | {
            "PATH": f"{folder / '.venv' / 'bin'}:{assets}:/usr/bin:/bin",
            "HOME": str(tmp_path),
            "KUBECONFIG": str(folder / "hub.kubeconfig"),
        }
        shell = stack.enter_context(started(["bash", "--noprofile", "--norc"], environment, folder))
        terminal = Terminal(shell, COMMAND_SECONDS)
        for step in commands:
            await asyncio.to_thread(terminal.check, step)
            if "rbac member" in step.command:
                await tokens(hub.cluster, members)
            elif step.command.startswith("helm install"):
                await hub.run_pods(prepare)
        found = await gather(*map(_replicas, members.values()))
        await hub.end_pods()

    assert found == [3, 3]


async def _replicas(member: Member) -> int:
    async with member.api() as api:
        found = await api.get("/apis/apps/v1/namespaces/shop/deployments/web")
    return int(found["spec"]["replicas"])
