"""The roles fedhpa:view and fedhpa:edit add our kinds to view and edit of Kubernetes, and no verb is idle."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from fedhpa.api import rights
from fedhpa.api.rights import Manifest, Switches
from testbed.real.plane import Plane
from testbed.stage import gather
from testbed.stage.api import PlaneApi
from testbed.stage.registrations import cron_that_never_fires
from tests.real.settling import settled
from tests.real.workloads import federated_hpa, namespace

SPACE, NAME = "people", "web"
GROUP = "autoscaling.karmada.io"
BASE = f"/apis/{GROUP}/v1alpha1/namespaces/{SPACE}"
ACCOUNTS = f"/api/v1/namespaces/{SPACE}/serviceaccounts"
PLURALS = ("cronfederatedhpas", "federatedhpas")
READS = ("get", "list", "watch")
CHANGES = ("create", "delete", "deletecollection", "patch", "update")
# The requests that the hub carries out: verb and kind.
Rights = set[tuple[str, str]]
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def roles(without: str = "") -> list[Manifest]:
    """The two roles, without one verb."""
    switches = Switches(aggregate_to_default_roles=True)
    found = rights.hub_rights(switches=switches, components=("users",))
    assert [each["metadata"]["name"] for each in found] == ["fedhpa:view", "fedhpa:edit"]
    for role in found:
        for rule in role["rules"]:
            rule["verbs"] = [verb for verb in rule["verbs"] if verb != without]
        role["rules"] = [rule for rule in role["rules"] if rule["verbs"]]
    return found


def objects() -> dict[str, Manifest]:
    cron = cron_that_never_fires(NAME, SPACE)
    cron["spec"]["rules"][0]["schedule"] = "0 0 1 1 *"
    return {"federatedhpas": federated_hpa(NAME, SPACE, low=1, high=2), "cronfederatedhpas": cron}


class Person:
    """An account with one of Kubernetes' roles in the namespace."""

    def __init__(self, hub: PlaneApi, api: PlaneApi) -> None:
        self._hub = hub
        self._api = api

    async def permitted(self) -> Rights:
        """Tries each verb on each kind, changes as dry runs. Returns those that the hub carries out.

        Raises AssertionError if a call fails and does not name the missing right.
        """
        asked = [(verb, plural) for plural in PLURALS for verb in READS + CHANGES]
        answers = await gather(*(self._attempt(verb, plural) for verb, plural in asked))
        for (verb, plural), (status, text) in zip(asked, answers, strict=True):
            words = f'cannot {verb} resource \\"{plural}\\" in API group \\"{GROUP}\\"'
            assert status < 300 or (status == 403 and words in text), (verb, plural, status, text)
        return {one for one, (status, _) in zip(asked, answers, strict=True) if status < 300}

    async def _attempt(self, verb: str, plural: str) -> tuple[int, str]:
        """Returns status and body of one request."""
        collection, manifest = f"{BASE}/{plural}", objects()[plural]
        path, metadata = f"{collection}/{NAME}", manifest["metadata"]
        method, where, body = {
            "get": ("GET", path, None),
            "list": ("GET", collection, None),
            "watch": ("GET", collection, None),
            "create": ("POST", collection, {**manifest, "metadata": {**metadata, "name": "another"}}),
            "delete": ("DELETE", path, None),
            "deletecollection": ("DELETE", collection, None),
            "patch": ("PATCH", path, {"metadata": {"labels": {"changed": "true"}}}),
            "update": ("PUT", path, manifest),
        }[verb]
        if verb == "update":
            stored = await self._hub.get(path)
            body = {**manifest, "metadata": stored["metadata"]}
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        params = {"watch": {"watch": "true", "timeoutSeconds": "1"}, "get": {}, "list": {}}
        how = params.get(verb, {"dryRun": "All"})
        status, _, answer = await self._api.request(method, where, body=body, content_type=kind, params=how)
        return status, answer.decode()


@asynccontextmanager
async def people(plane: Plane) -> AsyncIterator[tuple[PlaneApi, dict[str, Person]]]:
    """A namespace with one object of each kind, and a person with each of the roles view and edit."""
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(plane.hub.api())
        await hub.apply_all([namespace(SPACE), *objects().values(), *roles()])
        stack.push_async_callback(hub.delete, f"/api/v1/namespaces/{SPACE}")
        for each in roles():
            stack.push_async_callback(hub.delete, f"{RBAC}/clusterroles/{each['metadata']['name']}")
        found = {}
        for role in ("view", "edit"):
            account, binding = rights.account(SPACE, role), {"name": role, "namespace": SPACE}
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
            bound = {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": binding,
                "roleRef": reference,
                "subjects": [rights.service_account(SPACE, role)],
            }
            await hub.apply_all([account, bound])
            api = plane.hub.api(token=await hub.token(SPACE, role))
            found[role] = Person(hub, await stack.enter_async_context(api))
        yield hub, found


def rights_to(verbs: Iterable[str]) -> Rights:
    return set(itertools.product(verbs, PLURALS))


async def test_view_reads_and_edit_changes_our_kinds(plane: Plane) -> None:
    """Without one verb of the two roles exactly its calls are refused, and the hub names the right."""
    async with people(plane) as (hub, found):

        async def granted() -> tuple[Rights, Rights]:
            viewer, editor = await gather(*(found[role].permitted() for role in ("view", "edit")))
            return viewer, editor

        async def becomes(viewer: Iterable[str], editor: Iterable[str]) -> None:
            # kube-controller-manager aggregates the roles, and the authorizer learns of them by a watch.
            expected = rights_to(viewer), rights_to(editor)
            assert await settled(granted, lambda answer: answer == expected, every=0.2) == expected

        await becomes(READS, READS + CHANGES)
        for verb in READS + CHANGES:
            await hub.apply_all(roles(without=verb))
            await becomes(set(READS) - {verb}, {*READS, *CHANGES} - {verb})
