"""The state of a lean member: pods with serial numbers, events for their watches, and a usage with noise."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from benchmarks.controller.bodies import USAGE_MILLI, MemberBodies
from benchmarks.controller.bodies import FleetSize as NoFleet
from benchmarks.fleet.layout import FleetSize

# Usage differs from the target by at most this share, which is within the tolerance of 10 %.
NOISE: Final = 0.06
# Usage changes this often, as metrics-server's does.
USAGE_SECONDS: Final = 15.0
# Events that a watch from an older version still gets. Older ones are expired, as in etcd.
KEPT_EVENTS: Final = 2_000
PODS: Final = "pods"
DEPLOYMENTS: Final = "deployments"

_BODIES: Final = MemberBodies(NoFleet(objects=1, namespaces=1, clusters=1, pods=1))

# The collection and namespace of an event.
Place = tuple[str, str]


class MemberState:
    """The objects of one member. `on_event` receives the place and the line of each change."""

    def __init__(self, size: FleetSize, cluster: int, on_event: Callable[[Place, bytes], None]) -> None:
        self.name = size.cluster(cluster)
        self._rng = random.Random(cluster)
        self._on_event = on_event
        self._serials = {
            namespace: {name: list(range(size.pods_each)) for name in size.workloads[namespace]}
            for namespace in size.namespaces_in(cluster)
        }
        self._next = size.pods_each
        self.version = 1
        self._events: deque[tuple[int, Place, bytes]] = deque(maxlen=KEPT_EVENTS)
        self._floor = 1
        self._usage: dict[str, tuple[int, bytes]] = {}
        self.churned = 0
        self.scaled = 0

    @property
    def pods(self) -> int:
        """The number of pods."""
        return sum(len(pods) for names in self._serials.values() for pods in names.values())

    @property
    def namespaces(self) -> list[str]:
        """The namespaces of this member."""
        return list(self._serials)

    def events_since(self, version: int, place: Place) -> list[bytes] | None:
        """The lines of a place since a version; None if that is expired."""
        if version < self._floor:
            return None
        return [line for at, where, line in self._events if at > version and where == place]

    def expire(self) -> None:
        """Forget all events, as after an outage in which a watch cannot go on."""
        self._events.clear()
        self._floor = self.version

    def churn(self) -> None:
        """Replace one pod by another one that is ready at once."""
        if not self._serials:
            return
        namespace = self._rng.choice(list(self._serials))
        name = self._rng.choice(list(self._serials[namespace]))
        serials = self._serials[namespace][name]
        if serials:
            old = serials.pop(self._rng.randrange(len(serials)))
            self._pod_event("DELETED", namespace, name, old)
            self._add(namespace, name)
            self.churned += 1

    def scale(self, namespace: str, name: str, replicas: int) -> bytes | None:
        """Set the replicas of a workload, whose pods follow at once. Returns the new scale."""
        serials = self._serials.get(namespace, {}).get(name)
        if serials is None:
            return None
        self.scaled += len(serials) != replicas
        while len(serials) > replicas:
            self._pod_event("DELETED", namespace, name, serials.pop())
        while len(serials) < replicas:
            self._add(namespace, name)
        self._event(
            "MODIFIED", (DEPLOYMENTS, namespace), msgspec.json.encode(self._deployment(namespace, name))
        )
        return self.scale_of(namespace, name)

    def scale_of(self, namespace: str, name: str) -> bytes | None:
        """The scale subresource of a workload; None without the workload."""
        serials = self._serials.get(namespace, {}).get(name)
        if serials is None:
            return None
        return msgspec.json.encode(
            {
                "kind": "Scale",
                "apiVersion": "autoscaling/v1",
                "metadata": self._metadata(namespace, name),
                "spec": {"replicas": len(serials)},
                "status": {"replicas": len(serials), "selector": f"app={name}"},
            }
        )

    def listed_pods(self, namespace: str) -> bytes:
        """The PodList of a namespace, without fields that no client decodes."""
        items = (
            _BODIES.slim_pod(namespace, name, serial, version=self.version)
            for name, serials in self._serials.get(namespace, {}).items()
            for serial in serials
        )
        return self._list(b"PodList", b"v1", items)

    def listed_deployments(self, namespace: str) -> bytes:
        """The DeploymentList of a namespace."""
        items = (
            msgspec.json.encode(self._deployment(namespace, name))
            for name in self._serials.get(namespace, {})
        )
        return self._list(b"DeploymentList", b"apps/v1", items)

    def usage(self, namespace: str, now: float, app: str = "") -> bytes:
        """The PodMetricsList of a namespace, or of one workload there; "" stands for all namespaces."""
        if namespace and not app:
            return self._list(b"PodMetricsList", b"metrics.k8s.io/v1beta1", [self._usage_of(namespace, now)])
        if app:
            serials = self._serials.get(namespace, {}).get(app, ())
            items = [self._measured(namespace, app, serials, now)] if serials else []
            return self._list(b"PodMetricsList", b"metrics.k8s.io/v1beta1", items)
        found = (self._usage_of(each, now) for each in self._serials)
        return self._list(b"PodMetricsList", b"metrics.k8s.io/v1beta1", filter(None, found))

    def _usage_of(self, namespace: str, now: float) -> bytes:
        turn = int(now / USAGE_SECONDS)
        known = self._usage.get(namespace)
        if known is None or known[0] != turn:
            parts = (
                self._measured(namespace, name, serials, now)
                for name, serials in self._serials.get(namespace, {}).items()
                if serials
            )
            known = self._usage[namespace] = turn, b",".join(parts)
        return known[1]

    def _measured(self, namespace: str, name: str, serials: Any, now: float) -> bytes:
        noise = random.Random(hash((self.name, namespace, name, int(now / USAGE_SECONDS)))).uniform(
            -NOISE, NOISE
        )
        nano = int(USAGE_MILLI * 1_000_000 * (1 + noise))
        return b",".join(
            b'{"metadata":{"name":"%s-5d9c7b6f4-%05d","namespace":"%s","creationTimestamp":"2026-03-11T13:23:00Z",'
            b'"labels":{"app":"%s","pod-template-hash":"5d9c7b6f4"}},"timestamp":"2026-03-11T13:23:00Z",'
            b'"window":"15.123s","containers":[{"name":"web","usage":{"cpu":"%dn","memory":"131072Ki"}}]}'
            % (name.encode(), serial, namespace.encode(), name.encode(), nano)
            for serial in serials
        )

    def _list(self, kind: bytes, version: bytes, items: Any) -> bytes:
        joined: Iterator[bytes] = iter(items)
        return b'{"kind":"%s","apiVersion":"%s","metadata":{"resourceVersion":"%d"},"items":[%s]}' % (
            kind,
            version,
            self.version,
            b",".join(joined),
        )

    def _add(self, namespace: str, name: str) -> None:
        self._serials[namespace][name].append(self._next)
        self._pod_event("ADDED", namespace, name, self._next)
        self._next += 1

    def _pod_event(self, kind: str, namespace: str, name: str, serial: int) -> None:
        pod = _BODIES.pod(namespace, name, serial, version=self.version + 1)
        self._event(kind, (PODS, namespace), pod)

    def _event(self, kind: str, place: Place, body: bytes) -> None:
        self.version += 1
        line = b'{"type":"%s","object":%s}\n' % (kind.encode(), body)
        if len(self._events) == KEPT_EVENTS:
            self._floor = self._events[0][0]
        self._events.append((self.version, place, line))
        self._on_event(place, line)

    def _metadata(self, namespace: str, name: str) -> dict[str, str]:
        version = str(self.version)
        return {
            "namespace": namespace,
            "name": name,
            "uid": f"{namespace}-{name}",
            "resourceVersion": version,
        }

    def _deployment(self, namespace: str, name: str) -> dict[str, Any]:
        made = _BODIES.deployment(namespace, name)
        replicas = len(self._serials[namespace][name])
        made["metadata"] = self._metadata(namespace, name)
        made["spec"]["replicas"] = replicas
        made["status"] = {"replicas": replicas, "readyReplicas": replicas}
        return made
