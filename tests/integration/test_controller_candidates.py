"""The candidate clusters of an autoscaler."""

from __future__ import annotations

from typing import Any

import pytest

from controller.flags import KARMADA
from tests.support.controller import (
    BINDINGS,
    DEPLOYMENTS,
    NAMESPACE,
    SCALE_PATH,
    ControllerWorld,
    cluster_object,
    world,
)
from tests.support.fakeapi import CLUSTERS, Object, eventually

pytestmark = pytest.mark.looptime(noop_cycles=0)

LABEL = "propagationpolicy.karmada.io/permanent-id"
CLUSTER_LABEL = "clusterpropagationpolicy.karmada.io/permanent-id"


def binding(label: str, *clusters: str, name: str = "web", namespace: str = NAMESPACE) -> Object:
    """The ResourceBinding of a Deployment."""
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": namespace, "name": name}
    return {
        "metadata": {"name": f"{name}-deployment", "namespace": namespace, "labels": {label: "p1"}},
        "spec": {"resource": resource, "clusters": [{"name": cluster} for cluster in clusters]},
    }


def counted(w: ControllerWorld) -> list[str]:
    """The names in status.clusters."""
    return [entry["name"] for entry in w.status().get("clusters") or ()]


@pytest.mark.parametrize("label", [LABEL, CLUSTER_LABEL])
async def test_bound_clusters_count(label: str) -> None:
    """On Karmada's hub only the clusters of the workload's ResourceBinding count. One of a workload of this
    name in another namespace, also under the same policy, is not ours.
    """
    async with world(m1=2, m2=2, m3=2) as w:
        w.hub.served.add(BINDINGS[0])
        w.hub.deploy(4, **{label: "p1"})
        w.hub.put(BINDINGS, binding(label, "m2", namespace="elsewhere"))
        w.hub.put(BINDINGS, binding(label, "m1", "m3"))
        w.scale()
        async with w.controller(propagation=KARMADA):
            await eventually(lambda: w.status().get("currentReplicas") == 4)

        assert counted(w) == ["m1", "m3"]
        assert w.members["m2"].request_count("GET", SCALE_PATH) == 0


async def test_a_cluster_that_karmada_evicts_is_leaving() -> None:
    """Karmada took it out of the clusters at once, and keeps its pods for up to ten minutes."""
    task = {"fromCluster": "m2", "reason": "TaintUntolerated", "producer": "TaintManager"}
    async with world(m1=4, m2=2) as w:
        w.hub.served.add(BINDINGS[0])
        w.hub.deploy(4, **{LABEL: "p1"})
        bound = binding(LABEL, "m1")
        bound["spec"]["gracefulEvictionTasks"] = [task]
        w.hub.put(BINDINGS, bound)
        w.scale()
        async with w.controller(propagation=KARMADA):
            await eventually(lambda: w.status().get("currentReplicas") == 4)

        evicts = "Karmada evicts it (TaintManager: TaintUntolerated)"
        assert w.status()["clusters"][1:] == [{"name": "m2", "membership": "Leaving", "waitsFor": evicts}]
        assert w.status()["summary"]["clusters"] == "1/1"


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        (None, 4),  # each has the template's number: Duplicated
        ({}, 4),
        ({"replicaScheduling": {}}, 4),
        ({"replicaScheduling": {"replicaSchedulingType": "Duplicated"}}, 4),
        ({"replicaScheduling": {"replicaSchedulingType": "Divided"}}, 8),
    ],
)
async def test_the_binding_tells_copies_from_parts(placement: Any, expected: int) -> None:
    """Twice the target in two clusters with the template's two replicas each: copies want 4, parts 8."""
    async with world(m1=2, m2=2) as w:
        w.hub.served.add(BINDINGS[0])
        w.hub.deploy(2, **{LABEL: "p1"})
        bound = binding(LABEL, "m1", "m2")
        bound["spec"]["placement"] = placement
        w.hub.put(BINDINGS, bound)
        for member in w.members.values():
            member.use(100)
        w.scale(maxReplicas=50)
        async with w.controller(propagation=KARMADA):
            await eventually(lambda: w.status().get("desiredReplicas"))

        assert w.record()["decision"]["metrics"][0]["proposal"] == expected


