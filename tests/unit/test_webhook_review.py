"""The admission protocol: every request gets an AdmissionReview."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from webhook.admission_review import MAX_BODY
from webhook.handlers import (
    MUTATE_FEDERATEDHPA,
    PATHS,
    VALIDATE_CRONFEDERATEDHPA,
    VALIDATE_FEDERATEDHPA,
    judge,
)

JSON = "application/json"


def fhpa(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "FederatedHPA",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 10,
            **spec,
        },
    }


def ask(path: str, body: Any, content_type: str = JSON) -> dict[str, Any]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer: dict[str, Any] = json.loads(judge(path, raw, content_type).encoded())
    assert answer["kind"] == "AdmissionReview"
    assert set(answer) == {"kind", "apiVersion", "response"}
    assert isinstance(answer["response"]["allowed"], bool)
    return answer


def asked(path: str, obj: Any, **request: Any) -> dict[str, Any]:
    response: dict[str, Any] = ask(path, {"request": {"uid": "7", "object": obj, **request}})["response"]
    return response


def message(response: dict[str, Any]) -> str:
    assert response["allowed"] is False
    return str(response["status"]["message"])


@pytest.mark.parametrize("version", ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"])
def test_the_answer_echoes_version_and_uid(version: str) -> None:
    """Both versions of AdmissionReview are supported. An admitted object gets code 200 and no message."""
    body = {"apiVersion": version, "kind": "AdmissionReview", "request": {"uid": "42", "object": fhpa()}}

    answer = ask(VALIDATE_FEDERATEDHPA, body)

    assert answer["apiVersion"] == version
    assert answer["response"] == {
        "uid": "42",
        "allowed": True,
        "status": {"metadata": {}, "code": 200},
    }


def test_a_denial_is_code_403_reason_forbidden_and_the_aggregate() -> None:
    """Several errors are in brackets, in the order of the checks."""
    response = asked(VALIDATE_FEDERATEDHPA, fhpa(minReplicas=0, maxReplicas=0))

    assert response["status"]["code"] == 403
    assert response["status"]["reason"] == "Forbidden"
    assert message(response) == (
        "[spec.minReplicas: Invalid value: 0: must be greater than or equal to 1, "
        "spec.maxReplicas: Invalid value: 0: must be greater than 0]"
    )


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("body", "content_type", "code", "expected"),
    [
        (b"", JSON, 400, "there is no content to decode"),
        (b"{}", JSON, 400, "there is no content to decode"),
        (b'{"request":null}', JSON, 400, "there is no content to decode"),
        (b'{"request":{"uid":"1"}}', JSON, 400, "there is no content to decode"),
        (b"{}", "text/plain", 400, "contentType=text/plain, expected application/json"),
        (b"{}", "", 400, "contentType=, expected application/json"),
        (
            b"{}",
            "application/json; charset=utf-8",
            400,
            "contentType=application/json; charset=utf-8, expected application/json",
        ),
        (b"[]", JSON, 400, "json: cannot unmarshal array into Go value of type v1.AdmissionReview"),
        (b"null", JSON, 400, "json: cannot unmarshal null into Go value of type v1.AdmissionReview"),
        (b'{"a":1', JSON, 400, "invalid JSON at line 1, column 7: Expecting ',' delimiter"),
        (b'{"a":"\xff"}', JSON, 400, "invalid UTF-8 at byte 6"),
        (b'{"a":NaN}', JSON, 400, "invalid JSON: NaN is not a number"),
        (b'{"a":-Infinity}', JSON, 400, "invalid JSON: -Infinity is not a number"),
        (b'{"a":1e999}', JSON, 400, "invalid JSON: the number 1e999 is too large"),
        (b'{"a":' + b"9" * 5000 + b"}", JSON, 400, "invalid JSON: a number has too many digits"),
        (b'{"a":1,"a":2}', JSON, 400, 'duplicate field "a"'),
        (b'{"request":{"object":{"a":1,"\\u0061" : 1}}}', JSON, 400, 'duplicate field "a"'),
        (b'{"a":"\x01"}', JSON, 400, "invalid JSON at line 1, column 7: Invalid control character at"),
        (b"\xef\xbb\xbf{}", JSON, 400, "invalid JSON at line 1, column 1: Expecting value"),
        (b'{"request":{"object":' + b"[1," * 40_000, JSON, 400, "invalid JSON: nested too deeply"),
        (b"[" + b"[],1," * 600_000 + b"1]", JSON, 400, "invalid JSON: more than 120000 values"),
        (b"[" * 100_000, JSON, 400, "invalid JSON: nested too deeply"),
        (
            b'{"request":[]}',
            JSON,
            400,
            (
                "json: cannot unmarshal array into Go struct field AdmissionReview.request of type "
                "v1.AdmissionRequest"
            ),
        ),
        (
            b'{"request":{"uid":7}}',
            JSON,
            400,
            (
                "json: cannot unmarshal number into Go struct field AdmissionRequest.request.uid of type "
                "types.UID"
            ),
        ),
        (
            b'{"kind":"Pod","apiVersion":"v1"}',
            JSON,
            400,
            "unable to decode /v1, Kind=Pod into *v1.AdmissionReview",
        ),
    ],
)
def test_a_malformed_request_is_refused_with_the_error(
    path: str, body: bytes, content_type: str, code: int, expected: str
) -> None:
    """No malformed request raises an exception."""
    response = ask(path, body, content_type)["response"]

    assert message(response) == expected
    assert response["status"]["code"] == code


def test_a_too_large_body_is_refused() -> None:
    """The limit is 7 MiB. The refusal is an AdmissionReview and not an HTTP error."""
    response = ask(VALIDATE_FEDERATEDHPA, b" " * (MAX_BODY + 1))["response"]

    assert response["status"]["code"] == 413
    assert message(response) == "request entity is too large; limit is 7340032 bytes"


def test_a_refusal_in_v1beta1_is_answered_in_v1beta1() -> None:
    """A refusal has the version and the uid of the request, if they can be read."""
    body = {"apiVersion": "admission.k8s.io/v1beta1", "request": {"uid": "42", "object": 7}}

    answer = ask(VALIDATE_FEDERATEDHPA, body)

    assert answer["apiVersion"] == "admission.k8s.io/v1beta1"
    assert answer["response"]["uid"] == "42"
    assert message(answer["response"]) == (
        "json: cannot unmarshal number into Go value of type v1alpha1.FederatedHPA"
    )


def test_a_long_message_is_cut() -> None:
    """It is cut at 64 Ki characters, and says so."""
    wrong = fhpa()
    wrong["metadata"]["labels"] = {f"not a key {number}": "" for number in range(5_000)}

    text = message(asked(VALIDATE_FEDERATEDHPA, wrong))

    assert text.startswith('[metadata.labels: Invalid value: "not a key 0": ')
    assert text.endswith(" more characters")
    assert len(text) < 66_000


def test_there_are_at_most_five_short_warnings() -> None:
    """API servers cut long warnings, and terminals interpret control characters."""
    target = {"type": "Utilization", "averageUtilization": 80}
    metric = {"type": "Resource", "resource": {"name": "cpu\n" + "x" * 300, "target": target}}
    odd = fhpa(metrics=[metric] * 10, scaleTargetRef={"kind": "Deployment", "name": "web"})

    warnings = asked(VALIDATE_FEDERATEDHPA, odd)["warnings"]

    assert len(warnings) == 5
    assert warnings[-1].startswith("and ")
    assert all(len(text.encode()) < 256 and text.isprintable() for text in warnings)


RULE = {"name": "r", "targetReplicas": 1, "timeZone": "UTC"}
STORED_SPECS: dict[str, tuple[str, dict[str, Any]]] = {
    "70 metrics": (VALIDATE_FEDERATEDHPA, {"metrics": [{"type": "Resource"}] * 70}),
    "no defaults": (MUTATE_FEDERATEDHPA, {}),
} | {
    text: (VALIDATE_CRONFEDERATEDHPA, {"rules": [{**RULE, "schedule": "0 8 * * *", **rule}]})
    for text, rule in {
        "@every": {"schedule": "@every 1h"},
        "CRON_TZ": {"schedule": "CRON_TZ=Asia/Tokyo 0 8 * * *"},
        "an empty item": {"schedule": "5, * * * *"},
        "31 February": {"schedule": "0 0 31 2 *"},
        "a dropped zone": {"timeZone": "US/Pacific-New"},
    }.items()
}


@pytest.mark.parametrize(("path", "spec"), STORED_SPECS.values(), ids=STORED_SPECS)
def test_an_update_that_leaves_the_spec_alone_is_admitted(path: str, spec: dict[str, Any]) -> None:
    """A stored object gets its finalizer and its labels although today's rules refuse its spec."""
    old = fhpa(**spec) | {"kind": "CronFederatedHPA" if "cron" in path else "FederatedHPA"}
    changed = {**old, "metadata": {**old["metadata"], "finalizers": ["autoscaling.karmada.io/x"]}}

    response = asked(path, changed, oldObject=old)

    assert (response["allowed"], response["status"]["code"], response.get("patch")) == (True, 200, None)
    if path != MUTATE_FEDERATEDHPA:
        assert asked(path, changed)["allowed"] is False


