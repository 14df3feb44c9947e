"""A hub with ClusterProfiles alone, or with Argo CD's Secrets: no Cluster, no CRD of it, and no Karmada.

The CRD and the plugin `secretreader` are those of SIG Multicluster's module. Controller and adapter have no
right to Clusters, and each its own provider file.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedhpa.api import rights
from fedhpa.api.member_sources import MemberSources
from testbed.real.assets import module_sources
from testbed.real.member import Member
from testbed.real.plane import Plane
from testbed.real.tools import TOOLS
from testbed.stage import gather, has_condition
from testbed.stage.processes import CONTROLLER, Processes
from testbed.stage.registrations import ADAPTER, member_rights, namespace
from tests.real.workloads import (
    BUSY,
    IDLE,
    SECONDS,
    federated_hpa,
    federated_hpa_path,
    replicas_settle,
    run_everywhere,
    set_usage_everywhere,
    until_total,
)
from tests.support.nightly import only_at_night

SPACE, NAME = "fleet-shop", "web"
PROFILES, ARGOCD = "fleet", "argocd"
# The plugin reads the Secrets in the namespace of its kubeconfig's context.
HOME = "default"
PROFILE_PATH = f"/apis/multicluster.x-k8s.io/v1alpha1/namespaces/{PROFILES}/clusterprofiles"
SCALER = federated_hpa_path(NAME, SPACE)
LOW, HIGH = 2, 6
SPREAD = {"member1": 3, "member2": 3}


class OthersPlane(Plane):
    """A plane on which nobody has registered a member. The hub serves ClusterProfiles, and no Clusters."""

    async def start(self) -> None:
        """Starts all control planes and applies the CRDs."""
        try:
            await gather(self.hub.start(), *(member.start() for member in self.members.values()))
            own = [one for one in await self._printed_crds() if one["spec"]["names"]["kind"] != "Cluster"]
            tool = next(tool for tool in TOOLS if tool.name == "secretreader")
            file = module_sources(tool) / "config/crd/bases/multicluster.x-k8s.io_clusterprofiles.yaml"
            crds = [*own, yaml.safe_load(file.read_text(encoding="utf-8"))]
            async with self.hub.api() as api:
                await api.apply_all([*crds, *map(namespace, (PROFILES, ARGOCD, SPACE))])
                for one in crds:
                    path = (
                        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + one["metadata"]["name"]
                    )
                    served = functools.partial(has_condition, kind="Established")
                    await api.wait(path, served, what=f"CRD {path} is served", seconds=120)
        except BaseException:
            self.end()
            raise


def sources(kind: str) -> MemberSources:
    """Returns the sources as the rights depend on them."""
    names = ("member1", "member2")
    return MemberSources(
        (kind,),
        HOME,
        profile_namespaces=(PROFILES,),
        argocd_secrets=names,
        argocd_own_tokens=True,
        plugin_secrets=names,
        adapter_plugin_secrets=names,
    )


def flags(plane: Plane, process: str, kind: str) -> list[str]:
    """Returns the flags of a process, and writes its provider file."""
    kubeconfig = plane.hub.user_kubeconfig(process)
    entry = {
        "name": "secretreader",
        "execConfig": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(plane.assets / "secretreader"),
            "env": [{"name": "KUBECONFIG", "value": str(kubeconfig)}],
            "provideClusterInfo": True,
        },
        "servers": ["127.0.0.1"],
    }
    file = plane.run.folder / f"{process}-providers.json"
    file.write_text(json.dumps({"providers": [entry]}), encoding="utf-8")
    own = ["--argocd-use-own-tokens"] if process == ADAPTER else []
    return [
        f"--members-from={kind}",
        f"--members-namespace={HOME}",
        f"--clusterprofile-namespaces={PROFILES}",
        f"--clusterprofile-provider-file={file}",
        "--argocd-secrets=member1,member2",
        "--argocd-servers=127.0.0.1",
        *own,
    ]


def roles(kind: str) -> list[dict[str, Any]]:
    """Returns the rights of controller and adapter, who are users of the hub."""
    switches = rights.Switches("direct", sources=sources(kind))
    found = []
    for user, component in ((CONTROLLER, "controller"), (ADAPTER, "metrics-adapter")):
        found += rights.hub_rights(
            HOME,
            lease_namespace="kube-system",
            user_name=user,
            switches=switches,
            components=(component,),
        )
    return found


def described(member: Member) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the ClusterProfile of a member, and the status that its manager would write."""
    name = member.name
    cluster = {
        "server": member.server,
        "certificate-authority-data": base64.b64encode(member.pki.ca.bundle_pem).decode(),
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"clusterName": name}}],
    }
    made = {
        "apiVersion": "multicluster.x-k8s.io/v1alpha1",
        "kind": "ClusterProfile",
        "metadata": {"name": name, "namespace": PROFILES},
        "spec": {"displayName": name, "clusterManager": {"name": "test"}},
    }
    return made, {"accessProviders": [{"name": "secretreader", "cluster": cluster}]}


