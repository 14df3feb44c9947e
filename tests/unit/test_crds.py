"""The CRDs: their schemas, and that the chart's copies match the models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedhpa.admission import crd
from fedhpa.admission.crd import CLUSTER, CRON_FEDERATED_HPA, FEDERATED_HPA, PLACEMENT, RECORDS
from fedhpa.api.model import MAX_CLUSTERS, MAX_NAME
from fedhpa.api.taints import MAX_TAINTS
from fedhpa.api.yaml import print_yaml
from testbed.reference.definitions import GENERATED, generated

CHART = Path(__file__).parents[2] / "charts" / "fedhpa"
ALL = (FEDERATED_HPA, CRON_FEDERATED_HPA, CLUSTER)


def schema_of(definition: str) -> dict[str, Any]:
    version = crd.custom_resource_definition(definition)["spec"]["versions"][0]
    return dict(version["schema"]["openAPIV3Schema"])


def at(definition: str, path: str) -> dict[str, Any]:
    schema: dict[str, Any] = schema_of(definition)
    for part in path.split("."):
        schema = schema["items"] if part == "[]" else schema["properties"][part]
    return schema


def walk(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from walk(schema[key], f"{path}[{key}]")


def test_the_charts_copies_match_the_models() -> None:
    """`make crds` writes them; the YAML has no anchors."""
    text = (CHART / "files" / "crds" / "autoscaling.karmada.io.yaml").read_text()

    assert print_yaml(map(generated, GENERATED)) == text
    assert "&id" not in text


@pytest.mark.parametrize("name", [*ALL, *RECORDS])
def test_a_definition_is_that_of_its_name(name: str) -> None:
    """A caller may change what it gets."""
    found = crd.custom_resource_definition(name)
    found["metadata"]["name"] += "changed"

    assert crd.custom_resource_definition(name)["metadata"]["name"] == name


@pytest.mark.parametrize("definition", ALL)
def test_every_list_and_map_is_bounded(definition: str) -> None:
    """Each list of the schema has maxItems, each map maxProperties."""
    for path, schema in walk(schema_of(definition)):
        if schema.get("type") == "array":
            assert "maxItems" in schema, path
        if schema.get("type") == "object" and "additionalProperties" in schema:
            assert "maxProperties" in schema, path


@pytest.mark.parametrize("definition", ALL)
def test_every_int32_has_its_bounds(definition: str) -> None:
    """Kubernetes 1.34 does not check `format: int32`."""
    numbers = [each for _, each in walk(schema_of(definition)) if each.get("format") == "int32"]

    assert all(-(2**31) <= each["minimum"] <= each["maximum"] <= 2**31 - 1 for each in numbers)


@pytest.mark.parametrize("definition", ALL)
def test_the_schema_is_structural(definition: str) -> None:
    """Every node has a type, is int-or-string, or preserves unknown fields."""
    for path, schema in walk(schema_of(definition)):
        typed = "type" in schema or schema.get("x-kubernetes-int-or-string")
        assert typed or schema.get("x-kubernetes-preserve-unknown-fields"), path


def test_static_defaults_are_in_the_schema_but_for_min_replicas() -> None:
    """The cpu metric and both directions are defaulted; minReplicas and the scale-down window are not."""
    spec = at(FEDERATED_HPA, "spec")["properties"]
    behavior = spec["behavior"]["properties"]

    assert spec["metrics"]["default"] == [
        {
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
        }
    ]
    assert "default" not in spec["minReplicas"]
    assert "default" not in spec["behavior"]
    assert {} == behavior["scaleUp"]["default"] == behavior["scaleDown"]["default"]
    assert behavior["scaleUp"]["properties"]["stabilizationWindowSeconds"]["default"] == 0
    assert "default" not in behavior["scaleDown"]["properties"]["stabilizationWindowSeconds"]
    assert behavior["scaleDown"]["properties"]["policies"]["default"] == [
        {"type": "Percent", "value": 100, "periodSeconds": 15}
    ]


def test_no_field_of_ours_has_a_default() -> None:
    """An update of a stored Karmada object adds none of the fields that Karmada does not have."""
    defaulted = {path for path, schema in walk(at(FEDERATED_HPA, "spec")) if "default" in schema}

    assert {path.split(".")[1] for path in defaulted} == {"metrics", "behavior"}
    assert {path for path, schema in walk(at(CRON_FEDERATED_HPA, "spec")) if "default" in schema} == {
        ".rules[items].suspend",
        ".rules[items].successfulHistoryLimit",
        ".rules[items].failedHistoryLimit",
    }


def test_required_fields_are_karmadas_but_for_max_replicas() -> None:
    """maxReplicas may have its alias instead, so only the webhook requires one of the two."""
    assert schema_of(FEDERATED_HPA)["required"] == ["spec"]
    assert at(FEDERATED_HPA, "spec")["required"] == ["scaleTargetRef"]
    assert at(FEDERATED_HPA, "spec.scaleTargetRef")["required"] == ["kind", "name"]
    assert at(CRON_FEDERATED_HPA, "spec")["required"] == ["rules", "scaleTargetRef"]
    assert at(CRON_FEDERATED_HPA, "spec.rules.[]")["required"] == ["name", "schedule"]


def test_names_and_subresources_are_karmadas() -> None:
    """Names and short names are those that Karmada's users know."""
    spec = crd.custom_resource_definition(FEDERATED_HPA)["spec"]
    version = spec["versions"][0]

    assert spec["names"] == {
        "kind": "FederatedHPA",
        "listKind": "FederatedHPAList",
        "plural": "federatedhpas",
        "singular": "federatedhpa",
        "shortNames": ["fhpa"],
        "categories": ["karmada-io"],
    }
    assert version["subresources"] == {"status": {}}


