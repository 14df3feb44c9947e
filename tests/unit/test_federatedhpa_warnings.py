"""Admission warnings about a FederatedHPA: remedies, and settings that look like mistakes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fedhpa.admission.federatedhpa import validate_federatedhpa, warn_federatedhpa
from fedhpa.admission.placement import warn_unknown_clusters
from fedhpa.api.decode import decode
from fedhpa.api.federatedhpa import FederatedHPA
from fedhpa.api.known_cluster import KnownCluster, RawCluster, known_cluster

METADATA = {"name": "web", "namespace": "shop"}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
KNOWN = [
    KnownCluster("member1", labels={"tier": "gold"}, provider="one", region="north", zones=("n1", "n2")),
    KnownCluster("member2", labels={"tier": "iron"}, provider="two", region="s", zones=("s1",)),
]


def fhpa(**spec: Any) -> FederatedHPA:
    raw = {"metadata": METADATA, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 10, **spec}}
    return decode(FederatedHPA, raw)


def warnings(**spec: Any) -> list[str]:
    return list(warn_federatedhpa(fhpa(**spec)))


def cluster_warnings(**spec: Any) -> list[str]:
    return list(warn_unknown_clusters(fhpa(**spec).spec, KNOWN))


def resource(**target: Any) -> dict[str, Any]:
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def assignment(type_: str | None, *preferences: dict[str, Any]) -> dict[str, Any]:
    return {
        "federatedHPAAssignment": {
            "federatedHPAAssignmentType": type_,
            "clusterAutoscalingPreference": list(preferences),
        }
    }


AGGREGATED = {"federatedHPAAssignmentType": "Aggregated"}
DISTRIBUTED = {"mode": "Distributed", **assignment("Aggregated")}
CPU = resource(type="Utilization", averageUtilization=80)
PODS = {
    "type": "Pods",
    "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": 1}},
}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"maxReplicas": None},
            "spec.maxReplicas: is missing; write the upper limit here, or as federatedMaxReplicas",
        ),
        (
            {"scaleTargetRef": {**TARGET, "name": "deployments/web"}},
            "spec.scaleTargetRef.name: write the name alone, without the kind or the namespace",
        ),
        (
            {"metrics": [{**CPU, "type": ""}]},
            "spec.metrics[0].type: write Resource, which has the field resource",
        ),
        (
            {"metrics": [{**CPU, "type": "CPU"}]},
            "spec.metrics[0].type: write Resource, which has the field resource",
        ),
        (
            {"metrics": [{**CPU, "type": "Pods"}]},
            (
                "spec.metrics[0]: type Pods has the field pods, but resource is given; "
                "write type Resource, or pods"
            ),
        ),
        ({"metrics": [{"type": "Pods"}]}, "spec.metrics[0]: type Pods has the field pods, which is missing"),
        (
            {"metrics": [CPU, {**PODS, **CPU}]},
            "spec.metrics[1]: pods, resource are separate metrics; write each as an item of the list",
        ),
        (
            {"metrics": [resource(type="Utilization", averageUtilization=80, averageValue=1)]},
            (
                "spec.metrics[0].resource.target: keep averageUtilization (percent of the requests) "
                "or averageValue, not both"
            ),
        ),
        (
            {"metrics": [resource(averageUtilization=80)]},
            "spec.metrics[0].resource.target.type: write Utilization, which goes with averageUtilization",
        ),
        (
            {"metrics": [resource(type="Percent", averageUtilization=80)]},
            "spec.metrics[0].resource.target.type: write Utilization, which goes with averageUtilization",
        ),
        (
            {"behavior": {"scaleDown": {"policies": []}}},
            (
                "spec.behavior.scaleDown.policies: leave them out for the defaults; "
                "selectPolicy: Disabled forbids this direction"
            ),
        ),
    ],
)
def test_a_refusal_comes_with_what_to_write_instead(spec: dict[str, Any], expected: str) -> None:
    """The refusal has Karmada's message, so the remedy is a warning."""
    assert validate_federatedhpa(fhpa(**spec)) != []
    assert warnings(**spec) == [expected]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Deployment", []),
        ("Rollout", []),
        ("deployment", ['spec.scaleTargetRef.kind: "deployment" is no kind; Deployment is meant']),
        ("deployments", ['spec.scaleTargetRef.kind: "deployments" is no kind; Deployment is meant']),
        ("DaemonSet", ["spec.scaleTargetRef.kind: DaemonSet has no scale, so nothing can set its replicas"]),
        ("Job", ["spec.scaleTargetRef.kind: Job has no scale, so nothing can set its replicas"]),
    ],
)
def test_a_kind_that_nobody_can_scale_is_said(kind: str, expected: list[str]) -> None:
    """Kinds of others are not known here, and get no warning."""
    target = {"apiVersion": "apps/v1", "kind": kind, "name": "web"}

    assert warnings(scaleTargetRef=target) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"partialMetrics": {"policy": "Hold", "fallbackReplicas": 3}},
            "spec.partialMetrics.fallbackReplicas: has no effect without policy: Fallback",
        ),
        (
            {"partialMetrics": {"policy": "Fallback", "fallbackReplicas": 11}},
            "spec.partialMetrics.fallbackReplicas: 11 is outside the limits 1 and 10, which still apply",
        ),
        (
            {"minReplicas": 4, "partialMetrics": {"policy": "Fallback", "fallbackReplicas": 3}},
            "spec.partialMetrics.fallbackReplicas: 3 is outside the limits 4 and 10, which still apply",
        ),
        (
            {"scalingToZero": True},
            "spec.scalingToZero: has no effect in mode Centralized; write minReplicas: 0 instead",
        ),
        (
            {**DISTRIBUTED, "scalingToZero": True, "scaleAssist": False},
            "spec.scalingToZero: has no effect, because scaleAssist is false",
        ),
        (
            {"autoscaleMultiClusterDelay": 5, "scaleAssist": False},
            "spec.autoscaleMultiClusterDelay: has no effect, because scaleAssist is false",
        ),
        (
            {
                **DISTRIBUTED,
                "scaleAssist": False,
                "federatedHPAAssignment": {"rebalance": "WhenQuiet", **AGGREGATED},
            },
            (
                "spec.federatedHPAAssignment.rebalance: has no effect, because scaleAssist: false leaves "
                "bounds as they are"
            ),
        ),
        (
            assignment("Prioritized", {"priority": 2}, {"staticWeight": 2}, {"staticWeight": 3}),
            (
                "spec.federatedHPAAssignment.clusterAutoscalingPreference[1].staticWeight: "
                "has no effect under Prioritized"
            ),
        ),
        (
            assignment("Aggregated", {"priority": 2}),
            (
                "spec.federatedHPAAssignment.clusterAutoscalingPreference[0].priority: "
                "has no effect under Aggregated"
            ),
        ),
        (
            assignment("StaticWeighted", {"autoscalingMaxThreshold": 2}),
            "spec.federatedHPAAssignment: no preference has a staticWeight, so all clusters weigh the same",
        ),
        (
            assignment("Prioritized", {"autoscalingMaxThreshold": 2}),
            "spec.federatedHPAAssignment: no preference has a priority, so all clusters rank the same",
        ),
        (
            assignment(None, {"autoscalingMinThreshold": 11}),
            (
                "spec.federatedHPAAssignment.clusterAutoscalingPreference[0].autoscalingMinThreshold: "
                "11 is above the upper limit 10"
            ),
        ),
        (
            assignment(
                None,
                {"targetCluster": {"clusterNames": ["m1", "m2"]}},
                {"targetCluster": {"clusterNames": ["m2"]}},
            ),
            (
                "spec.federatedHPAAssignment.clusterAutoscalingPreference[1].targetCluster: names m2, "
                "as item 0 does; name a cluster in one preference only"
            ),
        ),
        (
            {"clusterAffinity": {"clusterNames": ["m1", "m2"], "exclude": ["m2", "m1"]}},
            "spec.clusterAffinity: excludes every cluster that it names",
        ),
        (
            {
                "metrics": [
                    {
                        "type": "Object",
                        "object": {
                            "describedObject": {"apiVersion": "a/b/c", "kind": "Service", "name": "s"},
                            "metric": {"name": "rps"},
                            "target": {"type": "Value", "value": 1},
                        },
                    }
                ]
            },
            (
                'spec.metrics[0].object.describedObject.apiVersion: "a/b/c" names no API group and version; '
                "write one such as apps/v1"
            ),
        ),
    ],
)
def test_what_is_admitted_but_hardly_means_well_is_said(spec: dict[str, Any], expected: str) -> None:
    """Objects with such warnings are admitted."""
    assert validate_federatedhpa(fhpa(**spec)) == []
    assert warnings(**spec) == [expected]


