"""The adapter over a real Prometheus: scraped samples become values of the registered clusters."""

from __future__ import annotations

import functools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from testbed.real.assets import find_program
from testbed.stage.waiting import eventually
from tests.real.prometheus import PROMETHEUS, Prometheus, prometheus
from tests.real.settling import settled
from tests.support.adapter.process import JANE, Answer, Caller, world
from tests.support.fakeapi import fake_api, join

SECONDS = 150
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1/namespaces"
CUSTOM = "/apis/custom.metrics.k8s.io/v1beta2/namespaces"
PODS = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods"
RULES = """
external:
- metric: depth
  query: sum by (<<.GroupBy>>, queue) (queue_depth{<<.LabelMatchers>>})
- metric: total
  query: sum by (<<.GroupBy>>) (queue_depth{<<.LabelMatchers>>,queue!=""})
  namespaced: false
- metric: wrong
  query: sum by (<<.GroupBy>> (queue_depth{<<.LabelMatchers>>})
- metric: idle
  query: queue_depth{<<.LabelMatchers>>} / 0 - queue_depth / 0
custom:
- metric: hits
  resource: pods
  query: sum by (<<.GroupBy>>) (hits{<<.LabelMatchers>>})
  selectorLabels: {app.kubernetes.io/name: app}
- metric: hits
  resource: services
  query: sum by (<<.GroupBy>>) (hits{<<.LabelMatchers>>})
resources:
  pods:
    cpu: sum by (<<.GroupBy>>) (cpu_cores{<<.LabelMatchers>>})
    memory: sum by (<<.GroupBy>>) (memory_bytes{<<.LabelMatchers>>})
"""


HOSTILE = (
    'shop"} or queue_depth{queue="orders',
    "shop|bank",
    "sh.p",
    'a\\"b',
    "a\nb",
    "<<.GroupBy>>",
    "\u00e9\U0001f600",
)


def exported(orders: int, hits: float) -> str:
    """Returns the text that a cluster exports."""
    pod = 'namespace="shop",pod="web-0"'
    return "".join(
        line + "\n"
        for line in (
            f'queue_depth{{namespace="shop",queue="orders"}} {orders}',
            'queue_depth{namespace="shop",queue="re.turns"} 100',
            'queue_depth{namespace="bank",queue="orders"} 1000',
            f'hits{{{pod},service="web",app="web"}} {hits}',
            f'hits{{namespace="shop",pod="db-0",service="db",app="db"}} {hits}',
            f'cpu_cores{{{pod},container="app"}} 0.25',
            f'memory_bytes{{{pod},container="app"}} 1048576',
        )
    )


TEXTS = {"member1": exported(3, 1.5), "member2": exported(4, 2), "stranger": exported(50, 60)}


class Scene:
    """Prometheus, and an adapter over it with a client."""

    def __init__(self, store: Prometheus, caller: Caller, rules: Path) -> None:
        self.store = store
        self.caller = caller
        self.rules = rules

    async def get(self, path: str) -> Answer:
        return await self.caller.call("GET", path, JANE)

    async def depths(
        self, query: str = "labelSelector=queue%3Dorders", metric: str = "depth"
    ) -> dict[str, str]:
        """Returns the values by cluster; empty after an error."""
        answer = await self.get(f"{EXTERNAL}/shop/{metric}?{query}")
        items = answer.json.get("items", [])
        return {item["metricLabels"].get("cluster", ""): item["value"] for item in items}

    async def depths_settle(self, wanted: dict[str, str], *how: str) -> dict[str, str]:
        """Returns the values once they are the expected ones, else the last values. Scrapes run each second,
        and a busy machine misses some. A cluster whose scrape failed is missing until the next scrape.
        """
        return await settled(lambda: self.depths(*how), lambda found: found == wanted, every=0.3)

    async def until(self, poll: Callable[[], Awaitable[Any]], what: str) -> None:
        await eventually(poll, what=what, seconds=SECONDS, every=0.3)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """Runs a Prometheus that has scraped both clusters, and a third one that is not registered."""
    program = find_program(PROMETHEUS)
    if program is None:
        reason = "no real Prometheus: it is not here (make real-plane builds it)"
        if os.environ.get("FEDHPA_REAL_PLANE") == "require":
            pytest.fail(reason)
        pytest.skip(reason)
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES, encoding="utf-8")
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(prometheus(program, TEXTS))
        made = await stack.enter_async_context(world(tmp_path))
        for name in ("member1", "member2"):
            join(made.hub, name, await stack.enter_async_context(fake_api()))
        adapter = await stack.enter_async_context(
            made.adapter(*store.flags, f"--metrics-rules={rules}", "--metrics-store-deadline=10s")
        )
        found = Scene(store, await stack.enter_async_context(made.caller(adapter)), rules)

        async def scraped() -> bool:
            # The warning about the unregistered cluster shows that all clusters were scraped.
            answer = await found.get(f"{EXTERNAL}/shop/depth")
            return "stranger" in str(answer.warnings) and len(await found.depths()) == 2

        await found.until(scraped, "all targets were scraped")
        yield found


