"""The manifests in examples/ are admitted without a warning, and the schemas judge as the CRDs do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from testbed.reference.definitions import CRON_FEDERATED_HPA, FEDERATED_HPA, GENERATED
from testbed.reference.schemas import schema_path, schema_text
from tests.property.admission_bodies import CRON, FHPA
from webhook.handlers import VALIDATE_CRONFEDERATEDHPA, VALIDATE_FEDERATEDHPA, judge

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
VALIDATE = {"FederatedHPA": VALIDATE_FEDERATEDHPA, "CronFederatedHPA": VALIDATE_CRONFEDERATEDHPA}
SCHEMAS = {
    kind.model.__name__: jsonschema.Draft7Validator(json.loads(schema_path(kind).read_text()))
    for kind in GENERATED
}


def paths_of_errors(found: Any) -> list[str]:
    """Returns where the published schema refuses an object."""
    return sorted(error.json_path for error in SCHEMAS[found["kind"]].iter_errors(found))


def changed(found: Any, *path: str | int, value: Any) -> Any:
    """Returns a copy with another value at a path."""
    copy: Any = json.loads(json.dumps(found))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return copy


def test_there_are_ten_examples() -> None:
    assert len(EXAMPLES) >= 10


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_admitted_without_a_warning(path: Path) -> None:
    """It begins with a comment that says what it does, and an editor finds nothing wrong."""
    text = path.read_text(encoding="utf-8")
    found = yaml.safe_load(text)
    review: dict[str, Any] = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    review["request"] = {"uid": "u", "operation": "CREATE", "object": found}

    answer = judge(VALIDATE[found["kind"]], json.dumps(review).encode(), "application/json")
    response = json.loads(answer.encoded())["response"]

    assert text.startswith("# ")
    assert response["allowed"], response
    assert response.get("warnings", []) == []
    assert paths_of_errors(found) == []


@pytest.mark.parametrize("kind", GENERATED, ids=lambda kind: kind.model.__name__)
def test_the_schema_is_that_of_the_code(kind: Any) -> None:
    """`make docs` writes it."""
    assert schema_path(kind).read_text(encoding="utf-8") == schema_text(kind)
    jsonschema.Draft7Validator.check_schema(json.loads(schema_text(kind)))


@pytest.mark.parametrize(
    ("found", "errors"),
    [
        (changed(FHPA, "spec", "maxReplica", value=3), ["$.spec"]),
        (changed(FHPA, "spec", "mode", value="Central"), ["$.spec.mode"]),
        (
            changed(FHPA, "spec", "metrics", 0, "pods", "target", "typ", value="Value"),
            ["$.spec.metrics[0].pods.target"],
        ),
        (changed(FHPA, "spec", "maxReplicas", value="ten"), ["$.spec.maxReplicas"]),
        (changed(FHPA, "apiVersion", value="autoscaling/v2"), ["$.apiVersion"]),
        (changed(CRON, "spec", "rules", 0, "ruleName", value="r"), ["$.spec.rules[0]"]),
    ],
)
def test_a_typing_error_is_found(found: Any, errors: list[str]) -> None:
    """The error names the place: the object that has the unknown field, or the field with the wrong value."""
    assert paths_of_errors(found) == errors


@pytest.mark.parametrize("found", [FHPA, CRON], ids=[FEDERATED_HPA.plural, CRON_FEDERATED_HPA.plural])
def test_a_valid_object_passes(found: Any) -> None:
    """Labels, annotations and the status are allowed."""
    assert paths_of_errors(found) == []
