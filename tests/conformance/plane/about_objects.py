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
async def replaced_without_a_version(talk: Talk) -> None:
    """A ConfigMap may be replaced without a version, a custom resource may not."""
    await install_widgets(talk)
    space = await talk.begin()
    await talk.ask("POST", configmaps(space), configmap("one", a="1"))
    blind = await talk.ask("PUT", configmaps(space, "one"), configmap("one", a="2"))
    await talk.ask("POST", widgets(space), widget("one", name="a"))
    refused = await talk.ask("PUT", widgets(space, "one"), widget("one", name="b"))

    assert (blind.status, blind.json["data"]) == (200, {"a": "2"})
    assert (refused.status, refused.json["reason"]) == (422, "Invalid")


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
async def replaced_with_another_uid(talk: Talk) -> None:
    """A PUT with another uid is a Conflict; the server keeps the creation time."""
    path = configmaps(await talk.begin())
    made = (await talk.ask("POST", path, configmap("one"))).json
    other = {**made, "metadata": {**made["metadata"], "uid": NO_UID}}
    refused = await talk.ask("PUT", f"{path}/one", other)
    dated = {
        **made,
        "metadata": {**made["metadata"], "creationTimestamp": "2020-01-01T00:00:00Z"},
        "data": {"a": "1"},
    }
    kept = await talk.ask("PUT", f"{path}/one", dated)

    assert refused.status == 409
    assert kept.json["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]


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
async def kinds_that_do_not_fit(talk: Talk) -> None:
    """apiVersion and kind must match the path; only built-in kinds may omit them."""
    await install_widgets(talk)
    space = await talk.begin()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}}
    for path, body in (
        (configmaps(space), secret),
        (configmaps(space), {**secret, "apiVersion": "v2", "kind": "ConfigMap"}),
        (widgets(space), {"metadata": {"name": "one"}, "spec": {"name": "a"}}),
    ):
        answer = await talk.quietly("POST", path, body)
        # The message names Go types, so it is not compared.
        talk.note({"sent": body, "to": path, "code": answer.status, "reason": answer.json["reason"]})

        assert answer.status == 400
    silent = await talk.ask("POST", configmaps(space), {"metadata": {"name": "one"}, "data": {"a": "b"}})
    gadget = await talk.ask("POST", widgets(space), {**widget("one", name="a"), "kind": "Gadget"})

    assert (silent.json["apiVersion"], silent.json["kind"]) == ("v1", "ConfigMap")
    assert gadget.status == 422


@check()
async def namespaces(talk: Talk) -> None:
    """A namespace is Active and has its name as a label."""
    await talk.begin(labels={"own": "label"})
    read = await talk.get(f"/api/v1/namespaces/{talk.namespace}")
    again = await talk.ask("POST", "/api/v1/namespaces", {"metadata": {"name": talk.namespace}})

    assert read.json["metadata"]["labels"]["kubernetes.io/metadata.name"] == talk.namespace
    assert read.json["status"] == {"phase": "Active"}
    assert again.status == 409


@check()
async def dry_runs_store_nothing(talk: Talk) -> None:
    """dryRun=All answers like a write, and stores nothing."""
    await install_widgets(talk)
    space = await talk.begin()
    path = configmaps(space)
    made = await talk.ask("POST", f"{path}?dryRun=All", configmap("one", a="1"))
    absent = await talk.get(f"{path}/one")
    stored = (await talk.ask("POST", path, configmap("one", a="1"))).json
    twice = await talk.ask("POST", f"{path}?dryRun=All", configmap("one"))
    put = await talk.ask("PUT", f"{path}/one?dryRun=All", {**stored, "data": {"a": "2"}})
    patched = await talk.patch(f"{path}/one?dryRun=All", {"data": {"a": "3"}})
    deleted = await talk.ask("DELETE", f"{path}/one?dryRun=All")
    read = await talk.get(f"{path}/one")
    custom = await talk.ask("POST", f"{widgets(space)}?dryRun=All", widget("one", name="a"))
    wrong = await talk.ask("POST", f"{path}?dryRun=Some", configmap("two"))

    assert (made.status, absent.status, twice.status) == (201, 404, 409)
    assert (put.json["data"], patched.json["data"], deleted.status) == ({"a": "2"}, {"a": "3"}, 200)
    assert read.json == stored
    assert (custom.status, custom.json["spec"]["size"]) == (201, 3)
    assert wrong.status >= 400