async def test_values_of_all_clusters(scene: Scene) -> None:
    """External values are served by cluster, together and by label; custom values of pods and of a Service;
    usage of pods. An unregistered cluster counts nowhere.
    """
    orders = "labelSelector=queue%3Dorders&aggregation={}"
    dotted = "labelSelector=queue%20in%20(re.turns,rexturns)&aggregation=Sum"
    for wanted, how in (
        ({"member1": "3", "member2": "4"}, ()),
        ({"": "7"}, (orders.format("Sum"),)),
        ({"": "4"}, (orders.format("Max"),)),
        ({"": "200"}, (dotted,)),
        ({"member1": "1103", "member2": "1104"}, ("", "total")),
    ):
        assert await scene.depths_settle(wanted, *how) == wanted

    async def items_of(path: str) -> list[Any]:
        found: list[Any] = (await scene.get(path)).json.get("items", [])
        return found

    async def of_pods() -> list[tuple[str, str]]:
        items = await items_of(f"{CUSTOM}/shop/pods/*/hits?labelSelector=app.kubernetes.io/name%3Dweb")
        return [(item["describedObject"]["name"], item["value"]) for item in items]

    async def of_the_service() -> list[str]:
        return [item["value"] for item in await items_of(f"{CUSTOM}/shop/services/web/hits")]

    async def usage() -> list[dict[str, str]]:
        return [item["containers"][0]["usage"] for item in await items_of(PODS)]

    of_both = [("web-0", "1500m"), ("web-0", "2")]

    assert await settled(of_pods, lambda found: found == of_both) == of_both
    assert await settled(of_the_service, lambda found: found == ["3500m"]) == ["3500m"]

    of_each = [{"cpu": "250m", "memory": "1Mi"}] * 2
    idle = await settled(
        lambda: scene.get(f"{EXTERNAL}/shop/idle"), lambda answer: "no number" in str(answer.json)
    )

    assert await settled(usage, lambda found: found == of_each) == of_each
    assert (idle.status, "is not a usable number" in str(idle.json)) == (503, True)


async def test_an_exporter_that_goes_is_missing_and_not_zero(scene: Scene) -> None:
    """Prometheus drops a target's series at its first failed scrape. A warning names the cluster until its
    exporter returns.
    """
    exporter = scene.store.exporters["member2"]

    async def gone() -> bool:
        answer = await scene.get(f"{EXTERNAL}/shop/depth")
        missed = "member2 did not answer: it served this" in str(answer.warnings)
        return missed and await scene.depths() == {"member1": "3"}

    async def back() -> bool:
        return await scene.depths() == {"member1": "3", "member2": "4"}

    await exporter.stop()
    await scene.until(gone, "member2 is missing by name")
    await exporter.start()
    await scene.until(back, "member2 is back")


async def test_hostile_namespaces_are_names_that_nobody_has(scene: Scene) -> None:
    """Prometheus parses the query with a hostile namespace, and finds no series."""
    for namespace in HOSTILE:
        path = f"{EXTERNAL}/{quote(namespace, safe='')}/depth"
        answer = await settled(functools.partial(scene.get, path), lambda answer: not answer.warnings)

        assert (namespace, answer.status, answer.warnings) == (namespace, 404, [])


async def test_a_wrong_query_says_what_prometheus_says_of_it(scene: Scene) -> None:
    """The error quotes Prometheus about a rule's wrong query. A corrected rule works without a restart."""
    wrong = await settled(
        lambda: scene.get(f"{EXTERNAL}/shop/wrong"), lambda answer: "bad_data" in str(answer.json)
    )
    scene.rules.write_text(RULES.replace("GroupBy>> (queue", "GroupBy>>) (queue"), encoding="utf-8")

    async def fixed() -> bool:
        return (await scene.get(f"{EXTERNAL}/shop/wrong")).status == 200

    await scene.until(fixed, "the new rules hold")

    assert wrong.status == 503
    assert "bad_data" in wrong.json["message"]
    assert "parse error" in wrong.json["message"]