def external(name: str) -> dict[str, Any]:
    target = {"type": "AverageValue", "averageValue": 10}
    return {"type": "External", "external": {"metric": {"name": name}, "target": target}}


QUEUE = external("queue")
INGRESS = {
    "type": "Object",
    "object": {
        "describedObject": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "web"},
        "metric": {"name": "requests"},
        "target": {"type": "Value", "value": 10},
    },
}


def aggregated(how: str) -> dict[str, Any]:
    metric = external(f"jobs-{how}")
    metric["external"]["aggregation"] = how
    return metric


def up(*policies: tuple[str, int, int]) -> dict[str, Any]:
    rules = [{"type": type_, "value": value, "periodSeconds": seconds} for type_, value, seconds in policies]
    return {"behavior": {"scaleUp": {"policies": rules}}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"metrics": [CPU, QUEUE]},
            (
                "spec.metrics[1].external: mode is Distributed: each cluster's HPA asks for the replicas of "
                "the whole value; use a metric of each cluster's own share, or mode Centralized"
            ),
        ),
        (
            {"metrics": [QUEUE, CPU, external("jobs")]},
            (
                "spec.metrics[0].external (and 1 more): mode is Distributed: each cluster's HPA asks for the "
                "replicas of the whole value; use a metric of each cluster's own share, or mode Centralized"
            ),
        ),
        (
            up(("Percent", 50, 60), ("Pods", 5, 60)),
            (
                "spec.behavior.scaleUp.policies[1]: mode is Distributed: each cluster may add 5 pods in "
                "60 s; write the number for one cluster, or type Percent"
            ),
        ),
        (
            {"behavior": {"scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 30}]}}},
            (
                "spec.behavior.scaleDown.policies[0]: mode is Distributed: each cluster may remove 1 pod in "
                "30 s; write the number for one cluster, or type Percent"
            ),
        ),
        (
            {"partialMetrics": {"policy": "Hold", "lostAfterSeconds": 60}},
            (
                "spec.partialMetrics.policy: has no effect in mode Distributed, because each cluster's HPA "
                "reads its own cluster only"
            ),
        ),
    ],
)
def test_what_each_member_does_alone_is_said_in_mode_distributed(spec: dict[str, Any], expected: str) -> None:
    """The same object in mode Centralized has no such warning, because the hub sees all clusters together."""
    distributed = {"mode": "Distributed", **assignment("Aggregated"), **spec}

    assert validate_federatedhpa(fhpa(**distributed)) == []
    assert warnings(**distributed) == [expected]
    assert [one for one in warnings(**spec) if "added up" not in one] == []


