"""`python -m tests.conformance.layers` queries an API server and writes the page admission-layers.md."""

import asyncio

from testbed.real.assets import ensure_assets
from testbed.real.controlplane import ControlPlane
from testbed.stage.runs import Run
from tests.conformance.layers import asking, page, recorded
from tests.conformance.layers.rows import objects


async def _record() -> None:
    run = Run.begin()
    try:
        plane = ControlPlane(run, ensure_assets(), "crd-alone")
        await plane.start_store_and_api()
        async with plane.api() as api:
            await asking.install(api)
            version = (await api.get("/version"))["gitVersion"]
            recorded.write(version, await asking.answers(api, objects()))
    finally:
        run.end()
    page.PATH.write_text(page.rendered(), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(_record())
