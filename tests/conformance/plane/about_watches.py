"""Watches: versions, order, selectors, bookmarks and their end."""

from __future__ import annotations

import itertools
from contextlib import AsyncExitStack

from tests.conformance.plane.registry import check
from tests.conformance.plane.talk import MERGE, Object, Talk
from tests.conformance.plane.things import configmap, configmaps, install_widgets, widget, widgets


def events_of(events: list[Object]) -> list[tuple[str, str]]:
    """Returns type and name of events."""
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


async def version_of(talk: Talk, path: str) -> str:
    """Returns the current version of a list; transcripts call it <from>."""
    version: str = (await talk.quietly("GET", path)).json["metadata"]["resourceVersion"]
    talk.names.literal(f"resourceVersion={version}", "resourceVersion=<from>")
    return version


@check()
async def from_a_list(talk: Talk) -> None:
    """The changes after a list arrive in order, with the objects of that time."""
    path = configmaps(await talk.begin())
    await talk.ask("POST", path, configmap("old", a="0"))
    version = await version_of(talk, path)
    made = (await talk.ask("POST", path, configmap("one", a="1"))).json
    await talk.ask("PUT", f"{path}/one", {**made, "data": {"a": "2"}})
    await talk.ask("DELETE", f"{path}/one")
    async with talk.watching(f"{path}?watch=true&resourceVersion={version}") as watch:
        events = await watch.events(3)
        await talk.ask("DELETE", f"{path}/old")
        last = await watch.events(1)

    assert events_of(events + last) == [
        ("ADDED", "one"),
        ("MODIFIED", "one"),
        ("DELETED", "one"),
        ("DELETED", "old"),
    ]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events + last]
    assert versions == sorted(set(versions))
    assert events[2]["object"]["data"] == {"a": "2"}


@check()
async def live(talk: Talk) -> None:
    """An open watch gets the changes of its namespace only."""
    await install_widgets(talk)
    space = await talk.begin()
    other = f"{space}-b"
    await talk.make("/api/v1/namespaces", {"metadata": {"name": other}})
    path = widgets(space)
    version = await version_of(talk, path)
    async with talk.watching(f"{path}?watch=1&resourceVersion={version}") as watch:
        await talk.make(widgets(other), widget("elsewhere", name="a"))
        made = (await talk.ask("POST", path, widget("one", name="a"))).json
        first = await watch.events(1)
        await talk.patch(f"{path}/one/status", {"status": {"phase": "New"}})
        await talk.patch(f"{path}/one", {"spec": {"name": "b"}})
        await talk.patch(f"{path}/one", {"spec": {"name": "b"}})  # no change, so no event
        await talk.ask("DELETE", f"{path}/one")
        rest = await watch.events(3)

    assert first[0]["object"] == made
    assert events_of(rest) == [("MODIFIED", "one"), ("MODIFIED", "one"), ("DELETED", "one")]


@check()
async def with_a_label_selector(talk: Talk) -> None:
    """An object that starts to match is ADDED, one that stops is DELETED."""
    path = configmaps(await talk.begin())
    version = await version_of(talk, path)
    async with talk.watching(
        f"{path}?watch=true&labelSelector=mine%3Dyes&resourceVersion={version}"
    ) as watch:
        await talk.make(path, configmap("other", {"mine": "no"}), keep=True)
        await talk.make(path, configmap("one", {"mine": "no"}, a="1"), keep=True)
        await talk.quietly(
            "PATCH", f"{path}/one", {"metadata": {"labels": {"mine": "yes"}}}, content_type=MERGE
        )
        await talk.quietly("PATCH", f"{path}/one", {"data": {"a": "2"}}, content_type=MERGE)
        await talk.quietly(
            "PATCH",
            f"{path}/one",
            {"metadata": {"labels": {"mine": "no"}}, "data": {"a": "3"}},
            content_type=MERGE,
        )
        await talk.quietly(
            "PATCH", f"{path}/one", {"metadata": {"labels": {"mine": "yes"}}}, content_type=MERGE
        )
        await talk.quietly("DELETE", f"{path}/one")
        events = await watch.events(5)

    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    assert events[2]["object"]["data"] == {"a": "2"}
    assert events[2]["object"]["metadata"]["labels"] == {"mine": "yes"}


