"""The lists of other autoscalers are kept by cluster and namespace, and the old ones go."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import structlog

from controller.federatedhpa.competition import KEEP_SECONDS, CompetingAutoscalers
from fedhpa.api.member_hpas import MANAGED_BY, MANAGER, HpaSpec, MemberHpa
from fedhpa.api.wire import ObjectMeta
from fedhpa.kube.records import Store


class Server:
    """An API server without any autoscaler, which counts its lists."""

    def __init__(self) -> None:
        self.lists = 0

    async def list(self, *_: Any) -> Any:
        """Answer an empty list."""
        self.lists += 1
        return SimpleNamespace(items=())


def scaler(namespace: str) -> dict[str, Any]:
    """A FederatedHPA of the Deployment web."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {"metadata": {"namespace": namespace, "name": "web"}, "spec": {"scaleTargetRef": reference}}


async def test_many_namespaces_cost_no_more_each() -> None:
    """The lists of the last 2,000 namespaces cost at most three times as much as those of the first 2,000."""
    server: Any = Server()
    found = CompetingAutoscalers(clock=lambda: 0.0)
    costs = []
    for block in range(6):
        began = time.process_time()
        for number in range(2000):
            found.find(scaler(f"ns-{block}-{number}"), server, {"m1": server})
        await found.settle()
        costs.append(time.process_time() - began)

    assert server.lists == 6 * 2000 * 2
    assert min(costs[-2:]) < 3 * min(costs[:2])


async def test_lists_that_nobody_asks_for_go() -> None:
    """A list that was refreshed stays. One that nobody asked for in ten times its life goes."""
    server: Any = Server()
    now = 0.0
    found = CompetingAutoscalers(clock=lambda: now)
    for name in ("old", "kept"):
        found.find(scaler(name), server, {})
    await found.settle()
    now = KEEP_SECONDS + 1
    found.find(scaler("kept"), server, {})
    await found.settle()
    now = 11.5 * KEEP_SECONDS
    found.find(scaler("new"), server, {})
    await found.settle()

    assert len(found) == 2


def member_hpa(name: str, **labels: str) -> MemberHpa:
    """An HPA of the Deployment web."""
    metadata = ObjectMeta(name=name, namespace="shop", labels=labels)
    return MemberHpa(metadata, HpaSpec(scaleTargetRef=scaler("shop")["spec"]["scaleTargetRef"]))


async def test_a_watched_cluster_is_never_listed() -> None:
    """An HPA that appears, or is deleted, is noticed after a minute without a request to the member."""
    hub, member, now = Server(), Server(), 0.0
    store: Store[MemberHpa] = Store(structlog.get_logger())
    store.put(("shop", "web"), member_hpa("web", **{MANAGED_BY: MANAGER}))
    watched: Any = SimpleNamespace(store=store.view, subscribe=store.subscribe, derived=None)
    autoscalers = CompetingAutoscalers(clock=lambda: now)

    def find() -> tuple[str, ...]:
        clients: Any = {"m1": member}
        return autoscalers.find(scaler("shop"), hub, clients, watch={"m1": watched}.get)  # type: ignore[arg-type]

    first = find()
    await autoscalers.settle()
    store.put(("shop", "theirs"), member_hpa("theirs"))
    within_a_minute = find()
    now = KEEP_SECONDS + 1
    later = find()
    store.put(("shop", "theirs"), None)
    now = 2 * KEEP_SECONDS + 2

    assert (first, within_a_minute) == ((), ())
    assert later == ("HorizontalPodAutoscaler shop/theirs in m1",)
    assert find() == ()
    assert autoscalers.has_ours(("shop", "web"), ["m1"])
    assert member.lists == 0
    await autoscalers.end()
