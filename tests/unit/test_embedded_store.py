"""The embedded plane's store: generated names, generations, copies, listeners and history."""

from datetime import UTC, datetime

import pytest

from testbed.embedded.api.types import Object, StatusError
from testbed.embedded.storage.store import Change, Store

CONFIGMAPS = ("", "configmaps")
NOW = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)


def store(**more: int) -> Store:
    return Store(lambda: NOW, **more)


def named(name: str, **fields: object) -> Object:
    return {"metadata": {"name": name, "namespace": "ns"}, **fields}


def test_names_are_generated() -> None:
    """generateName gets five random letters."""
    api = store()
    body: Object = {"metadata": {"generateName": "a-", "namespace": "ns"}}
    names = {api.create(CONFIGMAPS, body)["metadata"]["name"] for _ in range(20)}

    assert len(names) == 20
    assert {len(name) for name in names} == {7}


def test_returned_objects_are_copies() -> None:
    """A change of a returned object does not change the store."""
    api = store()
    api.create(CONFIGMAPS, named("a", data={"n": "1"}))
    api.get(CONFIGMAPS, "ns", "a")["data"]["n"] = "2"
    api.list(CONFIGMAPS)[0]["data"]["n"] = "2"

    assert api.get(CONFIGMAPS, "ns", "a")["data"] == {"n": "1"}


def test_listeners_that_write_keep_the_order() -> None:
    """A listener's own write reaches all listeners after the change that caused it."""
    api = store()
    received: list[str] = []

    def answer(change: Change) -> None:
        if change.name == "a":
            api.create(CONFIGMAPS, named("b"))

    api.subscribe(answer)
    api.subscribe(lambda change: received.append(change.name))
    api.create(CONFIGMAPS, named("a"))

    assert received == ["a", "b"]


def test_history_is_bounded() -> None:
    """A version that is older than the history, or than a compaction, is 410 Expired."""
    api = store(history=2)
    first = int(api.create(CONFIGMAPS, named("a"))["metadata"]["resourceVersion"])
    for name in "bcd":
        api.create(CONFIGMAPS, named(name))
    kept = [change.name for change in api.since(first + 1)]
    with pytest.raises(StatusError) as forgotten:
        api.since(first)
    api.compact()
    with pytest.raises(StatusError) as compacted:
        api.since(first + 3)

    assert kept == ["c", "d"]
    assert (forgotten.value.code, forgotten.value.reason) == (410, "Expired")
    assert compacted.value.code == 410
