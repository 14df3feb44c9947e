"""The status and scale subresources, and generations."""

from __future__ import annotations

from tests.conformance.plane.registry import check
from tests.conformance.plane.talk import MERGE, STRATEGIC, Talk
from tests.conformance.plane.things import (
    deployment,
    deployments,
    install_widgets,
    widget,
    widgets,
)

SCALE = ("metadata.generation", "spec.replicas", "spec.paused", "status.replicas", "metadata.labels")


@check()
async def scale_of_a_deployment(talk: Talk) -> None:
    """A Scale has name, uid, version, replicas and the selector as text."""
    path = deployments(await talk.begin())
    made = (await talk.ask("POST", path, deployment("web", replicas=2), show=SCALE)).json
    read = (await talk.get(f"{path}/web/scale")).json
    written = await talk.ask("PUT", f"{path}/web/scale", {**read, "spec": {"replicas": 3}})
    late = await talk.ask("PUT", f"{path}/web/scale", {**read, "spec": {"replicas": 4}})
    after = await talk.get(f"{path}/web", show=SCALE)

    assert read["metadata"]["uid"] == made["metadata"]["uid"]
    assert (read["spec"], read["status"]) == ({"replicas": 2}, {"replicas": 0, "selector": "app=web"})
    assert (written.status, late.status, late.json["reason"]) == (200, 409, "Conflict")
    assert (after.json["spec"]["replicas"], after.json["metadata"]["generation"]) == (3, 2)


@check()
async def status_of_a_deployment(talk: Talk) -> None:
    """A write to /status changes only the status and no generation; other writes keep the status."""
    path = deployments(await talk.begin())
    made = (await talk.ask("POST", path, deployment("web"), show=SCALE)).json
    status = {"replicas": 2, "observedGeneration": 1}
    body = {**made, "spec": {**made["spec"], "replicas": 9}, "status": status}
    through = await talk.ask(
        "PUT", f"{path}/web/status", body, show=SCALE, say={"spec": "replicas 9", "status": status}
    )
    patched = await talk.patch(
        f"{path}/web/status", {"status": {"replicas": 3}, "spec": {"replicas": 9}}, show=SCALE
    )
    merged = await talk.patch(f"{path}/web/status", {"status": {"replicas": 1}}, STRATEGIC, show=SCALE)
    plain = await talk.patch(f"{path}/web", {"status": {"replicas": 7}}, show=SCALE)
    scale = await talk.get(f"{path}/web/scale")

    assert [answer.json["spec"]["replicas"] for answer in (through, patched, merged, plain)] == [2, 2, 2, 2]
    assert [answer.json["status"]["replicas"] for answer in (through, patched, merged, plain)] == [2, 3, 1, 1]
    assert plain.json["metadata"]["generation"] == 1
    assert scale.json["status"]["replicas"] == 1


@check()
async def scale_of_a_custom_object(talk: Talk) -> None:
    """The CRD's paths define the Scale of a custom resource."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    await talk.ask("POST", path, widget("one", name="a", replicas=2))
    await talk.patch(f"{path}/one/status", {"status": {"replicas": 1, "selector": "app=one"}})
    read = (await talk.get(f"{path}/one/scale")).json
    written = await talk.ask("PUT", f"{path}/one/scale", {**read, "spec": {"replicas": 5}})
    late = await talk.ask("PUT", f"{path}/one/scale", {**read, "spec": {"replicas": 6}})
    patched = await talk.patch(f"{path}/one/scale", {"spec": {"replicas": 7}})
    after = await talk.get(f"{path}/one")
    negative = await talk.quietly(
        "PATCH", f"{path}/one/scale", {"spec": {"replicas": -1}}, content_type=MERGE
    )
    # A real server reports two causes.
    talk.note({"replicas": -1, "code": negative.status, "reason": negative.json["reason"]})

    assert (read["spec"], read["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "app=one"})
    assert (written.json["spec"], late.status, patched.status) == ({"replicas": 5}, 409, 200)
    assert after.json["spec"]["replicas"] == 7
    assert after.json["metadata"]["generation"] == 3
    assert negative.status == 422
