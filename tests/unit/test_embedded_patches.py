"""Patches of the embedded plane: what kubectl sends, and what contradicts itself."""

import json
from typing import Any

import pytest

from testbed.embedded.api import patches
from testbed.embedded.api.strategic import strategic_merge
from testbed.embedded.api.types import Object, Refusal
from testbed.embedded.objects.definitions import schema_of
from testbed.embedded.objects.kinds import BUILTIN, Kind

DEPLOYMENT = next(kind for kind in BUILTIN if kind.kind == "Deployment")
CUSTOM = Kind("example.com", "v1", "things", "Thing", custom=True)
SCHEMA = schema_of(DEPLOYMENT)


def pod_spec(**spec: Any) -> Object:
    return {"spec": {"template": {"spec": spec}}}


def merged(before: Object, patch: Object) -> Any:
    return strategic_merge(pod_spec(**before), pod_spec(**patch), SCHEMA)["spec"]["template"]["spec"]


def test_containers_are_merged_by_name() -> None:
    """A container that is named is changed, the others stay; a new one comes first, as Kubernetes has it."""
    before = {"containers": [{"name": "a", "image": "a:1", "tty": True}, {"name": "b", "image": "b:1"}]}
    after = merged(before, {"containers": [{"name": "a", "image": "a:2"}, {"name": "c", "image": "c:1"}]})

    assert after["containers"] == [
        {"name": "a", "image": "a:2", "tty": True},
        {"name": "c", "image": "c:1"},
        {"name": "b", "image": "b:1"},
    ]


def test_elements_are_deleted_by_directive() -> None:
    """`$patch: delete` takes the element with that key out; an element that is not there does not matter."""
    before = {
        "containers": [{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}]
    }
    env = [{"name": "X", "$patch": "delete"}, {"name": "Z", "$patch": "delete"}]
    after = merged(before, {"containers": [{"name": "a", "env": env}]})

    assert after["containers"] == [{"name": "a", "env": [{"name": "Y", "value": "2"}]}]


def test_a_list_can_be_replaced() -> None:
    """`$patch: replace` in a list leaves what the patch brings."""
    before = {"containers": [{"name": "a"}, {"name": "b"}]}
    after = merged(before, {"containers": [{"$patch": "replace"}, {"name": "c"}]})

    assert after["containers"] == [{"name": "c"}]


def test_the_order_is_what_the_patch_says() -> None:
    """`$setElementOrder` orders what it names; what only the server has stays near its neighbours."""
    before = {"containers": [{"name": "a"}, {"name": "side"}, {"name": "b"}]}
    patch = {
        "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
        "containers": [{"name": "b", "image": "b:2"}],
    }
    after = merged(before, patch)

    assert [container["name"] for container in after["containers"]] == ["side", "b", "a"]


def test_primitive_lists_are_unions() -> None:
    """What is merged without a key is added once; `$deleteFromPrimitiveList` takes away."""
    schema = {
        "type": "object",
        "properties": {
            "finalizers": {
                "type": "array",
                "x-kubernetes-patch-strategy": "merge",
                "items": {"type": "string"},
            }
        },
    }
    added = strategic_merge({"finalizers": ["a", "b"]}, {"finalizers": ["b", "c"]}, schema)
    removed = strategic_merge(
        {"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, schema
    )

    assert sorted(added["finalizers"]) == ["a", "b", "c"]
    assert removed == {"finalizers": ["b"]}


def test_lists_without_merge_key_are_replaced() -> None:
    """Arguments of a container are one value."""
    after = merged(
        {"containers": [{"name": "a", "args": ["1", "2"]}]}, {"containers": [{"name": "a", "args": ["3"]}]}
    )

    assert after["containers"] == [{"name": "a", "args": ["3"]}]


def test_retained_keys_drop_the_others() -> None:
    """kubectl changes the strategy of a Deployment so: what is not retained goes."""
    before = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}

    assert strategic_merge(before, patch, SCHEMA) == {"spec": {"strategy": {"type": "Recreate"}}}


def test_a_patch_that_contradicts_its_retained_keys_is_refused() -> None:
    """What it sets must be among them."""
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}}
    with pytest.raises(Refusal, match="retainKeys"):
        strategic_merge({"spec": {}}, patch, SCHEMA)


def test_elements_need_their_merge_key() -> None:
    """A container without a name cannot be merged."""
    with pytest.raises(Refusal, match="does not contain declared merge key: name"):
        merged({"containers": []}, {"containers": [{"image": "x"}]})


def test_null_takes_a_field_away() -> None:
    """In strategic and in merge patches, also where there was none."""
    strategic = merged({"hostNetwork": True}, {"hostNetwork": None, "hostPID": None})
    merge = patches.merge_patch({"a": {"b": 1, "c": 2}}, {"a": {"b": None, "d": None}})

    assert strategic == {}
    assert merge == {"a": {"c": 2}}


def test_patching_changes_no_argument() -> None:
    """The object that was there may still be somebody's."""
    before = pod_spec(containers=[{"name": "a", "env": [{"name": "X", "value": "1"}]}])
    copy = json.loads(json.dumps(before))
    strategic_merge(
        before, pod_spec(containers=[{"name": "a", "env": [{"name": "X", "value": "2"}]}]), SCHEMA
    )
    patches.merge_patch(before, {"spec": {"template": {"spec": None}}})
    patches.json_patch(before, [{"op": "remove", "path": "/spec/template"}])

    assert before == copy


def test_json_patches_are_applied_in_order() -> None:
    """Later operations see what earlier ones did."""
    operations = [
        {"op": "add", "path": "/data/b", "value": "2"},
        {"op": "move", "from": "/data/b", "path": "/data/c"},
        {"op": "test", "path": "/data/c", "value": "2"},
    ]

    assert patches.json_patch({"data": {"a": "1"}}, operations) == {"data": {"a": "1", "c": "2"}}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "remove", "path": "/nothing"},
        {"op": "add", "path": "/no/where", "value": 1},
        {"op": "dance", "path": "/a"},
    ],
    ids=lambda operation: str(operation["op"]),
)
def test_json_patches_that_do_not_fit_are_refused(operation: Object) -> None:
    """With 422 and nothing done."""
    with pytest.raises(Refusal) as caught:
        patches.json_patch({"a": 1}, [operation])

    assert (caught.value.code, caught.value.reason) == (422, "Invalid")


def test_custom_objects_know_no_strategic_patch() -> None:
    """They have no merge keys, so it is 415, with the types that they do take."""
    with pytest.raises(Refusal) as caught:
        patches.apply_patch(CUSTOM, {}, {}, patches.STRATEGIC, b"{}")

    assert caught.value.code == 415
    assert patches.MERGE in str(caught.value)
    assert patches.STRATEGIC not in str(caught.value)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [(patches.MERGE, b"[]"), (patches.JSON, b"{}"), (patches.STRATEGIC, b"1"), (patches.MERGE, b"{")],
    ids=["merge", "json", "strategic", "cut off"],
)
def test_patches_of_the_wrong_shape_are_refused(content_type: str, body: bytes) -> None:
    """With 400."""
    with pytest.raises(Refusal) as caught:
        patches.apply_patch(DEPLOYMENT, SCHEMA, {}, content_type, body)

    assert caught.value.code == 400
