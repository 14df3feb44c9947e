"""Every query of the dashboard returns data: a real Prometheus scrapes the processes while the demo runs."""

from __future__ import annotations

import json
import ssl
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from demo.embedded import EmbeddedStage
from demo.scenarios import DEFAULT, SCENARIOS
from testbed.stage.ports import free_port
from testbed.stage.processes import CONTROLLER, WEBHOOK
from testbed.stage.registrations import ADAPTER
from tests.real.prometheus import PASSWORD, PROMETHEUS, USER, Prometheus, prometheus
from tests.support.chart import CHART
from tests.support.nightly import only_at_night

DASHBOARD = json.loads((CHART / "files" / "dashboard.json").read_text(encoding="utf-8"))
# Grafana's variables, with the texts that it puts in their place.
VARIABLES = {"$namespace": ".*", "$name": ".*", "$__rate_interval": "30s"}


def queries() -> dict[str, str]:
    """The queries by panel and letter, as Grafana sends them."""
    found = {}
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"]
            for name, value in VARIABLES.items():
                query = query.replace(name, value)
            found[f"{panel['title']} {target['refId']}"] = query
    return found


class ScrapedStage(EmbeddedStage):
    """The embedded stage, whose processes serve their series on `ports`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.ports = {name: free_port() for name in (WEBHOOK, ADAPTER, CONTROLLER)}
        for name, port in self.ports.items():
            self._processes._commands[name].append(f"--metrics-bind-address=127.0.0.1:{port}")


@only_at_night  # a pass of the demo takes a minute and a half
@pytest.mark.timeout(600)
async def test_every_query_of_the_dashboard_returns_data(assets: Path) -> None:
    """During one pass of the demo, in which a member is lost, each panel shows something."""
    scenario = SCENARIOS[DEFAULT]
    stage = ScrapedStage(members=scenario.members, load=scenario.load)
    world = scenario.world(stage, lambda _: None)
    async with prometheus(assets / PROMETHEUS, {}, processes=stage.ports.values()) as server:
        began = time.time()
        try:
            await world.start()
            await world.prepare(None)
            await scenario.play(world, lambda _: None, lambda *_: None).run(once=True)
            answers = {panel: await answer(server, query, began) for panel, query in queries().items()}
        finally:
            await world.end()

    # No token of the demo is renewed, because `fedhpa join` did not make its Secrets.
    assert {panel for panel, data in answers.items() if not data} == {
        "Days until certificates and tokens expire B"
    }


async def answer(server: Prometheus, query: str, began: float) -> list[Any]:
    """The series that a query returns for the time of the demo. Fails if Prometheus refuses it."""
    context = ssl.create_default_context(cafile=str(server.ca_file))
    headers = {"Authorization": aiohttp.encode_basic_auth(USER, PASSWORD)}
    connector = aiohttp.TCPConnector(ssl=context)
    parameters = {"query": query, "start": str(began), "end": str(time.time()), "step": "1s"}
    async with (
        aiohttp.ClientSession(headers=headers, connector=connector) as session,
        session.get(f"{server.url}/api/v1/query_range", params=parameters) as response,
    ):
        found = await response.json()
    assert found["status"] == "success", found
    return list(found["data"]["result"])
