"""Lists: pages, selectors, versions."""

from __future__ import annotations

from urllib.parse import quote

from tests.conformance.plane.registry import check
from tests.conformance.plane.talk import Talk
from tests.conformance.plane.things import (
    configmap,
    configmaps,
    core,
    deployment,
    deployments,
    install_widgets,
    names_of,
    pod,
    widget,
    widgets,
)


async def five(talk: Talk) -> str:
    """Five ConfigMaps, c0 to c4; their path."""
    path = configmaps(await talk.begin())
    for number in range(5):
        labels = {"even": str(number % 2 == 0).lower(), "number": str(number)}
        await talk.make(path, configmap(f"c{number}", labels), keep=True)
    return path


@check()
async def of_nothing(talk: Talk) -> None:
    """An empty collection has an empty list of items, a version and the kind's name."""
    await install_widgets(talk)
    space = await talk.begin()
    for path in (configmaps(space), deployments(space), widgets(space)):
        answer = await talk.get(path)

        assert answer.json["items"] == []
        assert int(answer.json["metadata"]["resourceVersion"]) > 0


@check()
async def items_say_what_they_are(talk: Talk) -> None:
    """Items of built-in kinds carry no kind, those of custom ones do."""
    await install_widgets(talk)
    space = await talk.begin()
    await talk.ask("POST", configmaps(space), configmap("one", a="1"))
    await talk.ask("POST", widgets(space), widget("one", name="a"))
    builtin = await talk.get(configmaps(space))
    custom = await talk.get(widgets(space))

    assert "kind" not in builtin.json["items"][0]
    assert custom.json["items"][0]["kind"] == "Widget"


@check()
async def pages(talk: Talk) -> None:
    """Pages say how many are left, agree in their version, and the last one has no token."""
    path = await five(talk)
    found, query, versions = [], "limit=2", set()
    while True:
        page = (await talk.get(f"{path}?{query}", show=names_of)).json
        found += [item["metadata"]["name"] for item in page["items"]]
        versions.add(page["metadata"]["resourceVersion"])
        if not page["metadata"].get("continue"):
            break
        token = quote(page["metadata"]["continue"])
        talk.names.literal(token, "<continue>")
        query = f"limit=2&continue={token}"

    assert found == ["c0", "c1", "c2", "c3", "c4"]
    assert len(versions) == 1


@check()
async def pages_show_one_moment(talk: Talk) -> None:
    """What is written between two pages is not in the later ones: a list is one moment."""
    path = await five(talk)
    first = (await talk.get(f"{path}?limit=2", show=names_of)).json
    await talk.ask("DELETE", f"{path}/c3")
    await talk.ask("POST", path, configmap("c5"), show=())
    token = quote(first["metadata"]["continue"])
    talk.names.literal(token, "<continue>")
    second = (await talk.get(f"{path}?continue={token}", show=names_of)).json

    assert [item["metadata"]["name"] for item in second["items"]] == ["c2", "c3", "c4"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


@check()
async def pages_of_selected_objects(talk: Talk) -> None:
    """With a selector the pages are of what it selects, and nobody says how many are left."""
    path = await five(talk)
    first = (await talk.get(f"{path}?limit=2&labelSelector=even%3Dtrue", show=names_of)).json
    token = quote(first["metadata"]["continue"])
    talk.names.literal(token, "<continue>")
    second = (
        await talk.get(f"{path}?limit=2&labelSelector=even%3Dtrue&continue={token}", show=names_of)
    ).json

    assert [item["metadata"]["name"] for item in first["items"]] == ["c0", "c2"]
    assert [item["metadata"]["name"] for item in second["items"]] == ["c4"]
    assert "remainingItemCount" not in first["metadata"]


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
    """Name and namespace of everything, and what clients select pods and events by."""
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


@check()
async def pods_by_fields(talk: Talk) -> None:
    """Pods are selected by phase and node."""
    space = await talk.begin()
    await talk.quietly("POST", core("serviceaccounts", space), {"metadata": {"name": "default"}})
    for name, node in (("placed", "some-node"), ("waiting", "")):
        await talk.make(core("pods", space), pod(name, nodeName=node))
        talk.later(f"{core('pods', space, name)}?gracePeriodSeconds=0")
    for selector, expected in (
        ("status.phase=Pending", ["placed", "waiting"]),
        ("status.phase!=Pending", []),
        ("spec.nodeName=some-node", ["placed"]),
        ("spec.nodeName=", ["waiting"]),
    ):
        answer = await talk.get(f"{core('pods', space)}?fieldSelector={quote(selector)}", show=names_of)

        assert [item["metadata"]["name"] for item in answer.json["items"]] == expected, selector


@check()
async def at_a_version(talk: Talk) -> None:
    """resourceVersion=0 is any state, a number is that one or newer; limit=0 is no limit."""
    path = await five(talk)
    now = (await talk.get(path, show=names_of)).json["metadata"]["resourceVersion"]
    talk.names.literal(f"resourceVersion={now}", "resourceVersion=<now>")
    for query in (
        "resourceVersion=0",
        f"resourceVersion={now}",
        f"resourceVersion={now}&resourceVersionMatch=NotOlderThan",
        f"resourceVersion={now}&resourceVersionMatch=Exact",
        "limit=0",
    ):
        answer = await talk.get(f"{path}?{query}", show=names_of)

        assert answer.status == 200
        assert [item["metadata"]["name"] for item in answer.json["items"]][:2] == ["c0", "c1"]


@check()
async def over_all_namespaces(talk: Talk) -> None:
    """A list over namespaces is ordered by NAMESPACE/NAME as one text, so "a-b/" comes before "a/"."""
    await install_widgets(talk)
    space = await talk.begin()
    other = f"{space}-a"
    await talk.make("/api/v1/namespaces", {"metadata": {"name": other}})
    for where, name in ((other, "z"), (space, "b"), (space, "a")):
        await talk.make(widgets(where), widget(name, name="a"))
    answer = await talk.get(
        "/apis/conformance.test/v1/widgets",
        show=lambda body: [
            item["metadata"]["name"]
            for item in body["items"]
            if item["metadata"]["namespace"].startswith(space)
        ],
    )

    mine = [
        item["metadata"] for item in answer.json["items"] if item["metadata"]["namespace"].startswith(space)
    ]
    assert [(meta["namespace"], meta["name"]) for meta in mine] == [(other, "z"), (space, "a"), (space, "b")]