@check()
async def from_any_version(talk: Talk) -> None:
    """Without a version, or from 0, existing objects are ADDED first."""
    path = configmaps(await talk.begin())
    for name in ("a", "b"):
        await talk.make(path, configmap(name))
    async with AsyncExitStack() as stack:
        watches = [
            await stack.enter_async_context(talk.watching(f"{path}?{query}"))
            for query in ("watch=true", "watch=true&resourceVersion=0", "watch=true&resourceVersion=")
        ]
        first = [await watch.events(2) for watch in watches]
        await talk.make(path, configmap("c"))
        last = [await watch.events(1) for watch in watches]

    assert [events_of(events) for events in first] == [[("ADDED", "a"), ("ADDED", "b")]] * 3
    assert [events_of(events) for events in last] == [[("ADDED", "c")]] * 3


@check()
async def ends_in_time(talk: Talk) -> None:
    """timeoutSeconds ends a watch without an error."""
    path = configmaps(await talk.begin())
    version = await version_of(talk, path)
    async with talk.watching(f"{path}?watch=true&timeoutSeconds=1&resourceVersion={version}") as watch:
        events = await watch.rest()

    assert events == []


@check()
async def bookmarks(talk: Talk) -> None:
    """Only watches that request bookmarks get them; a bookmark has a kind and a version."""
    await install_widgets(talk)
    space = await talk.begin()
    other = f"{space}-b"
    await talk.make("/api/v1/namespaces", {"metadata": {"name": other}})
    names = (f"elsewhere-{number}" for number in itertools.count())

    async def watched() -> tuple[list[Object], list[Object], int]:
        query = f"watch=true&timeoutSeconds=3&resourceVersion={await version_of(talk, widgets(space))}"
        path = f"{widgets(space)}?{query}"
        async with talk.watching(f"{path}&allowWatchBookmarks=true") as asking, talk.watching(path) as silent:
            # A bookmark needs a new version, here from an object of another namespace.
            made = await talk.make(widgets(other), widget(next(names), name="a"))
            with talk.unrecorded():
                marks = await asking.rest()
            return marks, await silent.rest(), int(made["metadata"]["resourceVersion"])

    def marked(found: tuple[list[Object], list[Object], int]) -> bool:
        # On a busy machine the watch may end before the version changes.
        return bool(found[0]) and _version(found[0][-1]) >= found[2]

    marks, nothing, made = await talk.at_last(watched, marked)
    # The number of bookmarks depends on the time.
    talk.note({"bookmark": marks[-1]["object"]})

    assert {event["type"] for event in marks} == {"BOOKMARK"}
    assert _version(marks[-1]) >= made
    assert nothing == []


@check()
async def from_a_forgotten_version(talk: Talk) -> None:
    """A compacted version is 410 Expired, sent as an ERROR event.

    A real server compacts after minutes, but it also refuses versions that are older than a CRD.
    """
    await install_widgets(talk)
    path = widgets(await talk.begin())
    await talk.make(path, widget("one", name="a"))
    talk.plane.forget_history()
    await talk.make(path, widget("two", name="a"))
    async with talk.watching(f"{path}?watch=true&resourceVersion=1") as watch:
        with talk.unrecorded():
            events = await watch.rest()
    status = events[0]["object"]
    talk.note(
        {"code": 200, "type": events[0]["type"], "object": {**status, "message": _words(status["message"])}}
    )

    assert [event["type"] for event in events] == ["ERROR"]
    assert (status["code"], status["reason"]) == (410, "Expired")


def _version(event: Object) -> int:
    return int(event["object"]["metadata"]["resourceVersion"])


def _words(text: str) -> str:
    return "".join(letter for letter in text if not letter.isdigit())