def test_a_dry_run_of_mode_distributed_says_that_member_hpas_go_on() -> None:
    """A reader of the field may expect that nothing scales any more."""
    spec = {"mode": "Distributed", **assignment("Aggregated"), "dryRun": True}

    assert warnings(**spec) == [
        (
            "spec.dryRun: mode is Distributed: the HPAs that members already have go on scaling within their "
            "bounds; nothing else is written to members"
        )
    ]
    assert warnings(dryRun=True) == []


@pytest.mark.parametrize(
    ("spec", "at"),
    [
        ({"metrics": [QUEUE]}, "spec.metrics[0].external"),
        ({"metrics": [CPU, QUEUE, external("jobs")]}, "spec.metrics[1].external (and 1 more)"),
        (
            {"metrics": [QUEUE], "clusterAffinity": {"clusterNames": ["m1", "m2"]}},
            "spec.metrics[0].external",
        ),
        ({"metrics": [QUEUE], "clusterAffinity": {"clusterNames": ["m1"]}}, ""),
        ({"metrics": [CPU, aggregated("Max"), aggregated("Sum")]}, ""),
        ({"metrics": [INGRESS]}, ""),
        ({"metrics": [CPU, PODS]}, ""),
    ],
)
def test_a_queue_that_several_clusters_see_is_added_up(spec: dict[str, Any], at: str) -> None:
    """The warning has the remedy. A chosen aggregation, one cluster, or an object's metric has none."""
    meaning = "each cluster reports the metric, and the values are added up"
    remedy = "set aggregation: Max if they all see the same queue, or Sum if each has its own"

    assert warnings(**spec) == ([f"{at}: {meaning}; {remedy}"] if at else [])


