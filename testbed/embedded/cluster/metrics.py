"""A member's three metrics APIs (metrics, custom, external), made from its load when they are asked."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec
from aiohttp import web

from fedhpa.api.errors import InvalidObject
from fedhpa.api.selectors import Selector, parse_selector
from testbed.embedded.api import statuses as refusals
from testbed.embedded.api.types import Object, User
from testbed.embedded.cluster.load import IDLE_MEMORY, IDLE_MILLIS, Load, Usage
from testbed.embedded.cluster.pods import PODS, stamp
from testbed.embedded.storage.store import Store

METRICS, CUSTOM, EXTERNAL = "metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"
VERSIONS = {METRICS: "v1beta1", CUSTOM: "v1beta2", EXTERNAL: "v1beta1"}
REQUESTS = "http_requests_per_second"
WINDOW_SECONDS = 1

Answer = Callable[[web.Request, User], Awaitable[web.StreamResponse]]
# What is reported instead of a value: that of `Faults.metric_values`.
Rubbish = Callable[[], Literal["nan", "negative"] | None]


class MetricsApis:
    """Answers the paths of the three groups, for the API server's router.

    `external` holds the values of external metrics with their labels, in milli-units, free to be changed.
    """

    def __init__(
        self, store: Store, load: Load, now: Callable[[], datetime], *, rubbish: Rubbish = lambda: None
    ) -> None:
        self.external: dict[str, list[tuple[Mapping[str, str], int]]] = {}
        self._store = store
        self._load = load
        self._now = now
        self._rubbish = rubbish

    def handler(self, path: str) -> Answer | None:
        """Who answers the path, or None."""
        parts = path.strip("/").split("/")
        if len(parts) < 2 or parts[0] != "apis" or parts[1] not in VERSIONS:
            return None

        async def answer(request: web.Request, _user: User) -> web.StreamResponse:
            if request.method != "GET":
                raise refusals.method_not_allowed()
            try:
                selector = parse_selector(request.query.get("labelSelector", ""))
            except InvalidObject as error:
                raise refusals.bad_request(str(error)) from error
            body = self._answer(parts[1], parts[2:], selector)
            return web.Response(body=msgspec.json.encode(body), content_type="application/json")

        return answer

    def _answer(self, group: str, rest: list[str], selector: Selector) -> Object:
        match group, rest:
            case _, []:
                version = {"groupVersion": f"{group}/{VERSIONS[group]}", "version": VERSIONS[group]}
                head = {"kind": "APIGroup", "apiVersion": "v1", "name": group}
                return {**head, "versions": [version], "preferredVersion": version}
            case _, [version]:
                return _resources(f"{group}/{version}", self._served(group))
            case "metrics.k8s.io", [_, "nodes"]:
                return _list(METRICS, "NodeMetricsList", self._nodes(selector))
            case "metrics.k8s.io", [_, "nodes", name]:
                return _one(self._nodes(Selector()), "NodeMetrics", "nodes", name)
            case "metrics.k8s.io", [_, "pods"]:
                return _list(METRICS, "PodMetricsList", self._pods("", selector))
            case "metrics.k8s.io", [_, "namespaces", namespace, "pods"]:
                return _list(METRICS, "PodMetricsList", self._pods(namespace, selector))
            case "metrics.k8s.io", [_, "namespaces", namespace, "pods", name]:
                return _one(self._pods(namespace, Selector()), "PodMetrics", "pods", name)
            case "custom.metrics.k8s.io", [_, "namespaces", namespace, "pods", name, metric]:
                if metric == REQUESTS:
                    return _list(CUSTOM, "MetricValueList", self._requests(namespace, name, selector))
            case "external.metrics.k8s.io", [_, "namespaces", _, metric]:
                return _list(EXTERNAL, "ExternalMetricValueList", self._external(metric, selector))
        raise refusals.no_such_path()

    def _served(self, group: str) -> list[Object]:
        """The group's resources, as discovery shows them: name, kind, namespaced."""
        if group == METRICS:
            return [_resource("nodes", "NodeMetrics", False), _resource("pods", "PodMetrics", True)]
        if group == EXTERNAL:
            return [_resource(metric, "ExternalMetricValueList", True) for metric in self.external]
        return [_resource(f"pods/{REQUESTS}", "MetricValueList", True)]

    # ---- metrics.k8s.io

    def _pods(self, namespace: str, selector: Selector) -> list[Object]:
        found = []
        for pod in self._running(namespace, selector):
            containers = [
                {"name": name, "usage": self._usage(usage)} for name, usage in self._load.usage(pod).items()
            ]
            found.append(self._measured(pod, containers=containers))
        return found

    def _nodes(self, selector: Selector) -> list[Object]:
        sums: dict[str, Usage] = {}
        for pod in self._running("", Selector()):
            for usage in self._load.usage(pod).values():
                before = sums.get(pod["spec"]["nodeName"], Usage(0, 0))
                sums[pod["spec"]["nodeName"]] = Usage(before.cpu + usage.cpu, before.memory + usage.memory)
        idle = Usage(IDLE_MILLIS, IDLE_MEMORY)
        return [
            self._measured(node, usage=self._usage(sums.get(node["metadata"]["name"], idle)))
            for node in self._store.list(("", "nodes"))
            if selector.matches(node["metadata"].get("labels"))
        ]

    def _running(self, namespace: str, selector: Selector) -> list[Object]:
        return [
            pod
            for pod in self._store.list(PODS, namespace)
            if pod["status"].get("phase") == "Running" and selector.matches(pod["metadata"].get("labels"))
        ]

    def _measured(self, thing: Object, **values: Any) -> Object:
        """An item as metrics-server writes it."""
        now = stamp(self._now())
        metadata = {
            **_named(thing),
            "creationTimestamp": now,
            "labels": thing["metadata"].get("labels") or {},
        }
        return {"metadata": metadata, "timestamp": now, "window": f"{WINDOW_SECONDS}s", **values}

    def _usage(self, usage: Usage) -> dict[str, str]:
        return {"cpu": self._value(usage.cpu, "m"), "memory": self._value(usage.memory // 1024, "Ki")}

    def _value(self, value: int, suffix: str) -> str:
        match self._rubbish():
            case "nan":
                return "NaN"
            case "negative":
                return f"-{max(1, value)}{suffix}"
        return f"{value}{suffix}"

    # ---- custom and external metrics

    def _requests(self, namespace: str, name: str, selector: Selector) -> list[Object]:
        """Requests per second of the pods of that name, "*" for all."""
        return [
            {
                "describedObject": {"kind": "Pod", **_named(pod), "apiVersion": "/v1"},
                "metric": {"name": REQUESTS, "selector": None},
                "timestamp": stamp(self._now()),
                "windowSeconds": WINDOW_SECONDS,
                "value": self._value(round(1000 * self._load.requests_per_second(pod)), "m"),
            }
            for pod in self._running(namespace, selector)
            if name in ("*", pod["metadata"]["name"])
        ]

    def _external(self, metric: str, selector: Selector) -> list[Object]:
        return [
            {
                "metricName": metric,
                "metricLabels": dict(labels),
                "timestamp": stamp(self._now()),
                "value": self._value(milli, "m"),
            }
            for labels, milli in self.external.get(metric, [])
            if selector.matches(labels)
        ]


def _named(thing: Object) -> Object:
    return {key: thing["metadata"][key] for key in ("name", "namespace") if key in thing["metadata"]}


def _resource(name: str, kind: str, namespaced: bool) -> Object:
    names = {"name": name, "singularName": "", "namespaced": namespaced, "kind": kind}
    return {**names, "verbs": ["get"] if "/" in name else ["get", "list"]}


def _resources(version: str, resources: list[Object]) -> Object:
    head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version}
    return {**head, "resources": resources}


def _list(group: str, kind: str, items: list[Object]) -> Object:
    return {"kind": kind, "apiVersion": f"{group}/{VERSIONS[group]}", "metadata": {}, "items": items}


def _one(items: list[Object], kind: str, resource: str, name: str) -> Object:
    for item in items:
        if item["metadata"]["name"] == name:
            return {"kind": kind, "apiVersion": f"{METRICS}/{VERSIONS[METRICS]}", **item}
    raise refusals.not_found(METRICS, resource, name)
