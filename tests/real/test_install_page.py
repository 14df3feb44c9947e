"""The commands of docs/how-to/install.md lead from an empty hub to a scaled workload, and back.

Only the following stands in for what a person has:

| on the page | here |
|---|---|
| a checkout after `make venv` | A folder with links to `charts` and `.venv` of this checkout. |
| `make image`, a registry | Nothing. The nodes of kwok pull no image and run no container. |
| a hub and two members | Control planes with all controllers, a scheduler, kwok and metrics-server. |
| the hub's pods | One process for each Deployment, with arguments, volumes and account of its pod. |
| the hub's Services | A proxy from the API server to these processes (service_network.py). |
| the work of containers | kwok reports CPU usage: IDLE at first, BUSY from the command that makes the load. |
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from testbed.real.member import Member
from testbed.stage import eventually, gather
from tests.real.pods import empty_clusters
from tests.real.settling import settled
from tests.real.workloads import BUSY, IDLE
from tests.support.nightly import only_at_night
from tests.support.tutorial import READING, ROOT, Step, Terminal, blocks, save_manifests, started, steps

PAGE = ROOT / "docs" / "how-to" / "install.md"
SPACE, CONTAINER = "shop", "web"
COMMAND_SECONDS = 400.0  # longer than each --timeout of the page
WHOLE_SECONDS, OWN_SECONDS = 15 * 60.0, 2 * 60.0
# The steps that wait for metrics, and the CPU in milli-units that a pod of each member must then use.
AWAITED_CPU = {"--for=condition=Ready fhpa/": 1, "{.status.readyReplicas}": 1000}
LAST_STEP = "--kubeconfig=member2.kubeconfig wait --for=jsonpath='{.status.readyReplicas}'"
# Commands of the page up to the scaled workload that change something. One that installs the wheel counts in
# the place of those that build.
MOST_COMMANDS = 12
# Objects that come and go without anyone's command.
FLEETING = re.compile(r"events|leases|metrics\.k8s\.io|componentstatuses")


async def use(members: dict[str, Member], cpu: str) -> None:
    usage = {CONTAINER: {"cpu": cpu, "memory": "64Mi"}}
    await gather(*(member.set_usage(SPACE, usage) for member in members.values()))


class Watch:
    """Measures each step up to the scaled workload, without the time in which metrics-server is late."""

    def __init__(self) -> None:
        self.scaled = 0.0
        self.own = 0.0
        self._lines: list[str] = []

    def __str__(self) -> str:
        return "\n".join([*self._lines, f"{self.own:.0f} s are ours, up to the scaled workload"])

    @asynccontextmanager
    async def measured(self, step: Step, members: dict[str, Member]) -> AsyncIterator[None]:
        """Measures one step."""
        since, late = time.monotonic(), 0.0
        if least := next((cpu for part, cpu in AWAITED_CPU.items() if part in step.command), 0):
            seen = asyncio.create_task(metrics_show(members, least))
            try:
                yield
            finally:
                seen.cancel()
                await asyncio.wait([seen])
            late = (time.monotonic() if seen.cancelled() else seen.result()) - since
        else:
            yield
        seconds = time.monotonic() - since
        self._lines.append(f"{seconds:6.1f} s, {late:4.1f} s of them metrics-server: {step.command}")
        if not self.scaled:
            self.own += seconds - late
        if LAST_STEP in step.command:
            self.scaled = time.monotonic()


async def metrics_show(members: dict[str, Member], least: int) -> float:
    """Returns the moment at which each member's metrics-server shows a pod of the workload with this CPU."""

    async def shown(member: Member) -> bool:
        found = await member.kubectl("top", "pods", "-n", SPACE, "-l", f"app={CONTAINER}", "--no-headers")
        rows = [line.split() for line in found.out.splitlines()]
        return any(int(cpu.removesuffix("m")) >= least for _, cpu, _ in rows)

    async def of(member: Member) -> None:
        await eventually(lambda: shown(member), what="metrics", seconds=COMMAND_SECONDS, every=1)

    await gather(*(of(member) for member in members.values()))
    return time.monotonic()


async def inventory(cluster: Member) -> set[str]:
    """Kind, namespace and name of each object of a cluster."""
    listed = await cluster.kubectl("api-resources", "--verbs=list", "--output=name")
    kinds = [kind for kind in listed.out.split() if not FLEETING.match(kind) and "metrics.k8s.io" not in kind]
    form = '{range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{"\\n"}{end}'
    found = await cluster.kubectl("get", ",".join(kinds), "--all-namespaces", f"--output=jsonpath={form}")
    assert found.code == 0, found.err
    return set(found.out.split())