async def test_the_binding_knows_the_share_of_a_member_that_never_answered() -> None:
    """Two of the template's six answer, and the binding gives the missing member four: a third answered."""
    async with world(m1=2) as w:
        w.hub.served.add(BINDINGS[0])
        w.hub.deploy(6, **{LABEL: "p1"})
        bound = binding(LABEL, "m1", "gone")
        bound["spec"]["clusters"][1]["replicas"] = 4
        w.hub.put(BINDINGS, bound)
        w.scale()
        async with w.controller(propagation=KARMADA):
            await eventually(lambda: w.status().get("clusters"))

        assert w.status()["clusters"][0]["currentReplicas"] == 4


async def test_without_bindings_all_clusters_count() -> None:
    """On a hub that does not serve ResourceBindings all registered clusters count. Only the template's scale
    is read, so no other permission is needed.
    """
    async with world(m1=2, m2=2) as w:
        w.hub.deploy(4)
        w.scale()
        async with w.controller(propagation=KARMADA) as controller:
            await eventually(lambda: w.status().get("currentReplicas") == 4)
            await w.reconciles(controller)

        assert counted(w) == ["m1", "m2"]
        assert w.hub.request_count("GET", SCALE_PATH) > 0
        assert w.hub.request_count("GET", SCALE_PATH.removesuffix("/scale")) == 0


@pytest.mark.parametrize(
    ("labels", "bindings"),
    [
        ({}, [binding(LABEL, "m1")]),
        ({LABEL: "p1"}, []),
        ({LABEL: "other"}, [binding(LABEL, "m1")]),
        ({LABEL: "p1"}, [binding(LABEL, "m1", name="api")]),
        ({LABEL: "p1"}, [binding(LABEL, "m1", namespace="elsewhere")]),
        ({LABEL: "p1"}, [binding(LABEL)]),
    ],
    ids=["no label", "no binding", "other label", "other workload", "other namespace", "no cluster"],
)
async def test_no_binding_is_told(labels: dict[str, str], bindings: list[Object]) -> None:
    """Nothing is scaled if the hub serves bindings but has no binding of the workload."""
    async with world(m1=2) as w:
        w.hub.served.add(BINDINGS[0])
        w.hub.deploy(2, **labels)
        for obj in bindings:
            w.hub.put(BINDINGS, obj)
        w.load(400)
        w.scale()
        async with w.controller(propagation=KARMADA) as controller:
            await w.reconciles(controller)
            await eventually(lambda: w.events("FailedGetBindings"))

        assert w.condition("AbleToScale")[:2] == ("False", "FailedGetBinding")
        assert w.hub.request_count("PUT", SCALE_PATH) == 0


@pytest.mark.parametrize(
    ("bindings_served", "reason"), [(True, "FailedGetScaleTargetRef"), (False, "FailedGetScale")]
)
async def test_absent_template_is_told(bindings_served: bool, reason: str) -> None:
    """A missing target is reported as by Karmada if the hub serves bindings, else as by Kubernetes."""
    async with world(m1=2) as w:
        if bindings_served:
            w.hub.served.add(BINDINGS[0])
        w.scale()
        async with w.controller(propagation=KARMADA):
            await eventually(lambda: w.condition("AbleToScale")[1] == reason)
            await eventually(lambda: w.events(reason))

        assert '"web" not found' in w.condition("AbleToScale")[2]


async def test_unknown_kind_is_told() -> None:
    """A kind that the hub does not serve is reported."""
    async with world(m1=2) as w:
        w.scale(scaleTargetRef={"apiVersion": "apps/v1", "kind": "Wardrobe", "name": "web"})
        async with w.controller():
            await eventually(lambda: w.condition("AbleToScale")[1] == "FailedGetScale")

        assert 'no matches for kind "Wardrobe"' in w.condition("AbleToScale")[2]


