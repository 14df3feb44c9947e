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
async def containers_by_name(talk: Talk) -> None:
    """Containers are merged by name; $setElementOrder sets the order."""
    path = await web(talk)
    image = await patched(
        talk, path, pod_spec(containers=[{"name": "web", "image": "registry.invalid/web:2"}])
    )
    new = {"name": "new", "image": "registry.invalid/new:1"}
    added = await patched(talk, path, pod_spec(containers=[new]))
    ordered = {"$setElementOrder/containers": [{"name": "side"}, {"name": "web"}, {"name": "new"}]}
    sorted_ = await patched(
        talk, path, pod_spec(**ordered, containers=[{"name": "side", "image": "registry.invalid/side:2"}])
    )

    images = [container["image"] for container in image.json["spec"]["template"]["spec"]["containers"]]
    assert images == ["registry.invalid/web:2", "registry.invalid/side:1"]
    assert len(added.json["spec"]["template"]["spec"]["containers"]) == 3
    names = [container["name"] for container in sorted_.json["spec"]["template"]["spec"]["containers"]]
    assert names == ["side", "web", "new"]


@check()
async def containers_removed_and_replaced(talk: Talk) -> None:
    """$patch: delete removes an element, $patch: replace replaces a list or an object."""
    path = await web(talk)
    removed = await patched(talk, path, pod_spec(containers=[{"name": "side", "$patch": "delete"}]))
    whole = [{"$patch": "replace"}, {"name": "only", "image": "registry.invalid/only:1"}]
    replaced = await patched(talk, path, pod_spec(containers=whole))
    labels = {"metadata": {"labels": {"a": "1", "b": "2"}}}
    await patched(talk, path, labels)
    cut = await patched(talk, path, {"metadata": {"labels": {"$patch": "replace", "c": "3"}}})

    assert [c["name"] for c in removed.json["spec"]["template"]["spec"]["containers"]] == ["web"]
    assert [c["name"] for c in replaced.json["spec"]["template"]["spec"]["containers"]] == ["only"]
    assert cut.json["metadata"]["labels"] == {"c": "3"}


@check()
async def environment_by_name(talk: Talk) -> None:
    """Variables are merged by name, in the order of $setElementOrder."""
    path = await web(talk)
    env = [{"name": "B", "value": "changed"}, {"name": "D", "value": "4"}]
    merged = await patched(talk, path, pod_spec(containers=[{"name": "web", "env": env}]))
    order = [{"name": "D"}, {"name": "B"}, {"name": "A"}]
    env = [{"name": "D", "value": "5"}, {"name": "C", "$patch": "delete"}]
    container = {"name": "web", "$setElementOrder/env": order, "env": env}
    ordered = await patched(
        talk, path, pod_spec(**{"$setElementOrder/containers": [{"name": "web"}]}, containers=[container])
    )

    assert {"name": "B", "value": "changed"} in merged.json["spec"]["template"]["spec"]["containers"][0][
        "env"
    ]
    found = next(c for c in ordered.json["spec"]["template"]["spec"]["containers"] if c["name"] == "web")
    assert [variable["name"] for variable in found["env"]] == ["D", "B", "A"]


@check()
async def retained_keys(talk: Talk) -> None:
    """$retainKeys drops the keys that it does not name."""
    path = await web(talk)
    recreate = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    strategy = await patched(talk, path, recreate)
    volume = {"name": "data", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/tmp"}}
    source = await patched(talk, path, pod_spec(volumes=[volume]))

    assert strategy.json["spec"]["strategy"] == {"type": "Recreate"}
    assert "emptyDir" not in source.json["spec"]["template"]["spec"]["volumes"][0]


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


@check()
async def finalizers_are_a_set(talk: Talk) -> None:
    """Finalizers are merged as a set; $deleteFromPrimitiveList removes elements."""
    path = await web(talk)
    for finalizers in (["x.test/a"], ["x.test/b", "x.test/a"]):
        added = await patched(talk, path, {"metadata": {"finalizers": finalizers}})
    taken = await patched(
        talk,
        path,
        {
            "metadata": {
                "$deleteFromPrimitiveList/finalizers": ["x.test/a"],
                "$setElementOrder/finalizers": ["x.test/b"],
            }
        },
    )
    await talk.quietly("PATCH", path, {"metadata": {"finalizers": None}}, content_type=STRATEGIC)

    assert sorted(added.json["metadata"]["finalizers"]) == ["x.test/a", "x.test/b"]
    assert taken.json["metadata"]["finalizers"] == ["x.test/b"]