@pytest.mark.parametrize("given", [{}, {"federatedHPAAssignment": {}}])
def test_mode_distributed_without_a_policy_gives_the_whole_size_to_every_cluster(
    given: dict[str, Any],
) -> None:
    """The default policy of mode Distributed is Duplicated, so it has the same warning."""
    spec = {"mode": "Distributed", "clusterAffinity": {"clusterNames": ["m1", "m2", "m3"]}, **given}

    assert warnings(**spec) == [
        (
            "spec.federatedHPAAssignment: without a policy here or in a PropagationPolicy, Duplicated gives "
            "the whole size to every cluster: up to 3 x 10 = 30 pods may run"
        )
    ]
    assert cluster_warnings(mode="Distributed", **given) == [
        (
            "spec.federatedHPAAssignment: without a policy here or in a PropagationPolicy, Duplicated gives "
            "the whole size to every cluster: up to 2 x 10 = 20 pods may run"
        )
    ]
    assert warnings(**{**spec, "mode": "Centralized"}) == []


def test_mode_distributed_without_a_policy_is_refused_where_no_propagation_policy_can_give_one() -> None:
    """The default of the API would be Duplicated, and let each cluster run maxReplicas."""
    without = fhpa(mode="Distributed", federatedHPAAssignment={"minimumPolicy": "Exact"})
    (error,) = validate_federatedhpa(without)

    path = "spec.federatedHPAAssignment.federatedHPAAssignmentType"
    assert str(error).startswith(f"{path}: Required value: mode Distributed needs a policy")
    assert validate_federatedhpa(without, karmada=True) == []
    assert validate_federatedhpa(fhpa(**DISTRIBUTED)) == []


@pytest.mark.parametrize("minimum", ["minReplicas", "federatedMinReplicas"])
@pytest.mark.parametrize("more", [{}, {"scalingToZero": False}])
def test_a_minimum_of_0_needs_scaling_to_zero_in_mode_distributed(minimum: str, more: dict[str, Any]) -> None:
    """The HPA of a member has a minimum of at least 1, and only the hub scales a cluster to 0."""
    spec = {"metrics": [QUEUE], minimum: 0}
    warning = (
        f"spec.{minimum}: 0 has no effect in mode Distributed without scalingToZero, because the HPA of each "
        "cluster keeps at least 1; write scalingToZero: true, or 1"
    )

    assert validate_federatedhpa(fhpa(**DISTRIBUTED, **spec, **more)) == []
    assert warning in warnings(mode="Distributed", **spec, **more)
    assert not any("has no effect" in one for one in warnings(mode="Distributed", scalingToZero=True, **spec))
    assert [one for one in warnings(**spec) if "added up" not in one] == []


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"metrics": [CPU, PODS]},
        {**DISTRIBUTED, "metrics": [CPU, PODS], "partialMetrics": {"lostAfterSeconds": 60}},
        {**DISTRIBUTED, **up(("Percent", 100, 15))},
        {**DISTRIBUTED, **up(("Pods", 4, 15), ("Percent", 100, 15))},
        {"partialMetrics": {"policy": "Fallback", "fallbackReplicas": 10}},
        {**DISTRIBUTED, "scalingToZero": True, "autoscaleMultiClusterDelay": 5},
        assignment("StaticWeighted", {"staticWeight": 2}),
        assignment("Prioritized", {"priority": 2}, {"autoscalingMaxThreshold": 3}),
        assignment("Aggregated"),
        {"maxReplicas": None, "federatedMaxReplicas": 4},
    ],
)
def test_nothing_is_said_about_a_tidy_object(spec: dict[str, Any]) -> None:
    """Ordinary objects get no warnings, because users ignore warnings that always appear."""
    assert warnings(**spec) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"clusterAffinity": {"clusterNames": ["member1", "membr2"]}},
            'spec.clusterAffinity.clusterNames[1]: "membr2" is not a known cluster; known: member1, member2',
        ),
        (
            {"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "wood"}}}},
            "spec.clusterAffinity: selects no known cluster; known: member1, member2",
        ),
        (
            {"clusterAffinity": {"exclude": ["member1", "member2"]}},
            "spec.clusterAffinity: selects no known cluster; known: member1, member2",
        ),
        (
            assignment(None, {"targetCluster": {"clusterNames": ["m9"]}}),
            (
                "spec.federatedHPAAssignment.clusterAutoscalingPreference[0].targetCluster.clusterNames[0]: "
                '"m9" is not a known cluster; known: member1, member2'
            ),
        ),
        (
            assignment(None, {"targetCluster": {"labelSelector": {"matchLabels": {"tier": "wood"}}}}),
            (
                "spec.federatedHPAAssignment.clusterAutoscalingPreference[0].targetCluster: "
                "selects no known cluster; known: member1, member2"
            ),
        ),
        (
            {"clusterHPAPreference": {"clusterName": "m9", "maxResourceUsage": 1}},
            'spec.clusterHPAPreference[0].clusterName: "m9" is not a known cluster; known: member1, member2',
        ),
    ],
)
def test_a_selection_of_no_known_cluster_is_told(spec: dict[str, Any], expected: str) -> None:
    """A cluster may be registered later, so an unknown cluster is no error."""
    assert cluster_warnings(**spec) == [expected]
    assert validate_federatedhpa(fhpa(**spec)) == []