async def put_profile(plane: Plane, name: str) -> None:
    """Creates the ClusterProfile of a member."""
    made, status = described(plane.members[name])
    async with plane.hub.api() as api:
        await api.apply(made)
        stored = await api.get(f"{PROFILE_PATH}/{name}")
        await api.send("PUT", f"{PROFILE_PATH}/{name}/status", body={**stored, "status": status})


async def put_token(plane: Plane, name: str, token: str) -> None:
    """Writes the Secret that the plugin reads."""
    data = {"token": base64.b64encode(token.encode()).decode()}
    metadata = {"name": name, "namespace": HOME}
    async with plane.hub.api() as api:
        await api.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


async def mortal_token(member: Member) -> str:
    """Returns a token of the hub's account that ends with the Secret `bound` in the member."""
    bound = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "bound", "namespace": rights.NAMESPACE},
    }
    reference = {"apiVersion": "v1", "kind": "Secret", "name": "bound"}
    async with member.api() as api:
        await api.apply_all([*member_rights(), bound])
        return await api.token(
            rights.NAMESPACE, rights.MEMBER, expirationSeconds=3600, boundObjectRef=reference
        )


async def end_token(member: Member) -> None:
    """Ends the token of `mortal_token` at once."""
    async with member.api() as api:
        await api.delete(f"/api/v1/namespaces/{rights.NAMESPACE}/secrets/bound")


@pytest.fixture(scope="module")
def others(assets: Path) -> Iterator[Plane]:
    """The hub, two members, and their tokens on the hub."""
    plane = OthersPlane(assets)
    try:

        async def start() -> None:
            await plane.start()
            await plane.metrics_work()
            for name, member in plane.members.items():
                await put_token(plane, name, (await member.credentials()).token)

        asyncio.run(start())
        yield plane
    finally:
        plane.end()


@pytest.fixture(scope="module")
def running(others: Plane) -> Processes:
    """All three processes, with members from ClusterProfiles."""
    processes = Processes(
        others,
        adapter_flags=["--metrics-max-age=1s", *flags(others, ADAPTER, "clusterprofiles")],
        controller_flags=flags(others, CONTROLLER, "clusterprofiles"),
    )

    async def start() -> None:
        async with others.hub.api() as api:
            await api.apply_all(roles("clusterprofiles"))
        for name in others.members:
            await put_profile(others, name)
        await processes.start()
        async with others.hub.api() as api:
            await api.apply_all(roles("clusterprofiles"))  # the others of this suite have rights to Clusters

    asyncio.run(start())
    return processes


async def use(plane: Plane, processes: Processes, kind: str) -> None:
    """Starts controller and adapter anew with members of this kind. The tests run in any order."""
    async with plane.hub.api() as api:
        await api.apply_all(roles(kind))
    for process in (CONTROLLER, ADAPTER):
        await processes.stop(process)
        await processes.start_one(process, *flags(plane, process, kind))


def state(found: dict[str, Any], cluster: str) -> str:
    """Returns the state of a cluster in a status."""
    entries = (found.get("status") or {}).get("clusters") or ()
    return next((one.get("state", "Answered") for one in entries if one["name"] == cluster), "")


