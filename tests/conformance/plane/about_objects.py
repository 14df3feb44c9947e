"""Creating, reading, replacing and deleting objects."""

from __future__ import annotations

from tests.conformance.plane.registry import check
from tests.conformance.plane.talk import Talk
from tests.conformance.plane.things import configmap, configmaps, install_widgets, widget, widgets

NO_UID = "11111111-1111-1111-1111-111111111111"


@check()
async def created_read_replaced_deleted(talk: Talk) -> None:
    """An update keeps uid and creation time and changes the version; a deleted object is 404."""
    path = configmaps(await talk.begin())
    made = (await talk.ask("POST", path, configmap("one", a="1"))).json
    read = (await talk.get(f"{path}/one")).json
    replaced = (await talk.ask("PUT", f"{path}/one", {**read, "data": {"a": "2"}})).json
    deleted = await talk.ask("DELETE", f"{path}/one")
    gone = await talk.get(f"{path}/one")

    assert made == read
    assert replaced["metadata"]["uid"] == made["metadata"]["uid"]
    assert replaced["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert replaced["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    assert (deleted.status, deleted.json["status"]) == (200, "Success")
    assert (gone.status, gone.json["reason"]) == (404, "NotFound")


@check()
async def custom_object_created_twice(talk: Talk) -> None:
    """Messages name a custom resource with its group."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    made = await talk.ask("POST", path, widget("one", name="a"))
    again = await talk.ask("POST", path, widget("one", name="a"))
    gone = await talk.get(f"{path}/none")

    assert made.json["metadata"]["generation"] == 1
    assert (again.status, again.json["reason"]) == (409, "AlreadyExists")
    assert gone.status == 404


@check()
async def replaced_with_an_old_version(talk: Talk) -> None:
    """A PUT with an old version is a Conflict and writes nothing."""
    path = configmaps(await talk.begin())
    first = (await talk.ask("POST", path, configmap("one", a="1"))).json
    await talk.ask("PUT", f"{path}/one", {**first, "data": {"a": "2"}})
    late = await talk.ask("PUT", f"{path}/one", {**first, "data": {"a": "3"}})
    read = await talk.get(f"{path}/one")

    assert (late.status, late.json["reason"]) == (409, "Conflict")
    assert read.json["data"] == {"a": "2"}


@check()
async def replaced_by_itself(talk: Talk) -> None:
    """A PUT without a change keeps the version."""
    await install_widgets(talk)
    space = await talk.begin()
    for path, body in (
        (configmaps(space), configmap("one", a="1")),
        (widgets(space), widget("one", name="a")),
    ):
        made = (await talk.ask("POST", path, body)).json
        same = (await talk.ask("PUT", f"{path}/one", made)).json

        assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


@check()
async def namespaces_that_do_not_fit(talk: Talk) -> None:
    """The namespace in the body must be that of the path; writes to an absent namespace are 404."""
    space = await talk.begin()
    body = configmap("one")
    body["metadata"]["namespace"] = "elsewhere"
    mismatch = await talk.ask("POST", configmaps(space), body)
    absent = await talk.ask("POST", configmaps("nowhere"), configmap("one"))
    empty = await talk.get(configmaps("nowhere"))
    none = await talk.get(configmaps("nowhere", "one"))

    assert mismatch.status == 400
    assert (absent.status, absent.json["details"]["kind"]) == (404, "namespaces")
    assert (empty.status, empty.json["items"], none.status) == (200, [], 404)


@check()
async def namespaces(talk: Talk) -> None:
    """A namespace is Active and has its name as a label."""
    await talk.begin(labels={"own": "label"})
    read = await talk.get(f"/api/v1/namespaces/{talk.namespace}")
    again = await talk.ask("POST", "/api/v1/namespaces", {"metadata": {"name": talk.namespace}})

    assert read.json["metadata"]["labels"]["kubernetes.io/metadata.name"] == talk.namespace
    assert read.json["status"] == {"phase": "Active"}
    assert again.status == 409
