"""CRDs: defaults, pruning, validation, and their creation and deletion."""

from __future__ import annotations

from tests.conformance.plane.registry import check
from tests.conformance.plane.talk import Talk
from tests.conformance.plane.things import (
    CRDS,
    GROUP,
    crd,
    install,
    install_widgets,
    widget,
    widgets,
)


@check()
async def defaults_and_pruning(talk: Talk) -> None:
    """Defaults are set, also in lists; unknown fields are dropped unless the schema preserves them."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    body = widget(
        "one",
        name="a",
        unknown=1,
        free={"any": {"thing": [1, 2]}},
        parts=[{"kind": "x", "odd": 1}, {"kind": "y", "count": 5}],
        note=None,
        amount="5%",
        labels={"a": "b"},
    )
    made = (await talk.ask("POST", path, {**body, "unknown": 1})).json
    null = await talk.ask("POST", path, widget("two", name="a", size=None))

    assert made["spec"]["size"] == 3
    assert made["spec"]["parts"] == [{"kind": "x", "count": 1}, {"kind": "y", "count": 5}]
    assert "unknown" not in made["spec"]
    assert made["spec"]["free"] == {"any": {"thing": [1, 2]}}
    assert null.json["spec"]["size"] == 3


@check()
async def refusals(talk: Talk) -> None:
    """Every schema rule refuses with 422 and names the field."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    for spec in (
        {"name": "a", "size": "big"},
        {"name": "a", "size": 0},
        {"name": "a", "size": 11},
        {"name": 5},
        {},
        {"name": "a", "colour": "blue"},
        {"name": "aaaaaaaaaaa"},
        {"name": "A"},
        {"name": "a", "tags": ["1", "2", "3", "4"]},
        {"name": "a", "tags": [1, "x"]},
        {"name": "a", "tags": {"no": "list"}},
        {"name": "a", "parts": [{"kind": "x"}, {"count": 1}]},
        {"name": "a", "parts": ["x"]},
        {"name": "a", "labels": {"x": 1}},
        {"name": "a", "wanted": "yes"},
        {"name": "a", "ratio": "half"},
        {"name": "a", "amount": True},
        {"name": None},
        {"name": "A", "size": 0, "colour": "blue"},
    ):
        answer = await talk.ask("POST", path, widget("one", **spec))

        assert (answer.status, answer.json["reason"]) == (422, "Invalid"), spec
        assert answer.json["details"]["causes"]


@check()
async def unknown_fields(talk: Talk) -> None:
    """fieldValidation: Strict refuses unknown fields, Warn reports them, Ignore drops them."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    body = widget("one", name="a", unknown=1, parts=[{"kind": "x", "odd": 1}])
    strict = await talk.ask("POST", f"{path}?fieldValidation=Strict", body)
    warned = await talk.ask("POST", f"{path}?fieldValidation=Warn", body)
    ignored = await talk.ask("POST", f"{path}?fieldValidation=Ignore", widget("two", name="a", unknown=1))
    default = await talk.ask("POST", path, widget("three", name="a", unknown=1))
    patch = {"spec": {"odd": 1}}
    # A real server answers 422 with the whole object in the message.
    patched = await talk.quietly(
        "PATCH", f"{path}/one?fieldValidation=Strict", patch, content_type="application/merge-patch+json"
    )

    assert (strict.status, warned.status, ignored.status) == (400, 201, 201)
    assert patched.status >= 400
    assert len(warned.headers.getall("Warning")) == 2
    assert "Warning" in default.headers
    assert "Warning" not in ignored.headers


@check()
async def come_and_go(talk: Talk) -> None:
    """An Established CRD is discovered and served, until it is deleted."""
    group = f"coming.{GROUP}"
    definition = crd("comets", "Comet", group=group)
    name = f"comets.{group}"
    talk.later(f"{CRDS}/{name}")
    await install(talk, definition)
    made = await talk.get(f"{CRDS}/{name}", show=("metadata.name", "spec.names", "spec.versions", "status"))
    again = await talk.ask("POST", CRDS, definition, say="the same")
    listed = await talk.get(f"/apis/{group}/v1")
    await talk.get(f"/apis/{group}")
    space = await talk.begin()
    path = f"/apis/{group}/v1/namespaces/{space}/comets"
    comet = {"apiVersion": f"{group}/v1", "kind": "Comet", "metadata": {"name": "one"}, "any": {"thing": 1}}
    stored = (await talk.ask("POST", path, comet)).json
    changed = await talk.patch(f"{path}/one", {"any": {"thing": 2}})
    status = await talk.quietly("GET", f"{path}/one/status")
    deleted = await talk.ask("DELETE", f"{CRDS}/{name}", show=())

    async def gone() -> bool:
        return (await talk.quietly("GET", path)).status == 404

    await talk.eventually(gone)

    conditions = {c["type"]: c["status"] for c in made.json["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert again.status == 409
    assert [resource["kind"] for resource in listed.json["resources"]] == ["Comet"]
    assert stored["any"] == {"thing": 1}
    assert (stored["metadata"]["generation"], changed.json["metadata"]["generation"]) == (1, 2)
    assert (status.status, deleted.status) == (404, 200)
