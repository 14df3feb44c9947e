"""Hostile objects for a hub: Clusters, Secrets and autoscalers of any content, at random."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from typing import Any, Final

from testbed.stage.registrations import CLUSTER_NAMESPACE
from tests.property.admission_bodies import CRON, FHPA, mutated

Object = dict[str, Any]
# Objects that bypass the webhook are stored as far as the CRD admits them.
UNCHECKED, CHECKED = "hostile-unchecked", "hostile-checked"
SPACES: Final = (CHECKED, UNCHECKED)
JUNK: Final = tuple(f"junk-{number}" for number in range(8))
CLUSTERS: Final = "/apis/cluster.karmada.io/v1alpha1/clusters"
SECRETS: Final = f"/api/v1/namespaces/{CLUSTER_NAMESPACE}/secrets"
FEDERATED: Final = "/apis/autoscaling.karmada.io/v1alpha1/namespaces"

LONG: Final = "a" * 64
ENDPOINTS: Final = (
    *(
        "https://foo..bar",
        "https://.",
        "https://a\\b",
        "http://127.0.0.1:1",
        "https://",
        "://",
        "",
        "https://[::1",
    ),
    *(
        f"https://{LONG}.example",
        "https://" + "a." * 120 + "b",
        "https://m\u00fcnchen",
        "https://h:-1",
        "https://h:x",
    ),
    *(
        "https://127.0.0.1:1",
        "https://127.0.0.1:1/\u2028",
        "ftp://x",
        "https://u:p@127.0.0.1:1",
        "https://%00",
    ),
)
PROXIES: Final = (
    "http://foo..bar",
    f"http://{LONG}",
    "http://a\\b:1",
    "socks5://x",
    "http://127.0.0.1:1",
    "x",
)
TOKENS: Final = (b"", b"t", b"a\nb", b"\x00\xff", b"\xff\xfe", b"x" * 200_000, "\u00fc".encode(), b" t ")
BUNDLES: Final = (
    *(
        b"",
        b"x",
        b"\x00" * 1_000,
        b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----",
        b"#" * 200_000,
    ),
    *("# Z\u00fcrich\n".encode(), b"-----BEGIN CERTIFICATE-----\n" * 5_000),
)
QUANTITIES: Final = (
    "0",
    "-5",
    "1e-9",
    "1e18",
    "9" * 40,
    "1n",
    "5x",
    "NaN",
    "1e99999999",
    "",
    0,
    -1,
    1.5,
    2**62,
)


def nested(levels: int) -> Object:
    """Returns objects in objects."""
    found: Object = {"end": 1}
    for _ in range(levels):
        found = {"x": found}
    return found


class Generator:
    """Random hostile objects. `endpoint` is the hostile member's, which some Clusters share."""

    def __init__(self, chance: random.Random, endpoint: str, bundle: bytes) -> None:
        self._chance = chance
        self._endpoint = endpoint
        self._bundle = bundle

    def cluster(self, name: str) -> Object:
        """Returns a Cluster that can be stored or not."""
        pick = self._chance.choice
        spec: Object = {
            "apiEndpoint": pick((*ENDPOINTS, self._endpoint, self._endpoint)),
            "secretRef": {"namespace": CLUSTER_NAMESPACE, "name": name},
        }
        odd: dict[str, Callable[[], Any]] = {
            "proxyURL": lambda: pick(PROXIES),
            "proxyHeader": lambda: pick(({"a b": "c"}, {"": ""}, {"x": "\r\ny: z"}, {"h": "v" * 500})),
            "secretRef": lambda: pick(({"namespace": "..", "name": "."}, {"namespace": "x", "name": ""}, {})),
            "region": lambda: "r" * 512,
            "zones": lambda: ["z" * 63] * 500,
            "insecureSkipTLSVerification": lambda: True,
            "syncMode": lambda: "Pull",
        }
        for key, value in odd.items():
            if self._chance.random() < 0.15:
                spec[key] = value()
        metadata: Object = {"name": name}
        if self._chance.random() < 0.3:
            metadata["labels"] = {f"{'p' * 200}.example/{'n' * 63}": "9" * 63, "a": ""}
            metadata["annotations"] = {"large": "x" * 200_000}
        made = {
            "apiVersion": "cluster.karmada.io/v1alpha1",
            "kind": "Cluster",
            "metadata": metadata,
            "spec": spec,
        }
        return made if self._chance.random() < 0.8 else {**made, "spec": mutated(spec, self._chance)}

    def cluster_status(self) -> Object:
        """Returns a status that somebody else wrote."""
        pick = self._chance.choice
        condition = {
            "type": "Ready",
            "status": pick(("True", "False", "Unknown")),
            "reason": pick(("ClusterReady", "Odd", "FedHPAProbeSucceeded")),
            "message": "m" * pick((0, 10, 30_000)),
            "lastTransitionTime": pick(("9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z")),
        }
        return {
            "status": {"conditions": [condition] * pick((0, 1)), "kubernetesVersion": pick(("", "v" * 200))}
        }

    def secret(self, name: str) -> Object:
        """Returns a Secret of any content; some lead to the hostile member."""
        pick = self._chance.choice
        data = {"token": pick(TOKENS), "caBundle": pick((*BUNDLES, self._bundle, self._bundle))}
        for key in list(data):
            if self._chance.random() < 0.2:
                del data[key]
        if self._chance.random() < 0.1:
            data["other"] = b"\x00" * 300_000
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        metadata = {"name": name, "namespace": CLUSTER_NAMESPACE}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded}

    def autoscaler(self, name: str, space: str, clusters: tuple[str, ...]) -> Object:
        """Returns a FederatedHPA or CronFederatedHPA that can be stored or not."""
        example = CRON if self._chance.random() < 0.15 else FHPA
        if example is CRON or self._chance.random() < 0.25:
            return {**_head(example, name, space), "spec": mutated(example["spec"], self._chance)}
        return {**_head(FHPA, name, space), "spec": self._spec(clusters)}

    def _spec(self, clusters: tuple[str, ...]) -> Object:
        pick, chance = self._chance.choice, self._chance
        spec: Object = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": pick(("web", "none"))},
            "minReplicas": pick((1, 1, 1, 1, 1, 50, -1, 2**31 - 1)),
            "maxReplicas": pick((3, 3, 10, 2**31 - 1)),
            "syncPeriodSeconds": pick((1, 2, 5)),
            "clusterAffinity": {"clusterNames": list(clusters)},
            "metrics": [self._metric() for _ in range(pick((1, 1, 2, 20)))],
        }
        odd: dict[str, Callable[[], Any]] = {
            "clusterHPAPreference": lambda: pick(
                (nested(20), nested(100), nested(900), {"clusterName": "junk-1", "maxResourceUsage": "NaN"})
            ),
            "clusterAffinity": lambda: pick(
                ({}, {"clusterNames": ["x" * 512] * 100}, {"labelSelector": SELECTOR})
            ),
            "partialMetrics": lambda: {
                "policy": pick(("Proceed", "Fallback", "x")),
                "lostAfterSeconds": pick((1, -1)),
            },
            "behavior": lambda: {"scaleUp": {"tolerance": pick(QUANTITIES)}, "scaleDown": {"policies": []}},
            "mode": lambda: "Distributed",
            "dryRun": lambda: True,
            "federatedMaxReplicas": lambda: -7,
            "federatedHPAAssignment": lambda: {
                "federatedHPAAssignmentType": pick(("Duplicated", "Aggregated", "x"))
            },
        }
        for key, value in odd.items():
            if chance.random() < 0.05:
                spec[key] = value()
        return spec

    def _metric(self) -> Object:
        pick, odd = self._chance.choice, self._chance.random() < 0.3
        quantity = pick(QUANTITIES) if odd else "5"
        percent = pick((0, -1, 2**31 - 1)) if odd else 50
        target = {"type": "AverageValue", "averageValue": quantity}
        value = pick((target, {"type": "Value", "value": quantity}))
        usage = pick((target, {"type": "Utilization", "averageUtilization": percent}))
        selector = pick((SELECTOR, {"matchLabels": {"app": "web"}}, {}))
        name = pick(("d" * 500, "..", "a/b", "\u00fc")) if odd else pick(("hits", "depth"))
        metric = {"name": name, "selector": selector} if self._chance.random() < 0.5 else {"name": name}
        resource = "x" if odd else pick(("cpu", "memory"))
        return pick(
            (
                {"type": "Resource", "resource": {"name": resource, "target": usage}},
                {"type": "External", "external": {"metric": metric, "target": value}},
                {
                    "type": "Object",
                    "object": {"metric": metric, "describedObject": SERVICE, "target": value},
                },
                {"type": "Pods", "pods": {"metric": metric, "target": target}},
                {"type": "Odd", "resource": None} if odd else {"type": "Resource", "resource": CPU},
            )
        )

    def status(self) -> Object:
        """Returns a stored state of an autoscaler that no controller wrote."""
        pick = self._chance.choice
        time = pick(("9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-03-11T12:00:00Z"))
        history = [{"time": time, "replicas": 2**31 - 1}, {"time": time, "replicas": -1}]
        decision = pick(
            ({}, {"history": {"recommendations": history}}, {"version": 99}, {"absences": nested(50)})
        )
        clusters = [{"name": "member1", "state": "Lost", "currentReplicas": 10**9, "lastSeen": time}]
        return {
            "metadata": {"annotations": {"autoscaling.karmada.io/fedhpa-record": pick(RECORDS)}},
            "status": {
                "desiredReplicas": pick((0, -1, 2**31 - 1)),
                "currentReplicas": 1,
                "lastScaleTime": time,
                "clusters": pick(([], clusters)),
                "decision": decision,
            },
        }

    def odd_pod(self, name: str) -> Object:
        """Returns a pod with odd labels, which a good member stores."""
        value = self._chance.choice(("9" * 63, "", "A_b.c-9", "0x10", "1e400"[:5], "NaN"))
        labels = {"app": value, f"{'p' * 200}.example/{'n' * 63}": "9" * 63, "n": "-".join("9" * 30)}
        container = {
            "name": "c",
            "image": "registry.invalid/none",
            "resources": {"requests": {"memory": self._chance.choice(("1", "1e3", "1n", "0"))}},
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels, "annotations": {"large": "x" * 100_000}},
            "spec": {"containers": [container], "nodeName": None},
        }


SELECTOR: Final = {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["9" * 63, ""]}]}
CPU: Final = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
SERVICE: Final = {"apiVersion": "v1", "kind": "Service", "name": "web"}
RECORDS: Final = (
    "",
    "{",
    "[" * 1_500,
    '{"a":' * 1_500 + "1" + "}" * 1_500,
    "x" * 200_000,
    '{"version":"x"}',
    "null",
)


def _head(example: Object, name: str, space: str) -> Object:
    return {
        "apiVersion": example["apiVersion"],
        "kind": example["kind"],
        "metadata": {"name": name, "namespace": space},
    }
