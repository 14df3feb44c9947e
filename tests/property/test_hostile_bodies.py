"""Every broken admission request gets a well-formed verdict within bounds."""

from __future__ import annotations

import base64
import copy
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property import admission_bodies as bodies
from tests.support.costs import least_cpu_seconds
from tests.support.nightly import examples
from webhook.handlers import MUTATE_FEDERATEDHPA, PATHS, judge
from webhook.strict_json import BadJSON, loads, strict_loads

JSON = "application/json"
CODES = {200, 400, 403, 413}
# Each opens one level, and some have brackets that open none.
OPENINGS = ('{"x":', '{"}]":', "[", '{"\\"{[":', '["]",', '{"a":{},"b":')
# The most seconds of CPU time for one verdict.
ENOUGH = 1.0


@given(data=st.data())
@settings(max_examples=examples(500, 100_000), deadline=None)
def test_every_broken_request_gets_a_verdict(data: st.DataObject) -> None:
    """The answer is an AdmissionReview with the reason of a refusal, and it comes quickly."""
    path = data.draw(st.sampled_from(PATHS))
    body = data.draw(bodies.spoiled_bodies(path))

    answers: list[bytes] = []
    seconds = least_cpu_seconds(lambda: answers.append(judge(path, body, JSON).encoded()), ENOUGH)
    answer = json.loads(answers[0])
    response = answer["response"]

    assert answer["kind"] == "AdmissionReview"
    assert answer["apiVersion"] in ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
    assert isinstance(response["uid"], str)
    assert response["status"]["code"] in CODES
    assert response["allowed"] is (response["status"]["code"] == 200)
    assert response["allowed"] or response["status"]["message"]
    assert len(response.get("warnings", ())) <= 5
    assert all(len(text) < 256 and text.isprintable() for text in response.get("warnings", ()))
    assert seconds < ENOUGH
    # The fast decoder gives the same values and errors as the strict one.
    assert read(loads, body) == read(strict_loads, body)


@given(
    path=st.sampled_from(PATHS),
    levels=st.integers(0, 250) | st.integers(900, 1_100) | st.integers(0, 20_000),
    above=st.lists(st.sampled_from(("spec", "metadata", "status", "x", 0)), max_size=4),
    opening=st.lists(
        st.sampled_from(('{"x":', '{"}]":', "[", '{"\\"{[":', '["]",', '{"a":{},"b":')),
        min_size=1,
        max_size=5,
    ),
    request=st.sampled_from(("{}", '"userInfo":{"x":"}{"},"oldObject":[[[]]],')),
)
@settings(max_examples=examples(100, 20_000), deadline=None)
def test_nesting_of_any_depth_is_answered_with_the_uid(
    path: str, levels: int, above: list[str | int], opening: list[str], request: str
) -> None:
    """Objects above the limit are refused for their nesting, and objects below it are not."""
    value = json.dumps(nested(above))
    pieces = (opening * (levels // len(opening) + 1))[:levels]
    closing = "".join("}" if piece[0] == "{" else "]" for piece in reversed(pieces))
    object_ = f'{{"y":{value.replace("7", "".join(pieces) + "1" + closing)}}}'
    body = f'{{"request":{{{request.removeprefix("{}")}"object":{object_},"uid":"the-uid"}}}}'.encode()

    response = json.loads(judge(path, body, JSON).encoded())["response"]

    depth = 1 + len(above) + levels
    assert response["uid"] == "the-uid"
    assert (": nested more than 64 levels deep;" in response["status"].get("message", "")) is (depth > 64)
    assert depth <= 64 or not response["allowed"]


def nested(path: list[str | int]) -> Any:
    """Returns the number 7 at a path of keys and indices."""
    value: Any = 7
    for key in reversed(path):
        value = [value] if isinstance(key, int) else {key: value}
    return value


@given(data=st.data())
@settings(max_examples=examples(100, 20_000), deadline=None)
def test_a_verdict_depends_only_on_the_object(data: st.DataObject) -> None:
    """The user, the operation and an old object of another spec make no difference."""
    path = data.draw(st.sampled_from(PATHS))
    obj = data.draw(bodies.spoiled_objects(path))
    old = {**bodies.FHPA, "spec": {"maxReplicas": 1}}
    others = {"operation": "UPDATE", "oldObject": old, "userInfo": {"username": "x"}, "dryRun": True}

    plain = judge(path, json.dumps({"request": {"uid": "1", "object": obj}}).encode(), JSON)
    full = judge(path, json.dumps(bodies.review_of(obj, **others)).encode(), JSON)

    assert plain.verdict == full.verdict


@given(path=st.sampled_from(PATHS), chance=st.randoms(use_true_random=False))
@settings(max_examples=examples(200, 20_000), deadline=None)
def test_an_update_that_leaves_the_spec_alone_is_admitted(path: str, chance: random.Random) -> None:
    """No stored spec and no change of the metadata is refused, so a label and a finalizer stay possible."""
    old = bodies.object_of(path)
    for _ in range(chance.randrange(4)):
        old = {**old, "spec": bodies.mutated(old["spec"], chance)}
    changed = {**old, "metadata": bodies.mutated(old["metadata"], chance)}

    verdict = judge(path, json.dumps(bodies.review_of(changed, oldObject=old)).encode(), JSON).verdict

    assert (verdict.allowed, verdict.patch) == (True, [])


def read(reader: Any, body: bytes) -> tuple[str, str]:
    """Returns the decoded value with its types, or the error."""
    try:
        return "value", repr(reader(body))
    except BadJSON as error:
        return "refused", str(error)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=5),
    max_leaves=20,
)


