"""Deletion: finalizers, collections, owners and namespaces."""

from __future__ import annotations

from tests.conformance.plane.registry import check
from tests.conformance.plane.talk import Talk
from tests.conformance.plane.things import configmap, configmaps, install_widgets, widget, widgets

FINALIZER = "conformance.test/wait"


@check()
async def waits_for_finalizers(talk: Talk) -> None:
    """A deleted object with a finalizer is MODIFIED, and removed with its last finalizer."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    body = widget("one", name="a")
    body["metadata"]["finalizers"] = [FINALIZER]
    made = (await talk.ask("POST", path, body)).json
    version = made["metadata"]["resourceVersion"]
    talk.names.literal(f"resourceVersion={version}", "resourceVersion=<from>")
    deleted = await talk.ask("DELETE", f"{path}/one")
    again = await talk.ask("DELETE", f"{path}/one")
    changed = await talk.patch(f"{path}/one", {"spec": {"name": "b"}})
    taken = await talk.ask("POST", path, widget("one", name="c"))
    released = await talk.patch(f"{path}/one", {"metadata": {"finalizers": []}})
    gone = await talk.get(f"{path}/one")
    async with talk.watching(f"{path}?watch=true&resourceVersion={version}") as watch:
        events = await watch.events(3)

    assert deleted.json["metadata"]["deletionTimestamp"]
    assert (again.status, changed.status, taken.status) == (200, 200, 409)
    assert (released.status, gone.status) == (200, 404)
    assert [event["type"] for event in events] == ["MODIFIED", "MODIFIED", "DELETED"]


@check()
async def of_what_somebody_owned(talk: Talk) -> None:
    """Owned objects are deleted after their owner."""
    path = configmaps(await talk.begin())
    owner = (await talk.ask("POST", path, configmap("owner"))).json
    owned = configmap("owned")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    owned["metadata"]["ownerReferences"] = [reference]
    await talk.ask("POST", path, owned)
    await talk.ask("DELETE", f"{path}/owner")

    async def gone() -> bool:
        return (await talk.quietly("GET", f"{path}/owned")).status == 404

    assert await talk.eventually(gone)


@check()
async def of_a_namespace(talk: Talk) -> None:
    """A deleted namespace is Terminating until its objects are deleted."""
    space = f"{talk.namespace}-x"
    await talk.make("/api/v1/namespaces", {"metadata": {"name": space}})
    await talk.make(configmaps(space), configmap("one"))
    deleted = await talk.ask("DELETE", f"/api/v1/namespaces/{space}", show=("kind", "status.phase"))

    async def gone() -> bool:
        return (await talk.quietly("GET", f"/api/v1/namespaces/{space}")).status == 404

    await talk.eventually(gone)
    absent = await talk.get(configmaps(space, "one"))
    # The cache of admission may show the namespace as Terminating for a moment longer.
    late = await talk.at_last(
        lambda: talk.ask("POST", configmaps(space), configmap("two")), lambda answer: answer.status == 404
    )

    assert deleted.json["status"]["phase"] == "Terminating"
    assert (absent.status, late.status) == (404, 404)
