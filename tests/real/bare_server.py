"""A real API server with our CRDs and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.real.controlplane import ControlPlane
from testbed.stage import Run
from tests.conformance.layers import asking


@contextmanager
def server_with_our_crds(assets: Path, name: str) -> Iterator[ControlPlane]:
    """Yields etcd and kube-apiserver with our CRDs, and without other components; `name` is for the logs."""
    run = Run.begin()
    try:
        plane = ControlPlane(run, assets, name)

        async def start() -> None:
            await plane.start_store_and_api()
            async with plane.api() as api:
                await asking.install(api)

        asyncio.run(start())
        yield plane
    finally:
        run.end()
