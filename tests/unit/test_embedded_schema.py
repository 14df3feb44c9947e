"""Objects against their schemas, with the messages of a real API server."""

from typing import Any

import pytest

from testbed.embedded.api import bodies
from testbed.embedded.api.types import Object, Refusal
from testbed.embedded.objects import validation as schema
from testbed.embedded.objects.definitions import custom_schema, schema_of
from testbed.embedded.objects.kinds import BUILTIN, Kind

DEPLOYMENT = next(kind for kind in BUILTIN if kind.kind == "Deployment")
SPEC: Object = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^[a-z]*$"},
        "count": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 9, "default": 3},
        "ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        "policy": {"type": "string", "enum": ["Hold", "Proceed"]},
        "port": {"x-kubernetes-int-or-string": True},
        "maybe": {"type": "string", "nullable": True},
        "at": {"type": "string", "format": "date-time"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 1},
        "rules": {
            "type": "array",
            "maxItems": 2,
            "minItems": 1,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id"],
            "items": {"type": "object", "properties": {"id": {"type": "string"}, "on": {"type": "boolean"}}},
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
THING = Kind(
    "example.com",
    "v1",
    "things",
    "Thing",
    custom=True,
    schema=custom_schema({"type": "object", "properties": {"spec": SPEC}}),
)


def thing(**spec: Any) -> Object:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "a", "namespace": "ns"},
        "spec": {"name": "a", **spec},
    }


def wrong_type(path: str, found: str, wanted: str) -> str:
    return f'{path}: Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"'


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"count": "x"}, wrong_type("spec.count", "string", "integer")),
        ({"count": 1.5}, wrong_type("spec.count", "number", "integer")),
        ({"count": True}, wrong_type("spec.count", "boolean", "integer")),
        ({"name": None}, wrong_type("spec.name", "null", "string")),
        ({"port": []}, wrong_type("spec.port", "array", "integer,string")),
        ({"rules": [{"id": "1", "on": "yes"}]}, wrong_type("spec.rules[0].on", "string", "boolean")),
        ({"labels": {"a": 1}}, wrong_type("spec.labels.a", "integer", "string")),
        ({"at": "x"}, wrong_type("spec.at", "x", "date-time")),
        (
            {"count": 0},
            "spec.count: Invalid value: 0: spec.count in body should be greater than or equal to 1",
        ),
        (
            {"count": 10},
            "spec.count: Invalid value: 10: spec.count in body should be less than or equal to 9",
        ),
        ({"ratio": 0}, "spec.ratio: Invalid value: 0: spec.ratio in body should be greater than 0"),
        ({"policy": "No"}, 'spec.policy: Unsupported value: "No": supported values: "Hold", "Proceed"'),
        ({"name": ""}, 'spec.name: Invalid value: "": spec.name in body should be at least 1 chars long'),
        ({"name": "abcdef"}, "spec.name: Too long: may not be more than 5 bytes"),
        ({"name": "A"}, "spec.name: Invalid value: \"A\": spec.name in body should match '^[a-z]*$'"),
        ({"rules": []}, "spec.rules: Invalid value: 0: spec.rules in body should have at least 1 items"),
        ({"rules": [{"id": "1"}, {"id": "2"}, {}]}, "spec.rules: Too many: 3: must have at most 2 items"),
        ({"rules": [{"id": "1"}, {"id": "1"}]}, 'spec.rules[1]: Duplicate value: {"id":"1"}'),
        ({"labels": {"a": "1", "b": "2"}}, "spec.labels: Too many: 2: must have at most 1 items"),
    ],
)
def test_wrong_values_are_named(spec: Object, message: str) -> None:
    """One field wrong is one problem, in the words of a real API server."""
    found = [str(problem) for problem in schema.problems(thing(**spec), THING.schema or {})]

    assert found == [message]


@pytest.mark.parametrize(
    "spec", [{"port": 80}, {"port": "http"}, {"maybe": None}, {"count": 2.0}, {"free": {"a": [1]}}]
)
def test_right_values_pass(spec: Object) -> None:
    """Also where a schema allows more than one type."""
    assert list(schema.problems(thing(**spec), THING.schema or {})) == []


def test_what_is_missing_is_required() -> None:
    """With the field's path and nothing else."""
    found = [str(problem) for problem in schema.problems({"spec": {}}, THING.schema or {})]

    assert found == ["spec.name: Required value"]


def test_unknown_fields_are_pruned_and_named() -> None:
    """Those of free-form objects are nobody's business."""
    unknown: list[str] = []
    given = thing(odd=1, rules=[{"id": "1", "extra": 2}], free={"any": 3})
    kept = schema.prune(given, THING.schema or {}, unknown, builtin=False)

    assert unknown == ["spec.odd", "spec.rules[0].extra"]
    assert kept == thing(rules=[{"id": "1"}], free={"any": 3})


def test_defaults_are_filled_in() -> None:
    """Also where null stands and null is not allowed; there it is the same as nothing."""
    absent, null, given = thing(), thing(count=None, name=None, maybe=None), thing(count=7)
    for each in (absent, null, given):
        schema.default(each, THING.schema or {})

    assert [each["spec"]["count"] for each in (absent, null, given)] == [3, 3, 7]
    assert null["spec"] == {"count": 3, "maybe": None}


def test_built_in_objects_fit_their_go_types() -> None:
    """A wrong type is said in the words of Go's JSON library."""
    wrong = {"metadata": {"name": "a"}, "spec": {"replicas": "two"}}
    containers = [{"name": 5}]
    deeper = {"spec": {"template": {"spec": {"containers": containers}}}}

    assert schema.go_problem(wrong, schema_of(DEPLOYMENT), "Deployment") == (
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32"
    )
    assert schema.go_problem(deeper, schema_of(DEPLOYMENT), "Deployment") == (
        "json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers.name"
        " of type string"
    )


@pytest.mark.parametrize(
    ("directive", "warned"),
    [("Warn", ['unknown field "spec.odd"']), ("Ignore", [])],
)
def test_unknown_fields_are_warned_about(directive: str, warned: list[str]) -> None:
    """Unless the client wants to hear nothing."""
    warnings: list[str] = []
    kept = bodies.known(thing(odd=1), THING, directive, warnings.append)

    assert warnings == warned
    assert "odd" not in kept["spec"]


def test_strict_clients_are_refused() -> None:
    """All unknown fields in one message."""
    with pytest.raises(Refusal) as caught:
        bodies.known(thing(odd=1, even=2), THING, "Strict", print)

    assert caught.value.code == 400
    assert str(caught.value) == (
        'Thing in version "v1" cannot be handled as a Thing: strict decoding error: '
        'unknown field "spec.even", unknown field "spec.odd"'
    )


def test_several_problems_are_one_refusal() -> None:
    """With a cause for each."""
    with pytest.raises(Refusal) as caught:
        bodies.checked(thing(count=0, policy="No"), THING)
    causes = (caught.value.details or {})["causes"]

    assert caught.value.code == 422
    assert str(caught.value).startswith('Thing.example.com "a" is invalid: [spec.count: ')
    assert [cause["reason"] for cause in causes] == ["FieldValueInvalid", "FieldValueNotSupported"]


def test_every_built_in_kind_has_a_schema() -> None:
    """A kind without one could not be explained or checked."""
    assert [kind.kind for kind in BUILTIN if "properties" not in schema_of(kind)] == []