@given(value=JSON_VALUES, chance=st.randoms(use_true_random=False))
@settings(max_examples=examples(100, 10_000), deadline=None)
def test_valid_json_is_decoded(value: Any, chance: random.Random) -> None:
    """Blanks and escapes make no difference."""
    body = bodies.written(value, chance)

    assert repr(loads(body)) == repr(value)


@given(data=st.data())
@settings(max_examples=examples(100, 10_000), deadline=None)
def test_a_duplicate_key_is_refused_by_name(data: st.DataObject) -> None:
    """Its place, escapes and surrounding blanks make no difference."""
    body = bytes(json.dumps(bodies.review_of(bodies.FHPA)), "utf-8")
    places = [
        index for index in range(len(body)) if body[index : index + 1] == b"{" and body[index + 1] != 125
    ]
    place = data.draw(st.sampled_from(places))
    key = json.loads(body[place + 1 : body.index(b":", place)])
    again = data.draw(st.sampled_from((f'"{key}"', f'"\\u{ord(key[0]):04x}{key[1:]}"')))
    blank = data.draw(st.sampled_from(("", " ", "\n\t")))
    doubled = body[: place + 1] + f"{blank}{again}{blank}:{blank}null,".encode() + body[place + 1 :]

    with pytest.raises(BadJSON, match=f'duplicate field "{key}"'):
        loads(doubled)


@given(data=st.data())
@settings(max_examples=examples(100, 20_000), deadline=None)
def test_the_patch_has_only_the_defaults(data: st.DataObject) -> None:
    """It adds only fields with defaults and keeps unknown fields. A second mutation changes nothing."""
    obj = data.draw(bodies.spoiled_objects(MUTATE_FEDERATEDHPA))
    response = json.loads(
        judge(
            MUTATE_FEDERATEDHPA, json.dumps({"request": {"uid": "1", "object": obj}}).encode(), JSON
        ).encoded()
    )["response"]
    if not response["allowed"] or "patch" not in response:
        return
    patch = json.loads(base64.b64decode(response["patch"]))

    patched = applied(obj, patch)

    assert response["patchType"] == "JSONPatch"
    assert {operation["op"] for operation in patch} == {"add"}
    assert {operation["path"] for operation in patch} <= DEFAULTED | {"/spec"}
    assert set(patch_of_spec(patch)) <= {"minReplicas", "metrics", "behavior"}
    assert without_defaulted(patched) == without_defaulted(obj)
    again = json.loads(
        judge(
            MUTATE_FEDERATEDHPA, json.dumps({"request": {"uid": "1", "object": patched}}).encode(), JSON
        ).encoded()
    )["response"]
    assert again["allowed"]
    assert "patch" not in again


DIRECTIONS = ("scaleUp", "scaleDown")
RULES = ("stabilizationWindowSeconds", "selectPolicy", "policies")
DEFAULTED = {
    "/spec/minReplicas",
    "/spec/metrics",
    *(f"/spec/behavior/{direction}" for direction in DIRECTIONS),
    *(f"/spec/behavior/{direction}/{field}" for direction in DIRECTIONS for field in RULES),
}


def patch_of_spec(patch: list[dict[str, Any]]) -> list[str]:
    """Returns the fields of the spec that a patch writes."""
    fields = []
    for operation in patch:
        fields += (
            list(operation["value"]) if operation["path"] == "/spec" else [operation["path"].split("/")[2]]
        )
    return fields


def applied(obj: Any, patch: list[dict[str, Any]]) -> Any:
    """Applies the `add` operations of a patch (RFC 6902). Our patches add nothing to lists."""
    result = copy.deepcopy(obj)
    for operation in patch:
        *holders, last = operation["path"].split("/")[1:]
        holder = result
        for part in holders:
            holder = holder[part]
        holder[last] = operation["value"]
    return result


def without_defaulted(obj: dict[str, Any]) -> dict[str, Any]:
    """Removes the fields that have defaults, and the parents that are empty without them."""
    left: dict[str, Any] = copy.deepcopy(obj)
    spec = left.get("spec") or {}
    spec.pop("minReplicas", None)
    spec.pop("metrics", None)
    for direction in DIRECTIONS:
        rules = (spec.get("behavior") or {}).get(direction) or {}
        for field in RULES:
            rules.pop(field, None)
        if not rules and spec.get("behavior"):
            spec["behavior"].pop(direction, None)
    left["spec"] = spec
    return left
