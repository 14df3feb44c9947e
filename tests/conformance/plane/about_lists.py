"""Lists: pages, selectors, versions."""

from __future__ import annotations

from urllib.parse import quote

from tests.conformance.plane.registry import check
from tests.conformance.plane.talk import Talk
from tests.conformance.plane.things import (
    configmap,
    configmaps,
    deployment,
    deployments,
    install_widgets,
    names_of,
    widget,
    widgets,
)


async def five(talk: Talk) -> str:
    """Create the ConfigMaps c0 to c4 and return their path."""
    path = configmaps(await talk.begin())
    for number in range(5):
        labels = {"even": str(number % 2 == 0).lower(), "number": str(number)}
        await talk.make(path, configmap(f"c{number}", labels), keep=True)
    return path


@check()
async def items_say_what_they_are(talk: Talk) -> None:
    """Items of custom kinds carry a kind, items of built-in kinds do not."""
    await install_widgets(talk)
    space = await talk.begin()
    await talk.ask("POST", configmaps(space), configmap("one", a="1"))
    await talk.ask("POST", widgets(space), widget("one", name="a"))
    builtin = await talk.get(configmaps(space))
    custom = await talk.get(widgets(space))

    assert "kind" not in builtin.json["items"][0]
    assert custom.json["items"][0]["kind"] == "Widget"


@check()
async def selected_by_labels(talk: Talk) -> None:
    """Every form of a label selector."""
    path = await five(talk)
    await talk.make(path, configmap("bare"), keep=True)
    for selector, expected in (
        ("even=true", ["c0", "c2", "c4"]),
        ("even==true,number=2", ["c2"]),
        ("even!=true", ["bare", "c1", "c3"]),
        ("number in (1, 3,9)", ["c1", "c3"]),
        ("number notin (0,1,2)", ["bare", "c3", "c4"]),
        ("even", ["c0", "c1", "c2", "c3", "c4"]),
        ("!even", ["bare"]),
        ("even=", []),
        ("", ["bare", "c0", "c1", "c2", "c3", "c4"]),
    ):
        answer = await talk.get(f"{path}?labelSelector={quote(selector)}", show=names_of)

        assert [item["metadata"]["name"] for item in answer.json["items"]] == expected, selector


@check()
async def selected_by_fields(talk: Talk) -> None:
    """Every kind can be selected by name and namespace."""
    await install_widgets(talk)
    path = await five(talk)
    space = talk.namespace
    await talk.make(widgets(space), widget("one", name="a"), keep=True)
    await talk.make(deployments(space), deployment("one"), keep=True)
    for target, selector, expected in (
        (path, "metadata.name=c1", ["c1"]),
        (path, "metadata.name=none", []),
        (path, "metadata.name!=c1", ["c0", "c2", "c3", "c4"]),
        (path, f"metadata.namespace={space},metadata.name=c2", ["c2"]),
        ("/api/v1/configmaps", f"metadata.namespace={space},metadata.name=c2", ["c2"]),
        (widgets(space), "metadata.name=one", ["one"]),
        (deployments(space), "metadata.name=two", []),
        ("/api/v1/namespaces", f"metadata.name={space}", [space]),
    ):
        answer = await talk.get(f"{target}?fieldSelector={quote(selector)}", show=names_of)

        assert [item["metadata"]["name"] for item in answer.json["items"]] == expected, selector
