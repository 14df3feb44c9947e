"""The response bodies of members in memory: pods, usage, Deployments and scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from benchmarks.decision import pod_bytes

STARTED: Final = b"2020-01-01T00:00:00Z"
# The target: half of the request. Every metric is computed and nothing is scaled.
USAGE_MILLI: Final = 125
_PODS_HEAD: Final = b'{"kind":"PodList","apiVersion":"v1",'
NO_HPAS: Final = b'{"kind":"HorizontalPodAutoscalerList","apiVersion":"autoscaling/v2","items":[]}'
_USAGE_HEAD: Final = b'{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1",'
_POD: Final[dict[str, Any]] = msgspec.json.decode(pod_bytes(1))["items"][0]
# An event of a watch names kind and version, an item of a list does not.
_TEMPLATE: Final = msgspec.json.encode({"kind": "Pod", "apiVersion": "v1", **_POD})
# First lists are not measured, so their pods leave out the fields that nobody decodes.
_SLIM: Final = msgspec.json.encode(
    {
        "metadata": {key: value for key, value in _POD["metadata"].items() if key != "managedFields"},
        "spec": {
            "containers": [{k: v for k, v in c.items() if k != "env"} for c in _POD["spec"]["containers"]]
        },
        "status": _POD["status"],
    }
)

Key = tuple[str, str]


@dataclass(frozen=True)
class FleetSize:
    """`objects` autoscalers in `namespaces` namespaces, each with `pods` pods in each of `clusters`."""

    objects: int = 1000
    namespaces: int = 20
    clusters: int = 10
    pods: int = 10

    @property
    def keys(self) -> list[Key]:
        """The namespace and name of every autoscaler, which its Deployment shares."""
        return [(f"team-{number % self.namespaces}", f"web-{number}") for number in range(self.objects)]

    @property
    def all_pods(self) -> int:
        """The number of pods in all clusters."""
        return self.objects * self.clusters * self.pods

    def names(self, namespace: str) -> list[str]:
        """The names of the autoscalers of a namespace."""
        return [key[1] for key in self.keys if key[0] == namespace]


class MemberBodies:
    """The response bodies of a member. All members answer alike and share one instance."""

    def __init__(self, size: FleetSize) -> None:
        self._size = size
        self._usage: dict[tuple[str, int], bytes] = {}
        self._pages: dict[tuple[str, int], tuple[bytes, int]] = {}
        self._names = {f"team-{number}": size.names(f"team-{number}") for number in range(size.namespaces)}
        # Usage changes a little from period to period.
        self.period = 0

    def pod(
        self,
        namespace: str,
        name: str,
        number: int,
        *,
        version: int = 1,
        ready: bool = True,
        template: bytes = _TEMPLATE,
    ) -> bytes:
        """A pod as JSON, made from the template."""
        return (
            template.replace(b"web-5d9c7b6f4-00000", f"{name}-5d9c7b6f4-{number:05}".encode())
            .replace(b'"app":"web"', f'"app":"{name}"'.encode())
            .replace(
                b'"namespace":"shop"', f'"namespace":"{namespace}","resourceVersion":"{version}"'.encode()
            )
            .replace(b"2026-03-11T10:00:00Z", STARTED)
            .replace(b"2026-03-11T10:00:05Z", STARTED)
            .replace(b'"Ready","status":"True"', b'"Ready","status":"%s"' % (b"True" if ready else b"False"))
        )

    def slim_pod(self, namespace: str, name: str, number: int, *, version: int = 1) -> bytes:
        """A pod as a list has it, without the fields that nobody decodes."""
        return self.pod(namespace, name, number, version=version, template=_SLIM)

    def pods(self, namespace: str, begin: int, count: int) -> tuple[bytes, int]:
        """A page of a pod list, and the start of the next page (0 after the last one)."""
        if (namespace, begin) in self._pages:
            return self._pages[namespace, begin]
        names, each = self._names[namespace], self._size.pods
        end = min(begin + count, len(names) * each)
        items = b",".join(
            self.pod(namespace, names[i // each], i % each, template=_SLIM) for i in range(begin, end)
        )
        following = end if end < len(names) * each else 0
        token = str(following or "").encode()
        return b'%s"metadata":{"resourceVersion":"1","continue":"%s"},"items":[%s]}' % (
            _PODS_HEAD,
            token,
            items,
        ), following

    def usage(self, namespace: str) -> bytes:
        """The PodMetricsList of a namespace."""
        key = (namespace, self.period % 2)
        if key not in self._usage:
            self._usage[key] = self._make_usage(namespace, USAGE_MILLI * 1_000_000 + self.period % 2 * 1000)
        return self._usage[key]

    def _make_usage(self, namespace: str, nano: int) -> bytes:
        items = b",".join(
            b'{"metadata":{"name":"%s-5d9c7b6f4-%05d","namespace":"%s","creationTimestamp":"2026-03-11T13:23:00Z",'
            b'"labels":{"app":"%s","pod-template-hash":"5d9c7b6f4"}},"timestamp":"2026-03-11T13:23:00Z",'
            b'"window":"15.123s","containers":[{"name":"web","usage":{"cpu":"%dn","memory":"131072Ki"}}]}'
            % (name.encode(), number, namespace.encode(), name.encode(), nano)
            for name in self._names[namespace]
            for number in range(self._size.pods)
        )
        return b'%s"metadata":{},"items":[%s]}' % (_USAGE_HEAD, items)

    def deployment(self, namespace: str, name: str) -> dict[str, Any]:
        """A Deployment as a member stores it."""
        labels = {"app": name}
        container = msgspec.json.decode(_TEMPLATE)["spec"]["containers"][0]
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"namespace": namespace, "name": name, "uid": "u", "resourceVersion": "1"},
            "spec": {
                "replicas": self._size.pods,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
            "status": {"replicas": self._size.pods, "readyReplicas": self._size.pods},
        }

    def deployments(self, namespace: str) -> bytes:
        """The DeploymentList of a namespace."""
        items = [self.deployment(namespace, name) for name in self._names[namespace]]
        head = {"kind": "DeploymentList", "apiVersion": "apps/v1", "metadata": {"resourceVersion": "1"}}
        return msgspec.json.encode({**head, "items": items})

    def scale(self, namespace: str, name: str) -> bytes:
        """The scale subresource of a Deployment."""
        return msgspec.json.encode(
            {
                "kind": "Scale",
                "apiVersion": "autoscaling/v1",
                "metadata": {"namespace": namespace, "name": name, "uid": "u", "resourceVersion": "1"},
                "spec": {"replicas": self._size.pods},
                "status": {"replicas": self._size.pods, "selector": f"app={name}"},
            }
        )