@pytest.mark.parametrize(
    "affinity",
    [
        {"clusterNames": ["member1"]},
        {"labelSelector": {"matchLabels": {"tier": "gold"}}},
        {"labelSelector": {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["iron"]}]}},
        {"fieldSelector": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["n2"]}]}},
        {"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "NotIn", "values": ["s"]}]}},
        {"exclude": ["member2"]},
    ],
)
def test_a_selection_of_some_cluster_is_not(affinity: dict[str, Any]) -> None:
    """Clusters selected by name, label, field or exclusion give no warning."""
    assert cluster_warnings(clusterAffinity=affinity) == []


def test_a_preference_within_an_affinity_need_only_know_its_clusters() -> None:
    """Without any registered cluster, there are no warnings about single names."""
    spec = {"clusterAffinity": {"clusterNames": ["m1", "m2"]}}

    assert list(warn_unknown_clusters(fhpa(**spec).spec, [])) == [
        "spec.clusterAffinity: selects no known cluster; no cluster is known yet"
    ]


def test_a_stored_cluster_is_known_by_its_labels_and_fields() -> None:
    """The list `zones` counts; without it, the older field `zone`."""
    raw = {
        "metadata": {"name": "m1", "labels": {"a": "b"}},
        "spec": {"provider": "p", "region": "r", "zone": "z", "zones": ["z1", "z2"], "syncMode": "Push"},
    }
    older = {"metadata": {"name": "m2"}, "spec": {"zone": "z"}}

    assert known_cluster(msgspec.convert(raw, RawCluster)) == KnownCluster(
        "m1", labels={"a": "b"}, provider="p", region="r", zones=("z1", "z2")
    )
    assert known_cluster(msgspec.convert(older, RawCluster)) == KnownCluster("m2", zones=("z",))


def test_many_known_clusters_are_not_all_listed() -> None:
    """The warning lists only some clusters, so that clients show all of it."""
    known = [KnownCluster(f"a-rather-long-name-of-a-cluster-{number}") for number in range(1000)]
    spec = {"clusterAffinity": {"clusterNames": ["m1"]}}

    (text,) = list(warn_unknown_clusters(fhpa(**spec).spec, known))

    assert text.endswith(" and 997 more")
    assert len(text) <= 255


