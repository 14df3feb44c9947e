"""Warnings about other objects, from a webhook that reads an embedded hub over TLS."""

from __future__ import annotations

import gc
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDictProxy

from certs import CertificateAuthority
from fedhpa.admission import crd
from fedhpa.api import rights
from fedhpa.api.errors import ConfigError
from testbed.embedded.controlplane import ControlPlane
from testbed.stage.api import PlaneApi
from testbed.stage.waiting import eventually as soon
from tests.support.admission import Client, running
from tests.support.embedded_plane import have_patience, with_timeout
from tests.support.fakeapi import PATIENCE, eventually
from tests.support.plane_faults import Fault, faults_of, may_fail
from webhook.registration import Endpoint, configurations

Object = dict[str, Any]
KINDS = ("FederatedHPA", "CronFederatedHPA", "HorizontalPodAutoscaler")
AUTOSCALING = "autoscaling.karmada.io/v1alpha1"
WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
RULE = {"name": "r", "schedule": "0 8 * * *", "timeZone": "Europe/Berlin"}
MISSING = 'spec.scaleTargetRef: Deployment "web" does not exist in namespace "default"'


def made(kind: str, name: str, api_version: str = AUTOSCALING, **spec: Any) -> Object:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def fhpa(name: str, target: Object = WEB, **spec: Any) -> Object:
    return made("FederatedHPA", name, scaleTargetRef=target, **{"maxReplicas": 3, **spec})


def cron(name: str, target: Object = WEB, *rules: Object) -> Object:
    return made(
        "CronFederatedHPA", name, scaleTargetRef=target, rules=rules or [{**RULE, "targetReplicas": 2}]
    )


def hpa(name: str) -> Object:
    return made("HorizontalPodAutoscaler", name, "autoscaling/v2", scaleTargetRef=WEB, maxReplicas=3)


def deployment() -> Object:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "none"}]}}
    return made(
        "Deployment", "web", "apps/v1", replicas=1, selector={"matchLabels": labels}, template=template
    )


# A call that is cancelled during a TLS handshake leaves its transport to the next turn of the loop. The test
# ends before that turn, so the collector closes the socket. The fixture below makes it do so here.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    have_patience(monkeypatch)


@pytest.fixture(autouse=True)
def _garbage_stays_here() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[ControlPlane]:
    plane = ControlPlane(tmp_path / "hub", "hub")
    may_fail(plane)
    await plane.start()
    try:
        async with plane.api() as api:
            await api.apply_all(
                [crd.custom_resource_definition(one) for one in (crd.FEDERATED_HPA, crd.CRON_FEDERATED_HPA)]
            )
            await api.apply_all(
                rights.rights_of("webhook", rights.user("fedhpa-webhook"), rights.Switches("karmada"))
            )
        yield plane
    finally:
        await plane.end()


@asynccontextmanager
async def admitting(plane: ControlPlane, folder: Path, *flags: str) -> AsyncIterator[Client]:
    """Yields a registered webhook with the least permissions, whose copies of the hub are current."""
    authority = CertificateAuthority.create("admission tests")
    kubeconfig = plane.user_kubeconfig("fedhpa-webhook")
    flags = (f"--kubeconfig={kubeconfig}", "--propagation=karmada", *flags)
    async with running(folder, authority, *flags) as client:
        async with plane.api() as api:
            await api.apply_all(with_timeout(configurations(Endpoint(url=client.url), authority.bundle_pem)))
        if "--cross-object-warnings=off" not in flags:
            await eventually(lambda: all(current(client, kind) for kind in KINDS))
        yield client


@pytest.fixture
async def client(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Client]:
    async with admitting(plane, tmp_path) as client:
        yield client


@pytest.fixture
async def hub(plane: ControlPlane) -> AsyncIterator[PlaneApi]:
    async with plane.api() as api:
        yield api


def current(client: Client, kind: str) -> bool:
    return client.sample("fedhpa_admission_hub_current", kind=kind) == 1