def test_another_type_of_an_equal_number_is_a_change_of_the_spec() -> None:
    """In Python, 10 equals 10.0 and 1 equals True. The rules judge such an edit."""
    for was, now in ((True, 1), (False, 0)):
        response = asked(VALIDATE_FEDERATEDHPA, fhpa(dryRun=now), oldObject=fhpa(dryRun=was))
        assert "cannot unmarshal number" in message(response)


def test_an_update_that_leaves_the_spec_alone_still_gets_warnings() -> None:
    """`kubectl annotate` is how a hold begins, and may mistype it."""
    changed = fhpa()
    changed["metadata"]["annotations"] = {"autoscaling.karmada.io/hold": "downwards"}

    [warning] = asked(VALIDATE_FEDERATEDHPA, changed, oldObject=fhpa())["warnings"]

    assert "is none of down, up, all" in warning


def test_an_object_of_another_kind_is_refused_by_name() -> None:
    """The kind of the object decides, not the kind of the request."""
    pod = {"apiVersion": "v1", "kind": "Pod"}

    assert message(asked(VALIDATE_FEDERATEDHPA, pod)) == (
        "unable to decode /v1, Kind=Pod into *v1alpha1.FederatedHPA"
    )
    assert message(asked(VALIDATE_CRONFEDERATEDHPA, fhpa())) == (
        "unable to decode autoscaling.karmada.io/v1alpha1, Kind=FederatedHPA into *v1alpha1.CronFederatedHPA"
    )


