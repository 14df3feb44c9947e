"""Merge patches and JSON patches."""

from __future__ import annotations

from tests.conformance.plane.registry import check
from tests.conformance.plane.talk import JSON_PATCH, Talk
from tests.conformance.plane.things import configmap, configmaps, install_widgets, widget, widgets


@check()
async def merged(talk: Talk) -> None:
    """A merge patch sets fields, replaces lists, and removes fields that are null."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    body = widget(
        "one", name="a", tags=["x", "y"], labels={"a": "1", "b": "2"}, free={"deep": {"x": 1, "y": 2}}
    )
    await talk.ask("POST", path, body)
    for patch in (
        {"spec": {"labels": {"a": None, "c": "3"}, "tags": ["z"]}},
        {"spec": {"free": {"deep": {"y": None, "z": [1, {"a": 2}]}}}},
        {"spec": {"size": None}},
        {"metadata": {"annotations": {"note": "n"}, "labels": {"l": "1"}}},
        {"metadata": {"annotations": None}},
        {"spec": {"nothing": None}},
        {},
    ):
        answer = await talk.patch(f"{path}/one", patch)

        assert answer.status == 200
    spec = answer.json["spec"]
    assert (spec["tags"], spec["labels"], spec["size"]) == (["z"], {"b": "2", "c": "3"}, 3)


@check()
async def merged_with_a_version(talk: Talk) -> None:
    """A patch with an old version is a Conflict."""
    await install_widgets(talk)
    space = await talk.begin()
    for path, body, change in (
        (configmaps(space), configmap("one", a="1"), {"data": {"a": "2"}}),
        (widgets(space), widget("one", name="a"), {"spec": {"name": "b"}}),
    ):
        old = (await talk.ask("POST", path, body)).json["metadata"]["resourceVersion"]
        at_old = {"metadata": {"resourceVersion": old}}
        first = await talk.patch(f"{path}/one", {**change, **at_old})
        late = await talk.patch(f"{path}/one", {**change, **at_old})

        assert (first.status, late.status, late.json["reason"]) == (200, 409, "Conflict")


@check()
async def json_patch(talk: Talk) -> None:
    """add, replace, remove, move, copy and test, with escaped paths and list indexes."""
    path = configmaps(await talk.begin())
    await talk.ask("POST", path, configmap("one", a="1", b="2"))
    for operations in (
        [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "replace", "path": "/data/a", "value": "9"}],
        [{"op": "add", "path": "/metadata/annotations", "value": {"x.test/y": "1"}}],
        [{"op": "replace", "path": "/metadata/annotations/x.test~1y", "value": "2"}],
        [{"op": "add", "path": "/data/c", "value": "3"}, {"op": "remove", "path": "/data/b"}],
        [
            {"op": "copy", "from": "/data/a", "path": "/data/d"},
            {"op": "move", "from": "/data/c", "path": "/data/e"},
        ],
        [{"op": "add", "path": "/metadata/finalizers", "value": ["x.test/a"]}],
        [{"op": "add", "path": "/metadata/finalizers/-", "value": "x.test/b"}],
        [{"op": "add", "path": "/metadata/finalizers/0", "value": "x.test/c"}],
        [{"op": "remove", "path": "/metadata/finalizers"}],
        [],
    ):
        answer = await talk.patch(f"{path}/one", operations, JSON_PATCH)

        assert answer.status == 200
    assert answer.json["data"] == {"a": "9", "d": "9", "e": "3"}
    assert answer.json["metadata"]["annotations"] == {"x.test/y": "2"}


@check()
async def json_patch_that_does_not_fit(talk: Talk) -> None:
    """A failed test, an absent path or an unknown operation is refused and changes nothing."""
    path = configmaps(await talk.begin())
    made = (await talk.ask("POST", path, configmap("one", a="1"))).json
    for operations, code in (
        (
            [
                {"op": "replace", "path": "/data/a", "value": "2"},
                {"op": "test", "path": "/data/a", "value": "1"},
            ],
            422,
        ),
        ([{"op": "test", "path": "/data/none", "value": "1"}], 422),
        ([{"op": "remove", "path": "/data/none"}], 422),
        ([{"op": "add", "path": "/nothing/deep", "value": "1"}], 422),
        ([{"op": "nonsense", "path": "/data/a"}], 422),
    ):
        answer = await talk.quietly("PATCH", f"{path}/one", operations, content_type=JSON_PATCH)
        # The message comes from the JSON patch library, so it is not compared.
        talk.note({"sent": operations, "code": answer.status, "reason": answer.json.get("reason")})

        assert answer.status == code, operations
    read = await talk.get(f"{path}/one")
    absent = await talk.patch(f"{path}/none", [{"op": "add", "path": "/data", "value": {}}], JSON_PATCH)

    assert read.json == made
    assert absent.status == 404
