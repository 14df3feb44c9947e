"""The controller with the printed rights: it scales, nothing is refused, and more is forbidden."""

import itertools
from typing import Any

from fedhpa.api.rights import ADAPTER, CONTROLLER
from testbed.real.plane import Plane
from testbed.stage.api import PlaneApi
from testbed.stage.processes import Processes
from tests.real.settling import settled
from tests.real.workloads import (
    BUSY,
    SECONDS,
    deployment,
    federated_hpa,
    federated_hpa_path,
    replicas,
    run_everywhere,
    set_usage_everywhere,
)

# Verb, API group, resource, name, namespace.
Question = tuple[str, str, str, str, str]
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
GROUP = "autoscaling.karmada.io"
ALLOWED: tuple[Question, ...] = (
    ("watch", GROUP, "federatedhpas", "", ""),
    ("update", GROUP, "federatedhpas/status", "web", "shop"),
    ("patch", GROUP, "federatedhpas", "web", "shop"),
    ("patch", GROUP, "cronfederatedhpas", "web", "shop"),
    ("patch", GROUP, "cronfederatedhpas/status", "web", "shop"),
    ("update", "cluster.karmada.io", "clusters/status", "member1", ""),
    ("get", "", "secrets", "member1", "karmada-cluster"),
    ("create", "", "events", "", "shop"),
    ("update", "coordination.k8s.io", "leases", "", "kube-system"),
    ("get", "apps", "deployments", "web", "shop"),
    ("update", "apps", "statefulsets/scale", "web", "shop"),
    ("list", "work.karmada.io", "resourcebindings", "", "shop"),
    ("create", "authentication.k8s.io", "tokenreviews", "", ""),
    ("get", "", "namespaces", "kube-system", ""),
    ("list", "", "namespaces", "", ""),
    ("get", "apiextensions.k8s.io", "customresourcedefinitions", f"federatedhpas.{GROUP}", ""),
    ("get", "apiextensions.k8s.io", "customresourcedefinitions", f"cronfederatedhpas.{GROUP}", ""),
)
FORBIDDEN: tuple[Question, ...] = (
    ("update", GROUP, "federatedhpas", "web", "shop"),
    ("delete", GROUP, "federatedhpas", "web", "shop"),
    ("update", "cluster.karmada.io", "clusters", "member1", ""),
    ("get", "", "secrets", "token", "default"),
    ("list", "", "secrets", "", ""),
    ("update", "", "secrets", "member1", "karmada-cluster"),
    ("create", "", "serviceaccounts/token", "default", "karmada-cluster"),
    ("update", "coordination.k8s.io", "leases", "", "shop"),
    ("update", "apps", "deployments", "web", "shop"),
    ("list", "apps", "deployments", "", ""),
    ("list", "", "pods", "", ""),
    ("get", "", "namespaces", "shop", ""),
    ("patch", "", "namespaces", "shop", ""),
    ("list", "", "configmaps", "", ""),
    ("get", "apiextensions.k8s.io", "customresourcedefinitions", "widgets.example.org", ""),
    ("create", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", ""),
)


async def answer(api: PlaneApi, question: Question) -> bool:
    """Returns True if the hub would allow it to the controller."""
    verb, group, resource, name, space = question
    plural, _, sub = resource.partition("/")
    wanted = {"verb": verb, "group": group, "resource": plural, "subresource": sub, "name": name}
    spec = {"user": CONTROLLER, "groups": ["system:authenticated"]}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {**spec, "resourceAttributes": {**wanted, "namespace": space}},
    }
    made = await api.send("POST", REVIEWS, body=review)
    return bool(made["status"]["allowed"])


async def test_the_controller_may_what_it_needs_and_no_more(plane: Plane, processes: Processes) -> None:
    """The testbed has applied the output of `fedhpa rbac controller` for this user."""
    assert processes.ports
    async with plane.hub.api() as api:

        async def answers() -> dict[Question, bool]:
            return {question: await answer(api, question) for question in ALLOWED + FORBIDDEN}

        # The hub's authorizer learns of the roles by a watch.
        found = await settled(answers, lambda found: all(found[question] for question in ALLOWED))

    assert found == dict.fromkeys(ALLOWED, True) | dict.fromkeys(FORBIDDEN, False)


async def test_nothing_is_refused_while_it_scales(plane: Plane, processes: Processes) -> None:
    """With either propagation the workload is scaled, by usage of the members or of the hub. Neither the logs
    nor the audit log of the hub has a missing right. Where Karmada propagates, the members are left to it.
    """
    name, space = "rights", "rights"
    template = f"/apis/apps/v1/namespaces/{space}/deployments/{name}"
    before = {log: len(log.read_bytes()) for log in map(processes.log, processes.ports)}
    earlier = {event["auditID"] for event in plane.hub.audit_events()}
    await set_usage_everywhere(plane, name, space, BUSY)
    await run_everywhere(plane, name, space, replicas=1)
    async with plane.hub.api() as hub:
        await hub.apply_all([federated_hpa(name, space, low=2, high=4)])
        await scaled(hub, federated_hpa_path(name, space))
        await processes.stop(CONTROLLER)
        try:
            await processes.start_one(CONTROLLER, "--propagation=karmada", "--metrics-via=hub")
            await hub.apply_all([deployment(name, space, replicas=2)])
            await hub.wait(
                template,
                lambda found: found["spec"]["replicas"] == 4,
                what="the template is scaled",
                seconds=SECONDS,
            )
            left = await replicas(plane, name, space)
        finally:
            await processes.stop(CONTROLLER)
            await processes.start_one(CONTROLLER)
            await hub.delete(federated_hpa_path(name, space))

    texts = [log.read_bytes()[start:].decode(errors="replace") for log, start in before.items()]
    refusals = [
        line for line in itertools.chain(*(text.splitlines() for text in texts)) if "forbidden" in line
    ]
    refused = [
        (event["user"]["username"], event["verb"], event["requestURI"])
        for event in plane.hub.audit_events()
        if event["auditID"] not in earlier
        and event["user"]["username"] in (CONTROLLER, ADAPTER)
        and (event.get("responseStatus") or {}).get("code") == 403
    ]
    usage = f"/apis/metrics.k8s.io/v1beta1/namespaces/{space}/pods"
    read = [
        event["responseStatus"]["code"]
        for event in plane.hub.audit_events()
        if event["user"]["username"] == CONTROLLER and event["requestURI"].startswith(usage)
    ]
    assert refusals == []
    assert refused == []
    assert 200 in read
    assert left == {"member1": 2, "member2": 2}


async def scaled(hub: PlaneApi, path: str) -> Any:
    """Waits until the status has the highest size."""
    return await hub.wait(
        path,
        lambda found: (found.get("status") or {}).get("currentReplicas") == 4,
        what="the members are scaled",
        seconds=SECONDS,
    )
