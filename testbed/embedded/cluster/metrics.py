"""The metrics APIs of a member (metrics, custom, external), computed from its load on each request."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from aiohttp import web

from fedhpa.api.errors import InvalidObject
from fedhpa.api.selectors import Selector, parse_selector
from testbed.embedded.api import statuses
from testbed.embedded.api.server import json_response
from testbed.embedded.api.types import Handler, Object, User
from testbed.embedded.cluster.load import IDLE_MEMORY, IDLE_MILLIS, Load, Usage
from testbed.embedded.cluster.pods import PODS, timestamp
from testbed.embedded.storage.store import Store

METRICS, CUSTOM, EXTERNAL = "metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"
VERSIONS = {METRICS: "v1beta1", CUSTOM: "v1beta2", EXTERNAL: "v1beta1"}
REQUESTS = "http_requests_per_second"
WINDOW_SECONDS = 1


class MetricsApis:
    """Routes the paths of the three groups.

    `external` holds external metrics with labels and milli-units; callers may change it.
    """

    def __init__(
        self,
        store: Store,
        load: Load,
        now: Callable[[], datetime],
    ) -> None:
        self.external: dict[str, list[tuple[Mapping[str, str], int]]] = {}
        self._store = store
        self._load = load
        self._now = now

    def handler(self, path: str) -> Handler | None:
        """Returns the handler of a path of the three groups, or None."""
        parts = path.strip("/").split("/")
        if len(parts) < 2 or parts[0] != "apis" or parts[1] not in VERSIONS:
            return None

        async def answer(request: web.Request, _user: User) -> web.StreamResponse:
            if request.method != "GET":
                raise statuses.method_not_allowed()
            try:
                selector = parse_selector(request.query.get("labelSelector", ""))
            except InvalidObject as error:
                raise statuses.bad_request(str(error)) from error
            return json_response(self._answer(parts[1], parts[2:], selector))

        return answer

    def _answer(self, group: str, rest: list[str], selector: Selector) -> Object:
        match group, rest:
            case _, []:
                version = {"groupVersion": f"{group}/{VERSIONS[group]}", "version": VERSIONS[group]}
                head = {"kind": "APIGroup", "apiVersion": "v1", "name": group}
                return {**head, "versions": [version], "preferredVersion": version}
            case _, [version]:
                head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{group}/{version}"}
                return {**head, "resources": self._resources(group)}
            case "metrics.k8s.io", [_, "nodes"]:
                return _list(METRICS, "NodeMetricsList", self._nodes(selector))
            case "metrics.k8s.io", [_, "pods"]:
                return _list(METRICS, "PodMetricsList", self.pods("", selector))
            case "metrics.k8s.io", [_, "namespaces", namespace, "pods"]:
                return _list(METRICS, "PodMetricsList", self.pods(namespace, selector))
            case "custom.metrics.k8s.io", [_, "namespaces", namespace, "pods", name, metric]:
                if metric == REQUESTS:
                    return _list(CUSTOM, "MetricValueList", self._requests(namespace, name, selector))
            case "external.metrics.k8s.io", [_, "namespaces", _, metric]:
                return _list(EXTERNAL, "ExternalMetricValueList", self._external(metric, selector))
        raise statuses.no_such_path()

    def _resources(self, group: str) -> list[Object]:
        if group == METRICS:
            return [_resource("nodes", "NodeMetrics", False), _resource("pods", "PodMetrics", True)]
        if group == EXTERNAL:
            return [_resource(metric, "ExternalMetricValueList", True) for metric in self.external]
        return [_resource(f"pods/{REQUESTS}", "MetricValueList", True)]

    # -- metrics.k8s.io --------------------------------------------------------------------------------

    def pods(self, namespace: str, selector: Selector | None = None) -> list[Object]:
        """Returns the PodMetrics of a namespace."""
        found = []
        for pod in self._running(namespace, selector or Selector()):
            usages = self._load.usage(pod).items()
            containers = [{"name": name, "usage": self._usage(usage)} for name, usage in usages]
            found.append(self._item(pod, containers=containers))
        return found

    def _nodes(self, selector: Selector) -> list[Object]:
        sums: dict[str, Usage] = {}
        for pod in self._running("", Selector()):
            for usage in self._load.usage(pod).values():
                before = sums.get(pod["spec"]["nodeName"], Usage(0, 0))
                sums[pod["spec"]["nodeName"]] = Usage(before.cpu + usage.cpu, before.memory + usage.memory)
        idle = Usage(IDLE_MILLIS, IDLE_MEMORY)
        return [
            self._item(node, usage=self._usage(sums.get(node["metadata"]["name"], idle)))
            for node in self._store.list(("", "nodes"))
            if selector.matches(node["metadata"].get("labels"))
        ]

    def _running(self, namespace: str, selector: Selector) -> list[Object]:
        return [
            pod
            for pod in self._store.list(PODS, namespace)
            if pod["status"].get("phase") == "Running" and selector.matches(pod["metadata"].get("labels"))
        ]

    def _item(self, obj: Object, **values: Any) -> Object:
        """Returns an item in the format of metrics-server."""
        now, labels = timestamp(self._now()), obj["metadata"].get("labels") or {}
        metadata = {**_reference(obj), "creationTimestamp": now, "labels": labels}
        return {"metadata": metadata, "timestamp": now, "window": f"{WINDOW_SECONDS}s", **values}

    def _usage(self, usage: Usage) -> dict[str, str]:
        return {"cpu": self._value(usage.cpu, "m"), "memory": self._value(usage.memory // 1024, "Ki")}

    def _value(self, value: int, suffix: str) -> str:
        return f"{value}{suffix}"

    # -- custom and external metrics -------------------------------------------------------------------

    def _requests(self, namespace: str, name: str, selector: Selector) -> list[Object]:
        """Returns the requests per second of the named pod, or of all pods for "*"."""
        return [
            {
                "describedObject": {"kind": "Pod", **_reference(pod), "apiVersion": "/v1"},
                "metric": {"name": REQUESTS, "selector": None},
                "timestamp": timestamp(self._now()),
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
                "timestamp": timestamp(self._now()),
                "value": self._value(milli, "m"),
            }
            for labels, milli in self.external.get(metric, [])
            if selector.matches(labels)
        ]


def _reference(obj: Object) -> Object:
    return {key: obj["metadata"][key] for key in ("name", "namespace") if key in obj["metadata"]}


def _resource(name: str, kind: str, namespaced: bool) -> Object:
    names = {"name": name, "singularName": "", "namespaced": namespaced, "kind": kind}
    return {**names, "verbs": ["get"] if "/" in name else ["get", "list"]}


def _list(group: str, kind: str, items: list[Object]) -> Object:
    return {"kind": kind, "apiVersion": f"{group}/{VERSIONS[group]}", "metadata": {}, "items": items}
