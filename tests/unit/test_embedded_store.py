"""The embedded plane's store: versions, conflicts, finalizers, history."""

from datetime import UTC, datetime

import pytest

from testbed.embedded.api.types import Object, Refusal
from testbed.embedded.storage.store import Change, Store

CONFIGMAPS = ("", "configmaps")
DEPLOYMENTS = ("apps", "deployments")
NOW = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)


def store(**more: int) -> Store:
    return Store(lambda: NOW, **more)


def named(name: str, **fields: object) -> Object:
    return {"metadata": {"name": name, "namespace": "ns"}, **fields}


def test_a_created_object_has_what_the_server_gives() -> None:
    """uid, times, version and generation are the server's, whatever the object brought along."""
    made = store().create(DEPLOYMENTS, {"metadata": {"name": "a", "namespace": "ns", "uid": "mine"}})
    metadata = made["metadata"]

    assert metadata["uid"] != "mine"
    assert (metadata["creationTimestamp"], metadata["generation"]) == ("2026-03-01T12:00:05Z", 1)
    assert metadata["resourceVersion"].isdecimal()


def test_kinds_without_generations_get_none() -> None:
    """Kubernetes counts no generations of ConfigMaps."""
    assert "generation" not in store().create(CONFIGMAPS, named("a"))["metadata"]


def test_names_are_generated() -> None:
    """generateName is completed by five letters, each time others."""
    api = store()
    names = {
        api.create(CONFIGMAPS, {"metadata": {"generateName": "a-", "namespace": "ns"}})["metadata"]["name"]
        for _ in range(20)
    }

    assert len(names) == 20
    assert {len(name) for name in names} == {7}


def test_the_same_name_twice_is_refused() -> None:
    """409 AlreadyExists in Kubernetes' words."""
    api = store()
    api.create(DEPLOYMENTS, named("a"))
    with pytest.raises(Refusal) as caught:
        api.create(DEPLOYMENTS, named("a"))

    assert (caught.value.code, caught.value.reason) == (409, "AlreadyExists")
    assert str(caught.value) == 'deployments.apps "a" already exists'


def test_a_write_on_an_old_version_is_a_conflict() -> None:
    """Who read before somebody else wrote cannot write; without a version everybody can."""
    api = store()
    first = api.create(CONFIGMAPS, named("a", data={"n": "1"}))
    api.update(CONFIGMAPS, {**first, "data": {"n": "2"}})
    with pytest.raises(Refusal) as caught:
        api.update(CONFIGMAPS, {**first, "data": {"n": "3"}})
    api.update(CONFIGMAPS, named("a", data={"n": "4"}))

    assert str(caught.value) == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert api.get(CONFIGMAPS, "ns", "a")["data"] == {"n": "4"}


def test_an_unchanged_object_is_no_new_version() -> None:
    """Writing what is there already tells nobody anything."""
    api = store()
    made = api.create(CONFIGMAPS, named("a", data={"n": "1"}))
    again = api.update(CONFIGMAPS, named("a", data={"n": "1"}))

    assert again == made
    assert api.version == int(made["metadata"]["resourceVersion"])


@pytest.mark.parametrize(
    ("change", "generation"),
    [({"spec": {"replicas": 2}}, 2), ({"status": {"replicas": 1}}, 1), ({}, 1)],
    ids=["spec", "status", "metadata"],
)
def test_generation_counts_changes_of_the_spec_alone(change: Object, generation: int) -> None:
    """Neither status nor labels count."""
    api = store()
    made = api.create(DEPLOYMENTS, named("a", spec={"replicas": 1}))
    made["metadata"]["labels"] = {"a": "b"}
    changed = api.update(DEPLOYMENTS, {**made, **change})

    assert changed["metadata"]["generation"] == generation


def test_finalizers_hold_an_object_until_the_last_is_gone() -> None:
    """Deletion marks it; the write that takes the last finalizer removes it."""
    api = store()
    seen: list[str] = []
    api.subscribe(lambda change: seen.append(change.type))
    api.create(CONFIGMAPS, {"metadata": {"name": "a", "namespace": "ns", "finalizers": ["x/y"]}})
    marked = api.delete(CONFIGMAPS, "ns", "a")
    held = api.find(CONFIGMAPS, "ns", "a") is not None
    del marked["metadata"]["finalizers"]
    api.update(CONFIGMAPS, marked)

    assert marked["metadata"]["deletionTimestamp"] == "2026-03-01T12:00:05Z"
    assert held
    assert api.find(CONFIGMAPS, "ns", "a") is None
    assert seen == ["ADDED", "MODIFIED", "DELETED"]


def test_dry_runs_change_nothing() -> None:
    """They say what would be; nobody is told and no version is used."""
    api = store()
    api.create(CONFIGMAPS, named("a", data={"n": "1"}))
    before = api.version
    api.create(CONFIGMAPS, named("b"), dry_run=True)
    changed = api.update(CONFIGMAPS, named("a", data={"n": "2"}), dry_run=True)
    api.delete(CONFIGMAPS, "ns", "a", dry_run=True)

    assert changed["data"] == {"n": "2"}
    assert [obj["data"] for obj in api.list(CONFIGMAPS)] == [{"n": "1"}]
    assert api.version == before


def test_what_is_handed_out_is_a_copy() -> None:
    """Changing it changes nothing in the store."""
    api = store()
    api.create(CONFIGMAPS, named("a", data={"n": "1"}))
    api.get(CONFIGMAPS, "ns", "a")["data"]["n"] = "2"
    api.list(CONFIGMAPS)[0]["data"]["n"] = "2"

    assert api.get(CONFIGMAPS, "ns", "a")["data"] == {"n": "1"}


def test_listeners_that_write_are_heard_in_order() -> None:
    """What a listener writes is told to all after they heard of what came before."""
    api = store()
    heard: list[str] = []

    def answer(change: Change) -> None:
        if change.name == "a":
            api.create(CONFIGMAPS, named("b"))

    api.subscribe(answer)
    api.subscribe(lambda change: heard.append(change.name))
    api.create(CONFIGMAPS, named("a"))

    assert heard == ["a", "b"]


def test_history_is_bounded() -> None:
    """What is older than the history is 410, as is everything after a compaction."""
    api = store(history=2)
    first = int(api.create(CONFIGMAPS, named("a"))["metadata"]["resourceVersion"])
    for name in "bcd":
        api.create(CONFIGMAPS, named(name))
    kept = [change.name for change in api.since(first + 1)]
    with pytest.raises(Refusal) as forgotten:
        api.since(first)
    api.compact()
    with pytest.raises(Refusal) as compacted:
        api.since(first + 3)

    assert kept == ["c", "d"]
    assert (forgotten.value.code, forgotten.value.reason) == (410, "Expired")
    assert str(forgotten.value) == f"too old resource version: {first} ({first + 1})"
    assert compacted.value.code == 410


def test_the_past_can_be_listed() -> None:
    """A list of an earlier version has neither what came later nor what was changed or deleted since."""
    api = store()
    api.create(CONFIGMAPS, named("a", data={"n": "1"}))
    api.create(CONFIGMAPS, named("b"))
    version = api.version
    api.update(CONFIGMAPS, named("a", data={"n": "2"}))
    api.delete(CONFIGMAPS, "ns", "b")
    api.create(CONFIGMAPS, named("c"))
    then = [(obj["metadata"]["name"], obj.get("data")) for obj in api.at(CONFIGMAPS, version)]

    assert then == [("a", {"n": "1"}), ("b", None)]
