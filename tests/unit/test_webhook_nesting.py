"""Deeply nested objects are refused with the request's uid, well below what every reader can decode."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fedhpa.api.json import MAX_NESTING, decode_json
from fedhpa.api.wire import ObjectList
from webhook.handlers import PATHS, VALIDATE_FEDERATEDHPA, judge
from webhook.strict_json import MAX_LEVELS, MAX_MANAGED_FIELDS_LEVELS

REMEDY = f"nested more than {MAX_LEVELS} levels deep; remove levels until at most {MAX_LEVELS} remain"
# Levels around the limits of the decoders and far beyond them.
DEEP = (MAX_LEVELS, 150, 199, 200, 300, 900, 960, 970, 975, 980, 990, 1_000, 1_100, 5_000, 100_000)


def nested(levels: int, opening: str = '{"x":', closing: str = "}") -> str:
    return opening * levels + "1" + closing * levels


def review(spec: str = "{}", *, metadata: str = '{"name":"web"}', more: str = "") -> bytes:
    """Returns the bytes of a request. `more` precedes the object in it."""
    return (
        f'{{"apiVersion":"admission.k8s.io/v1","request":{{{more}"object":{{"metadata":{metadata},'
        f'"spec":{spec}}},"uid":"the-uid"}}}}'
    ).encode()


def answered(path: str, body: bytes) -> dict[str, Any]:
    """Returns the response, which has the uid of the request."""
    response: dict[str, Any] = json.loads(judge(path, body, "application/json").encoded())["response"]
    assert response["uid"] == "the-uid"
    return response


@pytest.mark.parametrize("levels", DEEP)
@pytest.mark.parametrize("path", PATHS)
def test_a_deep_object_is_refused_with_its_uid_field_and_remedy(path: str, levels: int) -> None:
    """The message names the field and says what to do, at any depth."""
    response = answered(path, review(f'{{"clusterHPAPreference":{nested(levels)}}}'))

    assert response["allowed"] is False
    assert response["status"]["code"] == 400
    assert response["status"]["message"] == f"spec.clusterHPAPreference.x.x...: {REMEDY}"


@pytest.mark.parametrize("levels", [MAX_LEVELS, 1_000, 5_000])
def test_lists_count_as_levels(levels: int) -> None:
    """The path of a list has its indices."""
    response = answered(VALIDATE_FEDERATEDHPA, review(f'{{"metrics":[null,{nested(levels, "[", "]")}]}}'))

    assert response["status"]["message"] == f"spec.metrics[1][0]...: {REMEDY}"


def test_the_deepest_admitted_object_is_not_refused_for_its_depth() -> None:
    """An object with exactly the limit passes the check."""
    # The object and its spec are the first two levels.
    response = answered(VALIDATE_FEDERATEDHPA, review(f'{{"unknown":{nested(MAX_LEVELS - 2)}}}'))

    assert "nested" not in response["status"]["message"]


def test_managed_fields_may_be_deeper_than_the_object() -> None:
    """The API server writes the field manager's copy of the paths, a few levels below metadata."""
    within = nested(MAX_MANAGED_FIELDS_LEVELS - 5, '{"f:x":')
    beyond = nested(MAX_MANAGED_FIELDS_LEVELS, '{"f:x":')

    def managed(fields: str) -> str:
        return f'{{"name":"web","managedFields":[{{"fieldsV1":{fields}}}]}}'

    accepted = answered(VALIDATE_FEDERATEDHPA, review(metadata=managed(within)))
    refused = answered(VALIDATE_FEDERATEDHPA, review(metadata=managed(beyond)))
    both = answered(VALIDATE_FEDERATEDHPA, review(f'{{"y":{nested(90)}}}', metadata=managed(within)))

    assert "nested" not in accepted["status"]["message"]
    assert refused["status"]["message"].startswith("metadata.managedFields[0].fieldsV1...: nested more than")
    assert both["status"]["message"] == f"spec.y.x.x...: {REMEDY}"


@pytest.mark.parametrize("levels", DEEP)
def test_a_deep_object_can_be_deleted(levels: int) -> None:
    """An object that was stored without the webhook can lose its finalizer."""
    metadata = '{"name":"web","deletionTimestamp":"2026-03-11T13:23:17Z"}'

    assert answered(VALIDATE_FEDERATEDHPA, review(f'{{"x":{nested(levels)}}}', metadata=metadata))["allowed"]


@pytest.mark.parametrize("levels", DEEP)
@pytest.mark.parametrize("field", ["oldObject", "userInfo", "options"])
def test_only_the_object_itself_has_a_limit(field: str, levels: int) -> None:
    """A deep object that was stored without the webhook can be fixed."""
    good = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "maxReplicas": 3,
    }
    body = review(
        json.dumps(good), metadata='{"name":"web","namespace":"shop"}', more=f'"{field}":{nested(levels)},'
    )

    assert answered(VALIDATE_FEDERATEDHPA, body)["allowed"]


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 5_000 + b'"',
        b"[" * 5_000 + b'"\\' * 50_000,
        b'{"a":' * 5_000 + b"}" * 10_000,
        b"[" * 5_000 + b"]" * 5_000 + b"nonsense",
    ],
    ids=["open string", "escapes", "too many ends", "rubbish after it"],
)
def test_deep_nonsense_is_refused(body: bytes) -> None:
    """A deeply nested body that is no JSON is refused without a uid."""
    response = json.loads(judge(VALIDATE_FEDERATEDHPA, body, "application/json").encoded())["response"]

    assert response["status"]["message"] == "invalid JSON: nested too deeply"


def test_long_keys_do_not_lengthen_the_message() -> None:
    """The path in the message is short and on one line."""
    spec = nested(100, '{"' + "long\\n" * 5_000 + '":')

    message = answered(VALIDATE_FEDERATEDHPA, review(spec))["status"]["message"]

    assert len(message) < 400
    assert "\n" not in message


def test_every_reader_decodes_what_is_admitted() -> None:
    """The limits leave room for the list around the object."""
    metadata = f'{{"name":"web","managedFields":[{nested(MAX_MANAGED_FIELDS_LEVELS - 3)}]}}'
    spec = f'{{"clusterHPAPreference":{nested(MAX_LEVELS - 2)}}}'
    body = f'{{"items":[{{"metadata":{metadata},"spec":{spec}}}]}}'.encode()

    assert MAX_LEVELS <= MAX_MANAGED_FIELDS_LEVELS < MAX_NESTING - 20
    assert decode_json(body, dict[str, Any])["items"]
    assert decode_json(body, ObjectList[Any]).items