async def test_bound_cluster_that_is_not_registered_is_missed() -> None:
    """A bound cluster without a Cluster object is missing, and stops scale-down."""
    async with world(m1=2) as w:
        w.hub.served.add(BINDINGS[0])
        w.hub.deploy(4, **{LABEL: "p1"})
        w.hub.put(BINDINGS, binding(LABEL, "m1", "ghost"))
        w.members["m1"].use(10)
        w.scale()
        async with w.controller(propagation=KARMADA) as controller:
            await w.reconciles(controller)

        assert w.condition("MetricsComplete")[2].startswith(
            "ghost: no Cluster of this name is registered, since "
        )
        assert w.hub.request_count("PUT", SCALE_PATH) == 0


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        (None, ["m1", "m2", "m3"]),
        ({}, ["m1", "m2", "m3"]),
        ({"clusterNames": ["m3", "m1"]}, ["m1", "m3"]),
        ({"exclude": ["m2"]}, ["m1", "m3"]),
        ({"clusterNames": ["m1", "m2"], "exclude": ["m2"]}, ["m1"]),
        ({"labelSelector": {"matchLabels": {"zone": "east"}}}, ["m1", "m2"]),
        ({"labelSelector": {"matchLabels": {"zone": "east"}}, "exclude": ["m1"]}, ["m2"]),
        ({"labelSelector": {"matchLabels": {"zone": "east"}}, "clusterNames": ["m2", "m3"]}, ["m2"]),
    ],
)
async def test_affinity_selects(affinity: Any, expected: list[str]) -> None:
    """spec.clusterAffinity selects by name, label and exclusion, as Karmada's ClusterAffinity does."""
    async with world(m1=1, m2=1, m3=1) as w:
        for name, zone in {"m1": "east", "m2": "east", "m3": "west"}.items():
            obj = cluster_object(w, name)
            w.hub.put(CLUSTERS, {**obj, "metadata": {**obj["metadata"], "labels": {"zone": zone}}})
        w.scale(clusterAffinity=affinity)
        async with w.controller():
            await eventually(lambda: w.status().get("currentReplicas") == len(expected))

        assert counted(w) == expected


def by_field(key: str, operator: str, *values: str) -> Object:
    """A requirement of a field selector."""
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("requirements", "others", "expected"),
    [
        ([by_field("provider", "In", "aws")], {}, ["m1", "m2"]),
        ([by_field("provider", "NotIn", "aws")], {}, ["m3"]),
        ([by_field("region", "In", "eu", "us")], {}, ["m1", "m2"]),
        ([by_field("provider", "In", "aws"), by_field("region", "NotIn", "us")], {}, ["m1"]),
        ([by_field("zone", "In", "b")], {}, ["m2"]),
        ([by_field("zone", "In", "a")], {}, ["m1", "m2"]),
        ([by_field("zone", "NotIn", "b")], {}, ["m1", "m3"]),
        ([by_field("provider", "In", "aws")], {"clusterNames": ["m2", "m3", "ghost"]}, ["m2"]),
        ([by_field("provider", "In", "aws")], {"exclude": ["m1"]}, ["m2"]),
    ],
)
async def test_affinity_selects_by_field(requirements: list[Object], others: Object, expected: Any) -> None:
    """A field selector selects by provider, region and zone; one matching zone is enough."""
    async with world(m1=1, m2=1, m3=1) as w:
        places: dict[str, Object] = {
            "m1": {"provider": "aws", "region": "eu", "zone": "a"},
            "m2": {"provider": "aws", "region": "us", "zones": ["a", "b"]},
            "m3": {},
        }
        for name, place in places.items():
            obj = cluster_object(w, name)
            w.hub.put(CLUSTERS, {**obj, "spec": {**obj["spec"], **place}})
        w.scale(clusterAffinity={"fieldSelector": {"matchExpressions": requirements}, **others})
        async with w.controller():
            await eventually(lambda: w.status().get("currentReplicas") == len(expected))

        assert counted(w) == expected


async def test_bad_affinity_is_told() -> None:
    """An invalid selector is reported, and nothing is scaled."""
    async with world(m1=1) as w:
        requirement = {"key": "zone", "operator": "Near", "values": ["east"]}
        w.scale(clusterAffinity={"labelSelector": {"matchExpressions": [requirement]}})
        async with w.controller():
            await eventually(lambda: w.condition("AbleToScale")[1] == "FailedGetScale")

        assert "Near" in w.condition("AbleToScale")[2]