async def warned(hub: PlaneApi, obj: Object) -> list[str]:
    """Returns the Warning headers of a dry run, as kubectl shows them. The object must be admitted."""
    path = await hub.path_of(obj)
    stored = await hub.find(path)
    method, path = ("POST", path.rpartition("/")[0]) if stored is None else ("PUT", path)
    body = obj if stored is None else {**stored, "spec": obj["spec"]}
    status, headers, answer = await hub.request(method, path, body=body, params={"dryRun": "All"})
    assert status in (200, 201), answer
    assert isinstance(headers, CIMultiDictProxy)
    return [
        re.sub(r"\\(.)", r"\1", text.removeprefix('299 - "').removesuffix('"'))
        for text in headers.getall("Warning", [])
    ]


async def known(client: Client, *names: str) -> None:
    """Waits until the webhook knows autoscalers of these names."""
    hub = client.webhook.warnings.hub
    assert hub is not None

    def seen() -> set[str]:
        return {name for reflector in hub.reflectors.values() for _, name in reflector.store}

    await eventually(lambda: set(names) <= seen())


async def test_competing_autoscalers_are_named(client: Client, hub: PlaneApi) -> None:
    """They are an HPA and another FederatedHPA. A CronFederatedHPA of the FederatedHPA is not one."""
    target = {"apiVersion": AUTOSCALING, "kind": "FederatedHPA", "name": "mine"}
    calendar = cron("calendar", target, {**RULE, "targetMinReplicas": 2})
    await hub.apply_all([deployment(), fhpa("mine"), fhpa("theirs"), hpa("plain"), calendar])
    await known(client, "mine", "theirs", "plain", "calendar")

    assert await warned(hub, fhpa("mine")) == [
        (
            'spec.scaleTargetRef: Deployment "web" is the target of FederatedHPA "theirs" and '
            'HorizontalPodAutoscaler "plain" too; they will overwrite one another'
        )
    ]
    assert not any("overwrite" in text for text in await warned(hub, calendar))
    assert any('FederatedHPA "mine"' in text for text in await warned(hub, cron("direct")))


async def test_a_missing_target_gets_a_warning(client: Client, hub: PlaneApi) -> None:
    """The warning ends when the target exists."""

    async def warnings() -> list[str] | None:
        # An answer of the hub that is too late for one request is cached for the next.
        return await warned(hub, fhpa("mine")) or None

    async def silent() -> bool:
        return await warned(hub, fhpa("mine")) == []

    before = await soon(warnings, what="the missing Deployment is named", seconds=PATIENCE)
    await hub.apply(deployment())

    assert before == [MISSING]
    await soon(silent, what="the Deployment is noticed", seconds=PATIENCE)


async def test_a_cronfederatedhpa_is_compared_with_its_federatedhpa(client: Client, hub: PlaneApi) -> None:
    """A missing one gets a warning, and so does a minimum above the maximum of a present one."""
    target = {"apiVersion": AUTOSCALING, "kind": "FederatedHPA", "name": "mine"}
    calendar = cron("calendar", target, {**RULE, "targetMinReplicas": 5})

    missing = await warned(hub, calendar)
    await hub.apply(fhpa("mine"))
    await known(client, "mine")
    present = await warned(hub, calendar)

    assert missing[0] == 'spec.scaleTargetRef: FederatedHPA "mine" does not exist in namespace "default"'
    assert not any("does not exist" in text for text in present)
    assert any("minReplicas 5, above the maxReplicas 3" in text for text in present)


async def test_targets_are_not_checked_with_direct_propagation(plane: ControlPlane, tmp_path: Path) -> None:
    """The targets are only in the members then, and not on the hub."""
    async with admitting(plane, tmp_path, "--propagation=direct"), plane.api() as hub:
        await hub.apply(hpa("plain"))

        assert MISSING not in await warned(hub, fhpa("mine"))