@pytest.mark.parametrize(
    ("spec", "value", "field", "kind"),
    [
        ({"maxReplicas": "3"}, "string", "FederatedHPASpec.spec.maxReplicas", "int32"),
        ({"maxReplicas": 1.5}, "number 1.5", "FederatedHPASpec.spec.maxReplicas", "int32"),
        ({"metrics": {}}, "object", "FederatedHPASpec.spec.metrics", "[]v2.MetricSpec"),
        ({"metrics": [{"type": 1}]}, "number", "MetricSpec.spec.metrics.type", "v2.MetricSourceType"),
        ({"dryRun": "yes"}, "string", "FederatedHPASpec.spec.dryRun", "bool"),
    ],
)
@pytest.mark.parametrize("path", [MUTATE_FEDERATEDHPA, VALIDATE_FEDERATEDHPA])
def test_a_wrong_type_is_refused_naming_the_field(
    path: str, spec: dict[str, Any], value: str, field: str, kind: str
) -> None:
    """The code is 400, with the error of Go's decoder. The warning has the full path."""
    response = asked(path, fhpa(**spec))

    assert message(response) == f"json: cannot unmarshal {value} into Go struct field {field} of type {kind}"
    assert response["status"]["code"] == 400
    assert response["warnings"][0].startswith("spec.")


def test_a_bad_quantity_is_refused_naming_the_field() -> None:
    """The message has the path and the rule for quantities."""
    metric = {
        "type": "Pods",
        "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "5x"}},
    }

    refused = message(asked(VALIDATE_FEDERATEDHPA, fhpa(metrics=[metric])))

    assert refused.startswith("spec.metrics[0].pods.target.averageValue: ")
    assert "quantity" in refused


