"""Each alert fires for its fault and for no other, by the expressions and durations of the rule file."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from testbed.real.assets import find_program
from testbed.stage.waiting import eventually
from tests.real.prometheus import PASSWORD, PROMETHEUS, USER, Prometheus, prometheus
from tests.support.alert_faults import FAULTS, Stage

RULES = Path(__file__).parents[2] / "charts" / "fedhpa" / "files" / "alerts.yaml"
GROUPS = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
ALERTS = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
MARK = "fedhpa_build_info"
SERIES = {MARK, *re.findall(r"fedhpa_\w+", " ".join(rule["expr"] for rule in ALERTS.values()))}
# Each fault has its own minutes in the past, with no samples after them, so faults never overlap.
MINUTES = 45
PAUSE = 20
SECONDS = 60.0


class Store:
    """The query API of a Prometheus."""

    def __init__(self, server: Prometheus, session: aiohttp.ClientSession) -> None:
        self._server = server
        self._session = session

    async def get(self, path: str, **parameters: str) -> Any:
        """Returns the data of an answer."""
        url = f"{self._server.url}/api/v1/{path}"
        async with self._session.get(url, params=parameters) as response:
            answer = await response.json()
        assert answer["status"] == "success", answer
        return answer["data"]

    async def has(self, query: str, moment: float) -> bool:
        """True if a query has a result at a time."""
        return bool((await self.get("query", query=query, time=str(moment)))["result"])

    async def fires(self, alert: str, moment: float) -> bool:
        """True if the expression of an alert has held for the alert's duration at a time."""
        rule = ALERTS[alert]
        minutes = int(rule["for"].removesuffix("m"))
        if minutes == 0:
            return await self.has(rule["expr"], moment)
        return await self.has(f"count_over_time(({rule['expr']})[{minutes}m:1m]) >= {minutes}", moment)


@asynccontextmanager
async def scraping(text: str, rules: Path | None = None) -> AsyncIterator[tuple[Prometheus, Store]]:
    """Yields a Prometheus that scrapes a text. With rules it refuses samples of the past."""
    program = find_program(PROMETHEUS)
    assert program is not None
    async with prometheus(program, {"all": text}, interval=5, rules=rules) as server:
        context = ssl.create_default_context(cafile=str(server.ca_file))
        headers = {"Authorization": aiohttp.encode_basic_auth(USER, PASSWORD)}
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
            yield server, Store(server, session)


def history(start: float) -> tuple[str, dict[str, float]]:
    """Returns the samples of all faults, one after another, and the time at which each ends."""
    lines: list[str] = []
    ends: dict[str, float] = {}
    for number, (name, fault) in enumerate(FAULTS.items()):
        stage = Stage()
        begin = start + number * (MINUTES + PAUSE) * 60
        for minute in range(MINUTES):
            stage.minute()
            fault.provoke(stage)
            moment = begin + minute * 60
            lines += [f"{sample} {int(moment * 1000)}" for sample in stage.samples(SERIES)]
            ends[name] = moment
    return "\n".join(lines) + "\n", ends


@pytest.mark.usefixtures("assets")
async def test_each_alert_fires_for_its_fault_and_not_otherwise() -> None:
    """During each fault exactly its alerts fire, and every alert has a fault."""
    text, ends = history((time.time() // 60 - len(FAULTS) * (MINUTES + PAUSE)) * 60)
    async with scraping(text) as (server, store):
        await eventually(lambda: store.has(MARK, max(ends.values())), what="the history", seconds=SECONDS)
        server.exporters["all"].text = ""

        fired = {
            name: frozenset([alert for alert in ALERTS if await store.fires(alert, end)])
            for name, end in ends.items()
        }

    assert fired == {name: fault.alerts for name, fault in FAULTS.items()}
    assert frozenset().union(*fired.values()) == ALERTS.keys()


@pytest.mark.usefixtures("assets")
async def test_prometheus_evaluates_the_rule_file() -> None:
    """Prometheus loads all rules and templates, and evaluates each without an error."""
    async with scraping("", RULES) as (_, store):

        async def evaluated() -> bool:
            groups = (await store.get("rules"))["groups"]
            rules = {rule["name"]: rule for group in groups for rule in group["rules"]}
            assert rules.keys() == ALERTS.keys()
            assert [rule["lastError"] for rule in rules.values() if rule.get("lastError")] == []
            return all(rule["health"] == "ok" for rule in rules.values())

        await eventually(evaluated, what="all rules are evaluated", seconds=SECONDS)