async def test_a_hanging_or_absent_hub_delays_no_verdict(
    plane: ControlPlane, client: Client, hub: PlaneApi
) -> None:
    """The verdict has no warnings, and the webhook stays ready. It recovers together with the hub."""
    review = {"request": {"uid": "1", "object": fhpa("mine")}}
    await faults_of(plane).set(Fault.HANG, "/apis/apps")
    hanging = await client.post("/validate-federatedhpa", json=review)
    await faults_of(plane).set(Fault.REFUSE)
    gone = await client.post("/validate-federatedhpa", json=review)
    ready = await client.get("/readyz")
    await faults_of(plane).clear(Fault.REFUSE)
    await faults_of(plane).clear(Fault.HANG)

    assert hanging["allowed"]
    assert "warnings" not in hanging
    assert gone["allowed"]
    assert ready == (200, "ok")
    await eventually(lambda: all(current(client, kind) for kind in KINDS))


async def test_an_outdated_copy_gives_no_warnings(
    client: Client, hub: PlaneApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No warning is better than a wrong one."""
    await hub.apply_all([deployment(), hpa("plain")])
    await known(client, "plain")
    reader = client.webhook.warnings.hub
    assert reader is not None
    monkeypatch.setattr(reader, "knows", lambda kind: kind != "HorizontalPodAutoscaler")

    assert await warned(hub, fhpa("mine")) == []


async def test_the_hub_is_not_read_unless_the_flags_say_so(plane: ControlPlane, tmp_path: Path) -> None:
    """With warnings switched off there is no reader, no series and no warning."""
    async with admitting(plane, tmp_path, "--cross-object-warnings=off") as client:
        async with plane.api() as hub:
            found = await warned(hub, fhpa("mine"))

        assert client.webhook.warnings.hub is None
        assert client.sample("fedhpa_admission_hub_current", kind="FederatedHPA") is None
        assert found == []


async def test_an_invalid_kubeconfig_ends_the_process_at_once(tmp_path: Path) -> None:
    """A typing error must not stay hidden behind missing warnings."""
    with pytest.raises((ConfigError, ExceptionGroup)) as raised:
        async with running(
            tmp_path, CertificateAuthority.create("admission tests"), "--kubeconfig=/does/not/exist"
        ):
            pass

    assert raised.group_contains(ConfigError, match="no such file")


def cluster(name: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name, "labels": labels},
        "spec": {"syncMode": "Push"},
    }


async def test_an_unknown_cluster_gets_a_warning(plane: ControlPlane, tmp_path: Path, hub: PlaneApi) -> None:
    """The warning names the field. It ends when a matching cluster is registered. A hub without the API of
    clusters gets none.
    """
    await hub.apply(deployment())
    gold = {"labelSelector": {"matchLabels": {"tier": "gold"}}}
    preferences = [{"targetCluster": gold}]
    odd = fhpa(
        "odd",
        clusterAffinity={"clusterNames": ["member1", "membr2"]},
        federatedHPAAssignment={"clusterAutoscalingPreference": preferences},
    )
    expected = [
        ('spec.clusterAffinity.clusterNames[1]: "membr2" is not a known cluster; known: member1'),
        (
            "spec.federatedHPAAssignment.clusterAutoscalingPreference[0].targetCluster: "
            "selects no known cluster; known: member1"
        ),
    ]
    async with admitting(plane, tmp_path):
        without_the_api = await warned(hub, odd)
    await hub.apply(crd.custom_resource_definition(crd.CLUSTER))
    async with admitting(plane, tmp_path):
        await hub.apply(cluster("member1", tier="iron"))

        async def both_warnings() -> bool:
            return await warned(hub, odd) == expected

        await soon(both_warnings, what="both selections are warned about", seconds=PATIENCE)
        await hub.apply(cluster("membr2", tier="gold"))

        async def silent() -> bool:
            return await warned(hub, odd) == []

        await soon(silent, what="the new cluster is known", seconds=PATIENCE)
    assert without_the_api == []