def test_an_object_full_of_mistakes_gets_its_remedies_first() -> None:
    """Remedies come before the other warnings."""
    spec: dict[str, Any] = {
        "maxReplicas": None,
        "scaleTargetRef": {"kind": "Deployment", "name": "web"},
        "scalingToZero": True,
    }

    assert [text.split(":")[0] for text in warnings(**spec)] == [
        "spec.maxReplicas",
        "spec.scaleTargetRef.apiVersion",
        "spec.scalingToZero",
    ]


def test_a_hostile_affinity_costs_no_more_than_a_warning_is_worth() -> None:
    """Above a number of comparisons there is no warning."""
    known = [KnownCluster(f"c{number}", labels={"a": "b"}) for number in range(1000)]
    expressions = [{"key": f"k{n}", "operator": "Exists"} for n in range(60)]
    preferences = [{"targetCluster": {"labelSelector": {"matchExpressions": expressions}}}] * 1000

    found = list(warn_unknown_clusters(fhpa(**assignment(None, *preferences)).spec, known))

    assert 0 < len(found) < 20


COPIES = "spec.federatedHPAAssignment: Duplicated gives the whole size to every cluster: "


@pytest.mark.parametrize(
    ("spec", "own", "known"),
    [
        ({}, "up to 10 pods in each", "up to 2 x 10 = 20 pods may run"),
        (
            {"maxReplicas": None, "federatedMaxReplicas": 7},
            "up to 7 pods in each",
            "up to 2 x 7 = 14 pods may run",
        ),
        ({"clusterAffinity": {"clusterNames": ["a", "b", "c"]}}, "up to 3 x 10 = 30 pods may run", None),
        (
            {"clusterAffinity": {"clusterNames": ["a", "b", "c"], "exclude": ["b"]}},
            "up to 2 x 10 = 20 pods may run",
            None,
        ),
        ({"clusterAffinity": {"exclude": ["member1"]}}, "up to 10 pods in each", None),
        (
            {
                "clusterAffinity": {
                    "labelSelector": {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}
                }
            },
            "up to 10 pods in each",
            "up to 2 x 10 = 20 pods may run",
        ),
        ({"maxReplicas": None}, None, None),
    ],
)
def test_duplicated_may_run_more_than_max_replicas(
    spec: dict[str, Any], own: str | None, known: str | None
) -> None:
    """The bounds hold in each cluster. The warning has the number, from names or from the hub's clusters."""
    duplicated = {**assignment("Duplicated"), **spec}

    assert [text for text in warnings(**duplicated) if COPIES in text] == ([COPIES + own] if own else [])
    assert [text for text in cluster_warnings(**duplicated) if COPIES in text] == (
        [COPIES + known] if known else []
    )


def test_policies_that_divide_have_one_size() -> None:
    """Nothing is multiplied."""
    assert not any("whole size" in text for text in warnings(**assignment("StaticWeighted")))


REBALANCE = "annotation autoscaling.karmada.io/rebalance: "


@pytest.mark.parametrize(
    ("value", "spec", "expected"),
    [
        ("2026-03-11T13:23:17Z", {}, None),
        ("", {}, None),
        (
            "tomorrow",
            {},
            "'tomorrow' is no RFC 3339 time; write the present time, such as 2026-03-11T13:23:17Z",
        ),
        (
            "2026-03-11",
            {},
            "'2026-03-11' is no RFC 3339 time; write the present time, such as 2026-03-11T13:23:17Z",
        ),
        (
            "2026-03-11T13:23:17Z",
            assignment("Duplicated"),
            "has no effect, because Duplicated divides nothing; remove it",
        ),
        (
            "2026-03-11T13:23:17Z",
            {"mode": "Distributed"},
            "has no effect, because mode is Distributed; remove it",
        ),
    ],
)
def test_the_annotation_of_a_rebalance(value: str, spec: dict[str, Any], expected: str | None) -> None:
    """A timestamp that cannot be read, or that can change nothing, has a warning with the remedy."""
    found = fhpa(**spec)
    metadata = found.metadata.model_copy(update={"annotations": {REBALANCE.split()[1][:-1]: value}})
    texts = warn_federatedhpa(found.model_copy(update={"metadata": metadata}))

    assert [text for text in texts if REBALANCE in text] == ([REBALANCE + expected] if expected else [])
