"""The plane that the breaks act on, and its doctor."""

from __future__ import annotations

import base64
import dataclasses
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from certs import CertificateAuthority
from fedhpa.doctor import Commands, Report, examine
from fedhpa.kube import SYSTEM, ApiClient, load_config
from fedhpa.kube.config import known_contexts
from testbed.real.plane import Plane
from testbed.stage.api import PlaneApi
from testbed.stage.kubeconfig import merge_kubeconfigs
from testbed.stage.processes import Processes
from tests.real.settling import done
from tests.real.workloads import namespace

SPACE, NAME = "doctor", "doctor"


class Patient:
    """The plane and its processes, and what the doctor finds there."""

    def __init__(self, plane: Plane, processes: Processes, hub: PlaneApi) -> None:
        self.plane = plane
        self.processes = processes
        self.hub = hub
        # The kubeconfig and the clock of the person who calls the doctor.
        self.kubeconfig = plane.hub.kubeconfig
        self.wall = time.time
        # A kubeconfig with a context for each cluster.
        members = {name: each.kubeconfig for name, each in plane.members.items()}
        path = plane.hub.folder / "all.kubeconfig"
        self.all = merge_kubeconfigs(path, {"hub": plane.hub.kubeconfig, **members})

    async def report(self) -> Report:
        """Returns the report of the hub's administrator."""
        async with ApiClient(await load_config(str(self.kubeconfig), clock=SYSTEM)) as client:
            clock = dataclasses.replace(SYSTEM, wall=self.wall)
            commands = Commands(str(self.all), "hub", known_contexts(str(self.all))[1])
            return await examine(client, seconds=10.0, clock=clock, commands=commands)

    async def findings(self) -> Counter[tuple[str, str]]:
        """Returns ids and subjects."""
        return Counter((each.id, each.subject) for each in (await self.report()).findings)

    @asynccontextmanager
    async def replaced(self, path: str, change: Callable[[Any], Any]) -> AsyncIterator[None]:
        """Replaces an object of the hub, and writes it back at the end."""
        before = await self.hub.get(path)

        async def put(wanted: Any) -> None:
            stored = (await self.hub.get(path))["metadata"]  # a command may have created it again
            present = {key: stored[key] for key in ("resourceVersion", "uid")}
            metadata = {**wanted["metadata"], **present}
            await self.hub.send("PUT", path, body={**wanted, "metadata": metadata})

        changed = change(await self.hub.get(path))
        await done(lambda: put(changed), f"{path} is changed")
        try:
            yield
        finally:
            await done(lambda: put(before), f"{path} is as before")

    @asynccontextmanager
    async def deleted(self, path: str) -> AsyncIterator[None]:
        """Deletes an object of the hub, and creates it again at the end."""
        before = await self.hub.get(path)
        await self.hub.delete(path)
        try:
            yield
        finally:
            await done(lambda: self.hub.apply(anew(before)), f"{path} exists again")

    @asynccontextmanager
    async def created(self, *manifests: dict[str, Any], api: PlaneApi | None = None) -> AsyncIterator[None]:
        """Creates objects, and deletes them at the end."""
        target = api or self.hub
        await target.apply_all([namespace(SPACE), *manifests])
        try:
            yield
        finally:
            for manifest in manifests:
                await target.delete(await target.path_of(manifest))


Break = Callable[[Patient], AbstractAsyncContextManager[None]]


def anew(found: dict[str, Any]) -> dict[str, Any]:
    """Returns a stored object as it can be created again."""
    metadata = {
        key: value for key, value in found["metadata"].items() if key in ("name", "namespace", "labels")
    }
    return {**found, "metadata": metadata}


def bundle_of(authority: CertificateAuthority) -> str:
    """Returns the root of a CA as a caBundle."""
    return base64.b64encode(authority.bundle_pem).decode()


def foreign_bundle() -> str:
    """Returns a caBundle that verifies no server of the plane."""
    return bundle_of(CertificateAuthority.create("other"))