def checkout(folder: Path, clusters: dict[str, Member]) -> Path:
    """Makes the folder in which a person stands after `make venv`, with the kubeconfigs."""
    folder.mkdir()
    (folder / "charts").symlink_to(ROOT / "charts")
    (folder / ".venv").symlink_to(Path(sys.executable).parents[1])
    for name, cluster in clusters.items():
        (folder / f"{name}.kubeconfig").write_bytes(cluster.kubeconfig.read_bytes())
    return folder


class Newcomer:
    """Somebody who knows only `fedhpa doctor`. Each command is printed with its output."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def run(self, command: str) -> str:
        """Runs a command and returns what it prints."""
        printed = self._terminal.run(command)
        print(f"$ {command}", *(f"  {line[:200]}" for line in printed.splitlines()[:3]), sep="\n", flush=True)
        return printed

    async def mend(self, kind: str, command: str) -> None:
        """Breaks one thing, does what the doctor says, and asks it again."""
        await asyncio.to_thread(self.run, command)
        broken = await settled(self._report, lambda found: kind in self._ids(found), seconds=COMMAND_SECONDS)
        (one,) = [each for each in broken["findings"] if each["id"] == kind]
        # Advice has the command with FILE, where only a person knows the file.
        (advised,) = re.findall("`(.+)`", one["advice"]) or [""]
        fix = one["command"] or advised.replace("FILE", f"{one['subject']}.kubeconfig")
        print(f"  doctor: {kind} {one['subject']}: {one['what']}", flush=True)
        await asyncio.to_thread(self.run, fix)
        after = await settled(self._report, lambda found: bool(found["healthy"]), seconds=COMMAND_SECONDS)
        assert after["healthy"], after

    async def _report(self) -> dict[str, Any]:
        printed = await asyncio.to_thread(self._terminal.run, "fedhpa doctor -o json")
        found: dict[str, Any] = json.loads(printed)
        return found

    @staticmethod
    def _ids(found: dict[str, Any]) -> list[str]:
        return [each["id"] for each in found["findings"]]


@only_at_night
async def test_the_page_leads_to_a_scaled_workload_and_back(assets: Path, tmp_path: Path) -> None:
    """Each command prints what the page shows. A workload scales in less than 15 minutes, two of them for the
    commands and processes. A person breaks five things, and mends each by what the doctor says. After the
    last command hub and members have the same objects as before.
    """
    began = time.monotonic()
    page = PAGE.read_text(encoding="utf-8")
    building, *others = [list(steps(block)) for block in blocks(page, "console")]
    assert [step.command.split()[0] for step in building] == ["git", "cd", "make", "make"]

    async with AsyncExitStack() as stack:
        hub, members = await stack.enter_async_context(empty_clusters(assets, "member1", "member2"))
        clusters = {"hub": hub.cluster, **members}
        before = dict(zip(clusters, await gather(*map(inventory, clusters.values())), strict=True))
        await use(members, IDLE)
        folder = checkout(tmp_path / "fedhpa", clusters)
        save_manifests(page, folder)
        environment = os.environ | {"PATH": f"{assets}:/usr/bin:/bin", "HOME": str(tmp_path)}
        environment.pop("KUBECONFIG", None)
        shell = stack.enter_context(started(["bash", "--noprofile", "--norc"], environment, folder))
        terminal = Terminal(shell, COMMAND_SECONDS)

        async def run(step: Step) -> None:
            await asyncio.to_thread(terminal.check, step)
            if step.command.startswith("helm install"):
                await hub.run_pods()
            elif " create deployment load " in step.command:
                await use(members, BUSY)
            elif step.command.startswith("helm uninstall"):
                await hub.end_pods()

        watch, newcomer, changing = Watch(), Newcomer(terminal), 1
        for step in (step for block in others for step in block):
            changing += not watch.scaled and not READING.match(step.command)
            if step.command.startswith("helm upgrade"):  # the first command after the scaled workload
                for line in blocks(page, "sh")[0]:
                    command, _, kind = line.rpartition("  # ")
                    await newcomer.mend(kind, command)
            async with watch.measured(step, members):
                await run(step)
        print(watch, f"{changing} commands change something, up to the scaled workload", sep="\n")
        whole = watch.scaled - began

        assert changing <= MOST_COMMANDS
        assert whole < WHOLE_SECONDS, str(watch)
        assert watch.own < OWN_SECONDS, str(watch)

        async def left() -> dict[str, set[str]]:
            now = await gather(*map(inventory, clusters.values()))
            return {name: now ^ before[name] for name, now in zip(clusters, now, strict=True)}

        for member in members.values():
            async with member.api() as api:
                await api.delete(f"/apis/kwok.x-k8s.io/v1alpha1/clusterresourceusages/{SPACE}")
        assert await settled(left, lambda found: not any(found.values())) == {
            name: set() for name in clusters
        }
