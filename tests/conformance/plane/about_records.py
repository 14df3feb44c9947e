"""Leases and Events as the product writes them."""

from __future__ import annotations

from tests.conformance.plane.registry import check
from tests.conformance.plane.talk import Object, Talk
from tests.conformance.plane.things import core, names_of


def lease(holder: str) -> Object:
    """Returns a Lease as leader election writes it."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "leader"},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "acquireTime": "2020-01-02T03:04:05.000000Z",
            "renewTime": "2020-01-02T03:04:05.120000Z",
            "leaseTransitions": 0,
        },
    }


def event(name: str, **changes: object) -> Object:
    """Returns an Event as the event recorder writes it."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name},
        "involvedObject": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": "web",
            "namespace": "<own>",
        },
        "type": "Normal",
        "reason": "Scaled",
        "message": "scaled",
        "source": {"component": "conformance"},
        "reportingComponent": "conformance",
        "reportingInstance": "conformance-0",
        "firstTimestamp": "2020-01-02T03:04:05Z",
        "lastTimestamp": "2020-01-02T03:04:05Z",
        "count": 1,
        **changes,
    }


@check()
async def leases(talk: Talk) -> None:
    """Times keep their microseconds; a renewal with an old version is a Conflict."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{await talk.begin()}/leases"
    made = (await talk.ask("POST", path, lease("a"))).json
    again = await talk.ask("POST", path, lease("b"))
    renewed = {**made["spec"], "renewTime": "2020-01-02T03:04:07.000001Z"}
    mine = await talk.ask("PUT", f"{path}/leader", {**made, "spec": renewed})
    taken = await talk.ask("PUT", f"{path}/leader", {**made, "spec": {**renewed, "holderIdentity": "b"}})
    released = {**mine.json, "spec": {**renewed, "holderIdentity": "", "leaseDurationSeconds": 1}}
    free = await talk.ask("PUT", f"{path}/leader", released)
    listed = await talk.get(path, show=names_of)

    assert made["spec"]["renewTime"] == "2020-01-02T03:04:05.120000Z"
    assert (again.status, mine.status, taken.status, free.status) == (409, 200, 409, 200)
    assert [item["metadata"]["name"] for item in listed.json["items"]] == ["leader"]


@check()
async def events(talk: Talk) -> None:
    """Events are created, counted by patches, and selected by their involved object."""
    space = await talk.begin()
    path = core("events", space)
    body = event("web.1")
    body["involvedObject"]["namespace"] = space
    other = event("other.1", reason="Other", type="Warning")
    other["involvedObject"] |= {"namespace": space, "name": "other"}
    made = await talk.ask("POST", path, body)
    await talk.ask("POST", path, other)
    again = await talk.ask("POST", path, body)
    counted = await talk.patch(
        f"{path}/web.1", {"count": 2, "lastTimestamp": "2020-01-02T03:05:05Z", "message": "scaled"}
    )
    absent = await talk.patch(f"{path}/web.9", {"count": 2})
    for selector, expected in (
        ("involvedObject.name=web", ["web.1"]),
        ("involvedObject.kind=Deployment", ["other.1", "web.1"]),
        ("reason=Other", ["other.1"]),
        ("type=Warning", ["other.1"]),
        (f"involvedObject.namespace={space},involvedObject.name=other", ["other.1"]),
    ):
        found = await talk.get(
            f"{path}?fieldSelector={selector.replace('=', '%3D').replace(',', '%2C')}", show=names_of
        )

        assert [item["metadata"]["name"] for item in found.json["items"]] == expected
    assert (made.status, again.status, absent.status) == (201, 409, 404)
    assert (counted.json["count"], counted.json["lastTimestamp"]) == (2, "2020-01-02T03:05:05Z")