async def test_cluster_without_the_workload_is_no_candidate() -> None:
    """A cluster without the workload is not missing unless the object names it."""
    async with world(m1=2, m2=2) as w:
        w.members["m2"].remove(DEPLOYMENTS, "web", NAMESPACE)
        w.members["m2"].resized = lambda: None
        w.scale()
        async with w.controller():
            await eventually(lambda: w.status().get("currentReplicas") == 2)
            unnamed = counted(w), w.condition("MetricsComplete")[0]
            w.scale(clusterAffinity={"clusterNames": ["m1", "m2", "ghost"]})
            await eventually(lambda: w.condition("MetricsComplete")[0] == "False")

        assert unnamed == (["m1"], "True")
        assert counted(w) == ["ghost", "m1", "m2"]
        missing = [told.partition(":")[0] for told in w.condition("MetricsComplete")[2].split("; ")]
        assert missing == ["ghost", "m2"]


async def test_cluster_without_the_kind_has_no_workload() -> None:
    """A member that does not serve the target's kind is not missing."""
    async with world(m1=2, m2=2) as w:
        for api in (w.hub, w.members["m1"]):
            api.served.add("argoproj.io/v1alpha1")
        rollout = {"metadata": {"name": "web", "namespace": NAMESPACE}, "spec": {"replicas": 2}}
        w.members["m1"].put(("argoproj.io/v1alpha1", "rollouts"), rollout)
        w.scale(scaleTargetRef={"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web"})
        async with w.controller():
            await eventually(lambda: w.status().get("currentReplicas") == 2)

        assert counted(w) == ["m1"]
        assert w.condition("MetricsComplete")[0] == "True"


async def test_selector_that_cannot_be_parsed_is_named() -> None:
    """A custom resource may have any text as its pod selector: ScalingActive says what is wrong with it."""
    kind = "argoproj.io/v1alpha1"
    path = f"/apis/{kind}/namespaces/{NAMESPACE}/rollouts/web/scale"
    status = {"replicas": 2, "selector": "cheddar cheese"}
    scale = {"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": 2}, "status": status}
    async with world(m1=2) as w:
        for api in (w.hub, w.members["m1"]):
            api.served.add(kind)
            api.answers[path] = lambda: {"metadata": {"name": "web", "namespace": NAMESPACE}, **scale}
        w.scale(scaleTargetRef={"apiVersion": kind, "kind": "Rollout", "name": "web"})
        async with w.controller():
            await eventually(lambda: w.condition("ScalingActive")[0] == "False")

        assert w.condition("ScalingActive")[1] == "InvalidSelector"
        assert "unable to parse requirement: found 'cheese'" in w.condition("ScalingActive")[2]
        assert w.condition("AbleToScale")[:2] == ("True", "SucceededGetScale")


async def test_unreachable_cluster_that_had_no_workload_is_not_missed() -> None:
    """A cluster without the workload that becomes unavailable delays nothing."""
    async with world(m1=4, m2=2) as w:
        w.members["m2"].remove(DEPLOYMENTS, "web", NAMESPACE)
        w.scale()
        async with w.controller() as controller:
            await eventually(lambda: w.status().get("currentReplicas") == 4)
            await w.members["m2"].stop()
            await eventually(lambda: not controller.members.members["m2"].state.ready)
            w.members["m1"].use(10)
            await eventually(lambda: w.members["m1"].replicas() == 1)

        assert counted(w) == ["m1"]


async def test_new_target_starts_without_the_old_ones_shares() -> None:
    """The replicas of an unavailable member do not count for a new target."""
    async with world(m1=2, m2=6) as w:
        w.members["m1"].deploy(3, name="api", app="api")
        w.scale()
        async with w.controller(sync_period=1.0):
            await eventually(lambda: w.status().get("currentReplicas") == 8)
            await w.members["m2"].stop()
            await eventually(lambda: w.state("m2") == "Missing", 75)
            w.scale(target="api")
            await eventually(lambda: w.status().get("currentReplicas") == 3)

        assert w.state("m2") == "Missing"
