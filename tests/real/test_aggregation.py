"""The adapter behind the real aggregation layer."""

from typing import Any

from testbed.real.plane import Plane
from testbed.stage.processes import Processes
from testbed.stage.registrations import ADAPTER
from testbed.stage.waiting import eventually
from tests.real.settling import kubectl

PODS = "/apis/metrics.k8s.io/v1beta1/pods"


async def test_audit_log_proves_that_metrics_came_through_the_front_proxy(
    plane: Plane, processes: Processes
) -> None:
    """The hub's audit log has a user's request for metrics, answered 200 by the adapter, and the adapter's
    access review for that user.
    """
    user = "metrics-reader"
    async with plane.hub.api() as api:
        await api.apply_all([binding(user)])
    # The hub's authorizer learns of the new binding by a watch. Until then it answers 403 itself.
    answer = await kubectl(plane.hub, plane.hub.as_user(user), "get", "--raw", PODS)

    async def poll() -> list[Any] | None:
        events = list(plane.hub.audit_events())
        asked = [
            e["responseStatus"]["code"]
            for e in events
            if e["user"]["username"] == user and e["requestURI"] == PODS
        ]
        reviewed = any(
            (e.get("objectRef") or {}).get("resource") == "subjectaccessreviews"
            and e["user"]["username"] == ADAPTER
            for e in events
        )
        return asked if 200 in asked and reviewed else None

    assert answer.code == 0, answer.err

    codes = await eventually(poll, what="the request in the audit log", seconds=60, every=1)

    assert codes[-1] == 200


async def test_user_without_rights_is_refused_by_the_adapter(plane: Plane, processes: Processes) -> None:
    """A user without permission to read metrics on the hub gets 403 from the aggregated API."""
    answer = await kubectl(
        plane.hub, plane.hub.as_user("nobody"), "top", "pods", "-A", code=1, words="Forbidden"
    )

    assert answer.code == 1
    assert "Forbidden" in answer.err


def binding(user: str) -> dict[str, Any]:
    """Returns a binding to the role that reads everything, metrics included."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }
