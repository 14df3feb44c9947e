"""Usage that a member gives for what nobody asked it for is no answer."""

from __future__ import annotations

from typing import Any

from tests.support.adapter.application import NOON, adapter, get

NODES = "/apis/metrics.k8s.io/v1beta1/nodes"
PODS = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods"


def usage(name: str, namespace: str = "shop") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "timestamp": NOON,
        "window": "30s",
        "containers": [{"name": "app", "usage": {"cpu": "100m", "memory": "10Mi"}}],
    }


def listed(*found: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "PodMetricsList", "metadata": {}, "items": list(found)}


async def test_pods_of_another_namespace_are_no_answer() -> None:
    """A member that lists a pod of another namespace, at any place, is named as missing. The caller sees only
    the requested namespace.
    """
    worlds = {
        "m1": {PODS: listed(usage("web"))},
        "m2": {PODS: listed(usage("web"), usage("coredns", "kube-system"))},
        "m3": {PODS: listed(usage("web"), usage("web", "work"))},
    }
    async with adapter(worlds) as (client, _):
        status, body, missing = await get(client, PODS)

    assert (status, missing) == (200, ["m2", "m3"])
    assert [item["metadata"]["name"] for item in body["items"]] == ["web"]


async def test_an_object_of_another_name_is_no_answer() -> None:
    """Alone it is 503, beside an honest member it neither counts nor makes the name ambiguous."""
    worlds = {
        "m1": {f"{PODS}/web": usage("web"), f"{NODES}/n1": usage("n2", "")},
        "m2": {f"{PODS}/web": usage("db")},
        "m3": {f"{PODS}/web": usage("web", "kube-system")},
    }
    async with adapter(worlds) as (client, _):
        pod = await get(client, f"{PODS}/web")
        node = await get(client, f"{NODES}/n1?cluster=m1")

    assert (pod[0], pod[2], node[0]) == (200, ["m2", "m3"], 503)
    assert "asked for nodes 'n1', it answered for 'n2'" in node[1]["message"]