async def test_cluster_profiles_alone(others: Plane, running: Processes) -> None:
    """Load up and down, a token that ends, a profile that goes, and one that comes."""
    await set_usage_everywhere(others, NAME, SPACE, BUSY)
    await run_everywhere(others, NAME, SPACE, replicas=1)
    await use(others, running, "clusterprofiles")
    async with others.hub.api() as hub:
        await hub.apply_all([federated_hpa(NAME, SPACE, low=LOW, high=HIGH)])
        assert await replicas_settle(others, NAME, SPACE, SPREAD) == SPREAD

        # The token in use ends. The plugin is run again after the 401, and finds the next one.
        member2 = others.members["member2"]
        await put_token(others, "member2", await mortal_token(member2))
        await use(others, running, "clusterprofiles")
        await end_token(member2)
        await put_token(others, "member2", (await member2.credentials()).token)
        await set_usage_everywhere(others, NAME, SPACE, IDLE)
        await until_total(others, NAME, SPACE, LOW)
        await set_usage_everywhere(others, NAME, SPACE, BUSY)
        assert await replicas_settle(others, NAME, SPACE, SPREAD) == SPREAD

        await hub.delete(f"{PROFILE_PATH}/member2")
        await hub.wait(SCALER, lambda found: state(found, "member2") == "Lost", what="Lost", seconds=SECONDS)
        moved = {"member1": 6, "member2": 3}
        assert await replicas_settle(others, NAME, SPACE, moved) == moved
        events = await hub.get(f"/api/v1/namespaces/{SPACE}/events")
        assert "SourceGone" in {one["reason"] for one in events["items"]}

        await put_profile(others, "member2")
        await hub.wait(
            SCALER, lambda found: state(found, "member2") == "Answered", what="Answered", seconds=SECONDS
        )
        noted = await hub.get(f"/api/v1/namespaces/{HOME}/configmaps/fedhpa-servers")
        assert json.loads(noted["data"]["member2"])["server"] == member2.server
        usage = await hub.get(f"/apis/metrics.k8s.io/v1beta1/namespaces/{SPACE}/pods")
        annotations = [one["metadata"]["annotations"] for one in usage["items"]]
        names = {one["resource.karmada.io/query-from-cluster"] for one in annotations}
        assert names == {"member1", "member2"}
        await hub.delete(SCALER)


async def put_secret(plane: Plane, name: str, token: str) -> None:
    """Writes the cluster Secret of a member, as Argo CD does."""
    found = await plane.members[name].credentials()
    authority = base64.b64encode(found.ca_bundle).decode()
    config = {"bearerToken": token, "tlsClientConfig": {"caData": authority}}
    texts = {"name": name, "server": plane.members[name].server, "config": json.dumps(config)}
    labels = {"argocd.argoproj.io/secret-type": "cluster"}
    metadata = {"name": name, "namespace": ARGOCD, "labels": labels}
    async with plane.hub.api() as hub:
        await hub.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": texts})


@only_at_night
async def test_argo_cds_secrets(others: Plane, running: Processes) -> None:
    """The same with Argo CD: load up and down, a token that ends, a Secret that goes, and one that comes."""
    await set_usage_everywhere(others, NAME, SPACE, BUSY)
    await run_everywhere(others, NAME, SPACE, replicas=1)
    member2 = others.members["member2"]
    for name, member in others.members.items():
        await put_secret(others, name, (await member.credentials()).token)
    await put_secret(others, "member2", await mortal_token(member2))
    await use(others, running, "argocd")
    async with others.hub.api() as hub:
        await hub.apply_all([federated_hpa(NAME, SPACE, low=LOW, high=HIGH)])
        assert await replicas_settle(others, NAME, SPACE, SPREAD) == SPREAD

        await end_token(member2)
        await put_secret(others, "member2", (await member2.credentials()).token)
        await set_usage_everywhere(others, NAME, SPACE, IDLE)
        await until_total(others, NAME, SPACE, LOW)

        await hub.delete(f"/api/v1/namespaces/{ARGOCD}/secrets/member2")
        await hub.wait(SCALER, lambda found: state(found, "member2") == "Lost", what="Lost", seconds=SECONDS)
        await put_secret(others, "member2", (await member2.credentials()).token)
        await hub.wait(
            SCALER, lambda found: state(found, "member2") == "Answered", what="Answered", seconds=SECONDS
        )
        await set_usage_everywhere(others, NAME, SPACE, BUSY)
        assert await replicas_settle(others, NAME, SPACE, SPREAD) == SPREAD
        await hub.delete(SCALER)