def test_columns_tell_the_state_and_wide_ones_the_reason() -> None:
    """The usual columns fit into a terminal; Karmada's reference and the long reason need `-o wide`."""
    version = crd.custom_resource_definition(FEDERATED_HPA)["spec"]["versions"][0]
    columns = {one["name"]: one.get("priority", 0) for one in version["additionalPrinterColumns"]}

    assert [name for name, priority in columns.items() if not priority] == [
        "TARGETS",
        "MIN",
        "MAX",
        "REPLICAS",
        "CLUSTERS",
        "READY",
        "AGE",
    ]
    assert [name for name, priority in columns.items() if priority] == [
        "REFERENCE-KIND",
        "REFERENCE-NAME",
        "PROPAGATION",
        "REASON",
    ]


def test_list_sizes_are_those_of_the_contract() -> None:
    """64 metrics, 1,000 rules, 1,000 clusters."""
    assert at(FEDERATED_HPA, "spec.metrics")["maxItems"] == 64
    assert at(CRON_FEDERATED_HPA, "spec.rules")["maxItems"] == 1000
    assert at(FEDERATED_HPA, "status.clusters")["maxItems"] == 1000
    assert at(FEDERATED_HPA, "spec.clusterAffinity.clusterNames")["maxItems"] == 1000
    assert at(CLUSTER, "spec.taints")["maxItems"] == MAX_TAINTS
    assert at(PLACEMENT, "status.decisions")["maxItems"] == MAX_CLUSTERS
    assert at(PLACEMENT, "status.decisions.[].clusterName")["maxLength"] == MAX_NAME


@pytest.mark.parametrize("definition", ALL)
def test_kubectl_explains_every_field(definition: str) -> None:
    """Each field has a description that ends a sentence; `kubectl explain` shows nothing else."""
    for path, schema in walk(schema_of(definition)):
        if path and path != ".metadata" and not path.endswith("]"):
            assert schema.get("description", "").endswith("."), path


@pytest.mark.parametrize("definition", ALL)
def test_each_field_of_a_spec_shows_an_example(definition: str) -> None:
    """People write the spec by hand, so each scalar and each list of it has an example."""
    for path, schema in walk(at(definition, "spec")):
        if not path or path.endswith("]") or schema.get("type") == "object":
            continue
        assert "Example: " in schema["description"], path