def test_an_object_being_deleted_may_always_lose_its_finalizer() -> None:
    """It is admitted without a patch, even if it is invalid."""
    wrong = fhpa(maxReplicas="many")
    wrong["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    for path in (MUTATE_FEDERATEDHPA, VALIDATE_FEDERATEDHPA):
        response = asked(path, wrong, operation="UPDATE")
        assert response["allowed"]
        assert "patch" not in response


def test_mutation_answers_with_a_patch_of_the_defaults() -> None:
    """The patch is base64. There is none if the object is complete."""
    response = asked(MUTATE_FEDERATEDHPA, fhpa())
    patch = json.loads(base64.b64decode(response["patch"]))

    assert response["patchType"] == "JSONPatch"
    assert [(operation["op"], operation["path"]) for operation in patch] == [
        ("add", "/spec/minReplicas"),
        ("add", "/spec/metrics"),
    ]
    complete = fhpa(minReplicas=1, metrics=patch[1]["value"])
    assert "patch" not in asked(MUTATE_FEDERATEDHPA, complete)


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"spec": {}},
        {"metadata": {}, "spec": {"minReplicas": -5, "metrics": [{"type": ""}]}},
        {"spec": {"scaleTargetRef": None, "behavior": {"scaleUp": {"policies": []}}, "unknown": 1}},
    ],
)
def test_mutation_refuses_only_wrong_types(obj: dict[str, Any]) -> None:
    """Validation refuses missing, empty and negative values."""
    assert asked(MUTATE_FEDERATEDHPA, obj)["allowed"]


def test_only_uid_and_object_are_needed() -> None:
    """A request needs no operation, kind, resource, options or user."""
    assert asked(VALIDATE_FEDERATEDHPA, fhpa())["allowed"]


def test_a_lone_surrogate_does_not_break_the_answer() -> None:
    """The answer is valid UTF-8."""
    body = b'{"request":{"uid":"\\ud800","object":{"metadata":{"name":"\\udfff"},"spec":{}}}}'

    answer = ask(VALIDATE_FEDERATEDHPA, body)

    assert answer["response"]["allowed"] is False


def test_an_unknown_path_is_refused() -> None:
    """The refusal names the path."""
    assert message(asked("/validate-pods", fhpa())) == "no webhook is served at /validate-pods"


def test_mutation_gives_the_remedies_for_what_the_schema_refuses() -> None:
    """The API server calls mutation first. It does not call validation if the schema refuses the object."""
    wrong = fhpa(minReplicas=0, metrics=[{"type": "cpu", "resource": {"name": "cpu"}}])
    mutated, validated = asked(MUTATE_FEDERATEDHPA, wrong), asked(VALIDATE_FEDERATEDHPA, wrong)

    assert mutated["allowed"] is True
    assert mutated["warnings"] == [
        "spec.minReplicas: 0 needs an Object or External metric, because no pod is left to measure",
        "spec.metrics[0].type: write Resource, which has the field resource",
    ]
    assert validated["warnings"] == mutated["warnings"]
    assert "warnings" not in asked(MUTATE_FEDERATEDHPA, fhpa(scaleTargetRef={"kind": "Deployment"}))


def test_fields_of_a_newer_release_are_admitted_and_not_touched() -> None:
    """Where the hub has newer CRDs than the webhook, unknown fields are admitted, and no patch names them."""
    added = {"addedLater": {"nested": [1]}}
    policy = {"type": "Pods", "value": 4, "periodSeconds": 60, **added}
    newer = fhpa(**added, behavior={"scaleUp": {"policies": [policy], **added}, **added})
    newer["spec"]["scaleTargetRef"] |= added
    rule = {"name": "up", "schedule": "0 8 * * *", "targetReplicas": 2, **added}
    cron = {**newer, "kind": "CronFederatedHPA", "spec": {**newer["spec"], "rules": [rule]}}

    patch = asked(MUTATE_FEDERATEDHPA, newer)
    operations = json.loads(base64.b64decode(patch["patch"]))

    assert patch["allowed"] is True
    assert operations
    assert {operation["op"] for operation in operations} == {"add"}
    assert "addedLater" not in json.dumps(operations)
    validated = asked(VALIDATE_FEDERATEDHPA, newer)
    assert validated["allowed"] is True
    assert "warnings" not in validated
    assert asked(VALIDATE_CRONFEDERATEDHPA, cron)["allowed"] is True
