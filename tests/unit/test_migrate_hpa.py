"""`fedhpa migrate hpa`: the printed FederatedHPA does what the HorizontalPodAutoscaler did, in a dry run."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from fedhpa.api.yaml import print_yaml
from fedhpa.cli.migrate import federated_hpa, next_steps
from fedhpa.cli.preview import admitted
from tests.conformance.tables import table

TABLE = table("k8s_hpa_validation")
VALID = {
    case["id"]: case["hpa"]
    for case in (*TABLE["validation_cases"], *TABLE["strategy_cases"])
    if "hpa" in case and not case["observed_errors"]
}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}},
}
SIDECAR = {
    "type": "ContainerResource",
    "containerResource": {
        "name": "memory",
        "container": "app",
        "target": {"type": "AverageValue", "averageValue": "500Mi"},
    },
}
HITS = {
    "type": "Pods",
    "pods": {"metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "1500m"}},
}
INGRESS = {
    "type": "Object",
    "object": {
        "describedObject": {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "main"},
        "metric": {"name": "requests"},
        "target": {"type": "Value", "value": "2k"},
    },
}
QUEUE = {
    "type": "External",
    "external": {
        "metric": {"name": "queue", "selector": {"matchLabels": {"queue": "mail"}}},
        "target": {"type": "AverageValue", "averageValue": "30"},
    },
}
BEHAVIOR = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}],
        "tolerance": "50m",
    },
    "scaleDown": {"stabilizationWindowSeconds": 120, "selectPolicy": "Disabled"},
}
SPECS: dict[str, dict[str, Any]] = {
    "no metrics": {"maxReplicas": 5},
    "cpu": {"minReplicas": 2, "maxReplicas": 10, "metrics": [CPU]},
    "a container's memory": {"minReplicas": 1, "maxReplicas": 10, "metrics": [CPU, SIDECAR]},
    "pods": {"minReplicas": 1, "maxReplicas": 10, "metrics": [HITS]},
    "an object": {"minReplicas": 1, "maxReplicas": 10, "metrics": [INGRESS]},
    "from zero": {"minReplicas": 0, "maxReplicas": 10, "metrics": [QUEUE]},
    "behavior": {"minReplicas": 1, "maxReplicas": 10, "metrics": [CPU], "behavior": BEHAVIOR},
    "everything": {
        "minReplicas": 1,
        "maxReplicas": 10,
        "metrics": [CPU, SIDECAR, HITS, INGRESS, QUEUE],
        "behavior": BEHAVIOR,
    },
}


def autoscaler(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """An HPA as an API server returns it."""
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop", "uid": "1", "resourceVersion": "7", **metadata},
        "spec": {"scaleTargetRef": TARGET, **spec},
        "status": {"currentReplicas": 3, "desiredReplicas": 3, "conditions": []},
    }


@pytest.mark.parametrize("name", SPECS)
def test_the_spec_is_carried_over_and_admitted(name: str) -> None:
    """The printed object has the whole spec and dryRun, survives YAML, and admission refuses nothing."""
    stored = autoscaler(SPECS[name])
    federated = federated_hpa(stored).federated

    assert yaml.safe_load(print_yaml([federated], sort_keys=False)) == federated
    assert federated["spec"] == {"dryRun": True, **stored["spec"]}
    assert federated["metadata"] == {"name": "web", "namespace": "shop"}
    assert admitted("FederatedHPA", federated)[0] == ""


@pytest.mark.parametrize("case", VALID)
def test_what_kubernetes_admits_migrates(case: str) -> None:
    """Each HPA that Kubernetes' own tests call valid becomes a FederatedHPA with the same spec."""
    stored = VALID[case]
    federated = federated_hpa(stored).federated

    assert {key: value for key, value in federated["spec"].items() if key != "dryRun"} == stored["spec"]
    assert admitted("FederatedHPA", federated)[0] == ""


def test_the_bounds_mean_something_else() -> None:
    """An HPA counts the pods of one cluster, a FederatedHPA those of all clusters."""
    differences = federated_hpa(autoscaler(SPECS["cpu"])).differences

    assert differences == (
        "minReplicas 2 and maxReplicas 10 were for one cluster, and now are for all clusters together",
    )


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        (
            {"annotations": {"team": "a", "kubectl.kubernetes.io/last-applied-configuration": "{}"}},
            "annotation team is not carried over",
        ),
        (
            {"labels": {"app": "web", "app.kubernetes.io/managed-by": "Helm"}},
            (
                "label app.kubernetes.io/managed-by is not carried over: "
                "it belongs to the tool that wrote the HPA"
            ),
        ),
        (
            {"ownerReferences": [{"kind": "ScaledObject", "name": "web"}]},
            "ScaledObject web owns the HPA and would create it again: delete the owner instead",
        ),
        (
            {"annotations": {"propagationpolicy.karmada.io/name": "all"}},
            "the policy all spreads the HPA: take it out of the policy before you delete it",
        ),
    ],
)
def test_a_difference_is_named(changes: dict[str, Any], difference: str) -> None:
    """Labels of other tools, annotations, owners and policies are named; kubectl's own annotation is not."""
    found = federated_hpa(autoscaler(SPECS["cpu"], **changes))

    assert difference in found.differences
    assert not any("last-applied" in each for each in found.differences)
    assert found.federated["metadata"].get("labels") == ({"app": "web"} if "labels" in changes else None)


def test_sums_over_clusters_are_named() -> None:
    """Metrics of an object and of the outside are added up over the clusters."""
    differences = federated_hpa(autoscaler(SPECS["everything"])).differences

    assert [each.split(" ")[0] for each in differences[1:]] == [
        "spec.metrics[3].object",
        "spec.metrics[4].external",
    ]


def test_a_field_of_a_later_kubernetes_is_left_out_and_named() -> None:
    """The rest of the metric and of the spec stays."""
    metric = {"type": "Resource", "resource": {**CPU["resource"], "smoothing": "1m"}}  # type: ignore[dict-item]
    found = federated_hpa(autoscaler({"maxReplicas": 3, "metrics": [metric], "pace": 3}))

    assert [each.split(" is ")[0] for each in found.differences[:2]] == [
        "field spec.metrics[0].resource.smoothing",
        "field spec.pace",
    ]
    assert found.federated["spec"]["metrics"] == [CPU]
    assert admitted("FederatedHPA", found.federated)[0] == ""


def test_the_next_commands_compare_and_hand_over() -> None:
    """The HPA is deleted where it was read, and the dry run ends last."""
    steps = next_steps(federated_hpa(autoscaler(SPECS["cpu"])).federated, "m1.config")

    assert [line.strip() for line in steps.splitlines() if line.startswith("  ")] == [
        "fedhpa explain fhpa/web -n shop; kubectl --kubeconfig m1.config -n shop get hpa web",
        "kubectl --kubeconfig m1.config -n shop delete hpa web",
        """kubectl -n shop patch fhpa web --type=merge -p '{"spec":{"dryRun":false}}'""",
    ]
