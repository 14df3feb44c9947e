"""Strategic merge patches of Deployments, as `kubectl apply` sends them."""

from __future__ import annotations

from typing import Any

from tests.conformance.plane.registry import check
from tests.conformance.plane.talk import STRATEGIC, Answer, Object, Talk
from tests.conformance.plane.things import deployment, deployments

WEB = {
    "name": "web",
    "image": "registry.invalid/web:1",
    "args": ["--a", "--b"],
    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "C", "value": "3"}],
    "ports": [{"name": "http", "containerPort": 80}, {"name": "more", "containerPort": 81}],
    "resources": {"requests": {"cpu": "100m"}},
    "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "data", "mountPath": "/more"}],
}
SIDE = {"name": "side", "image": "registry.invalid/side:1"}


async def web(talk: Talk) -> str:
    """Create a Deployment with two containers and return its path."""
    path = deployments(await talk.begin())
    body = deployment("web", containers=[WEB, SIDE], volumes=[{"name": "data", "emptyDir": {}}])
    body["spec"]["strategy"] = {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
    }
    await talk.make(path, body, keep=True)
    return f"{path}/web"


def shown(body: Any) -> Any:
    """Returns the patched fields, without defaults."""
    spec = body["spec"]
    pod = spec["template"]["spec"]
    return {
        "labels": body["metadata"].get("labels"),
        "annotations": body["metadata"].get("annotations"),
        "finalizers": body["metadata"].get("finalizers"),
        "generation": body["metadata"]["generation"],
        "replicas": spec["replicas"],
        "strategy": spec["strategy"],
        "template labels": spec["template"]["metadata"]["labels"],
        "containers": [container_of(container) for container in pod["containers"]],
        "volumes": [sorted(volume) for volume in pod.get("volumes") or ()],  # each source has its defaults
        "nodeSelector": pod.get("nodeSelector"),
        "tolerations": pod.get("tolerations"),
    }


def container_of(container: Any) -> Any:
    """Returns the fields of WEB, without empty ones and without the protocol of ports."""
    kept = {key: value for key, value in container.items() if key in WEB and value}
    for port in kept.get("ports", ()):
        port.pop("protocol", None)
    return kept


async def patched(talk: Talk, path: str, patch: Object) -> Answer:
    """Send a strategic merge patch and return the answer."""
    return await talk.patch(path, patch, STRATEGIC, show=shown)


def pod_spec(**pod: Any) -> Object:
    """Returns a patch of the pod template."""
    return {"spec": {"template": {"spec": pod}}}


@check()
async def maps_and_nulls(talk: Talk) -> None:
    """Maps are merged by key, null removes, a scalar is set."""
    path = await web(talk)
    await patched(talk, path, pod_spec(nodeSelector={"a": "1", "b": "2"}))
    merged = await patched(talk, path, pod_spec(nodeSelector={"a": None, "c": "3"}))
    gone = await patched(talk, path, pod_spec(nodeSelector=None))
    scaled = await patched(talk, path, {"spec": {"replicas": 5}})
    resources = {"name": "web", "resources": {"requests": {"cpu": "200m"}, "limits": {"memory": "1Gi"}}}
    await patched(talk, path, pod_spec(containers=[resources]))

    assert merged.json["spec"]["template"]["spec"]["nodeSelector"] == {"b": "2", "c": "3"}
    assert "nodeSelector" not in gone.json["spec"]["template"]["spec"]
    assert scaled.json["spec"]["replicas"] == 5
