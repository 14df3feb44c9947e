"""Runs real helm against real planes, and the processes as the pods of a release would run them."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from testbed.real.controlplane import Answer, ControlPlane
from testbed.stage import Run, eventually, write_kubeconfig
from tests.support.chart import CHART, IMAGE, NAMESPACE, merged

COMPONENTS = ("controller", "metrics-adapter", "webhook")
READY_SECONDS = 180.0
ROOT = CHART.parents[1]


class Helm:
    """One version of helm for one plane and namespace."""

    def __init__(self, program: Path, plane: ControlPlane, namespace: str = NAMESPACE) -> None:
        self.program = program
        self.namespace = namespace
        self._plane = plane

    async def run(
        self, *arguments: str, values: dict[str, Any] | None = None, code: int = 0, seconds: float = 180
    ) -> Answer:
        """Runs a command, with values on its standard input if given. Fails unless it ends with `code`."""
        home = self._plane.folder / f"{self.program.name}-home"
        command = [str(self.program), *arguments, "--namespace", self.namespace]
        command += ["--kubeconfig", str(self._plane.kubeconfig)]
        command += ["--values", "-"] if values is not None else []
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin", "HOME": str(home)},
        )
        try:
            async with asyncio.timeout(seconds):
                out, err = await process.communicate(json.dumps(merged(IMAGE, values or {})).encode())
        except BaseException:
            process.kill()
            await process.wait()
            raise
        answer = Answer(process.returncode or 0, out.decode(), err.decode())
        assert answer.code == code, (arguments, answer.out[-2000:], answer.err[-2000:])
        return answer


async def previous_chart(folder: Path) -> Path:
    """Returns the chart as it was before the last commit that changed it, or today's without history."""
    done = await _output("git", "rev-list", "-2", "HEAD", "--", "charts/fedhpa")
    commits = done.decode().split()
    if not commits:
        return CHART
    archive = folder / "chart.tar"
    await _output("git", "archive", "-o", str(archive), commits[-1], "charts/fedhpa")
    await _output("tar", "-xf", str(archive), "-C", str(folder))
    return folder / "charts" / "fedhpa"


async def _output(*command: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    async with asyncio.timeout(60):
        out, _ = await process.communicate()
    return out


class RenderedProcess:
    """One process of a release, run here with the command, arguments, environment and volumes of its pod.

    `ports` has the ports of this machine for ports of the container. Other ports are the container's.
    """

    def __init__(
        self,
        run: Run,
        folder: Path,
        component: str,
        deployment: dict[str, Any],
        ports: Mapping[int, int] | None = None,
    ) -> None:
        spec = deployment["spec"]["template"]["spec"]
        (self._container,) = spec["containers"]
        self._volumes = {volume["name"]: volume for volume in spec["volumes"]}
        self._run = run
        self.name = component
        self.folder = folder / component
        self.folder.mkdir(parents=True)
        self.log = self.folder / "log"
        self._moved = dict(ports or {})
        numbers = {port["name"]: port["containerPort"] for port in self._container["ports"]}
        self.ports = {name: self._moved.get(number, number) for name, number in numbers.items()}
        self.health = f"http://127.0.0.1:{self.ports['health']}"

    async def start(self, host: ControlPlane, *further: str) -> None:
        """Starts the process with the volumes of its pod as folders, and waits until it is ready.

        As a kubelet does, it writes a Secret into its folder also when the Secret is made later.
        """
        arguments = [*map(self._here, map(self._moved_port, self._container["args"])), *further]
        for mount in self._container["volumeMounts"]:
            (self.folder / mount["name"]).mkdir(exist_ok=True)
        await self.mount(host)
        environment = {one["name"]: self._here(one["value"]) for one in self._container["env"]}
        program = Path(sys.executable).with_name(self._container["command"][0])
        self._run.spawn(
            f"rendered-{self.name}",
            [str(program), *arguments],
            self.log,
            environment={"PATH": "/usr/bin:/bin", "TMPDIR": str(self.folder / "tmp"), **environment},
        )
        probe = self._container["readinessProbe"]["httpGet"]["path"]
        async with aiohttp.ClientSession() as session:

            async def ready() -> bool:
                self._run.check(f"rendered-{self.name}", self.log)
                await self.mount(host)
                async with session.get(self.health + probe, timeout=aiohttp.ClientTimeout(total=5)) as answer:
                    return answer.status == 200

            await eventually(ready, what=f"rendered {self.name} is ready", seconds=READY_SECONDS)

    def _here(self, text: str) -> str:
        """Returns a text with the folders of this machine in the place of the mounted ones."""
        for mount in self._container["volumeMounts"]:
            if mount["mountPath"] != "/tmp":
                text = text.replace(mount["mountPath"], str(self.folder / mount["name"]))
        return text

    def _moved_port(self, argument: str) -> str:
        """Returns a flag such as --secure-port=8443 with the port of this machine."""

        def moved(found: re.Match[str]) -> str:
            return f"{found[1]}{self._moved.get(int(found[2]), found[2])}"

        return re.sub(r"(port=|:)(\d+)$", moved, argument)

    async def mount(self, host: ControlPlane) -> None:
        """Writes each Secret that changed into its folder, and each ConfigMap with the folders from here."""
        secrets = {name: one["secret"] for name, one in self._volumes.items() if "secret" in one}
        maps = {name: one["configMap"] for name, one in self._volumes.items() if "configMap" in one}
        async with host.api() as api:
            for name, one in maps.items():
                found = await api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{one['name']}")
                for key, text in found["data"].items():
                    (self.folder / name / key).write_text(self._here(text), encoding="utf-8")
            for name, one in secrets.items():
                found = await api.find(f"/api/v1/namespaces/{NAMESPACE}/secrets/{one['secretName']}")
                assert found or one.get("optional"), one
                for key, data in ((found or {}).get("data") or {}).items():
                    file = self.folder / name / key
                    if not file.exists() or file.read_bytes() != base64.b64decode(data):
                        file.write_bytes(base64.b64decode(data))


async def account_kubeconfig(plane: ControlPlane, account: str, path: Path) -> Path:
    """Writes a kubeconfig with a token of a ServiceAccount of the release, as its pods would mount it."""
    async with plane.api() as api:
        user = {"token": await api.token(NAMESPACE, account)}
    return write_kubeconfig(path, plane.server, plane.pki.ca.bundle_pem, user)
