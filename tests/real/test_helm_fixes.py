"""The printed `helm upgrade` mends what Helm owns, run as it is by real helm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedhpa.doctor import Commands, Report, examine
from fedhpa.kube import SYSTEM, ApiClient, load_config
from testbed.real.member import Member
from testbed.stage.api import PlaneApi
from tests.real.helm import Helm
from tests.real.pods import empty_clusters
from tests.real.settling import settled
from tests.real.test_doctor import written
from tests.support.chart import CHART, IMAGE
from tests.support.commands import pasted
from tests.support.nightly import only_at_night

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLE = f"{RBAC}/clusterroles/fedhpa:controller"
BINDING = f"{RBAC}/clusterrolebindings/fedhpa:metrics-adapter"
WEBHOOK = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/fedhpa-webhook"
APIS = "/apis/apiregistration.k8s.io/v1/apiservices"
EXTERNAL = f"{APIS}/v1beta1.external.metrics.k8s.io"
CUSTOM = tuple(f"{APIS}/{version}.custom.metrics.k8s.io" for version in ("v1beta1", "v1beta2"))
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/cronfederatedhpas.autoscaling.karmada.io"
# The findings that a helm upgrade mends, each with the objects that somebody deleted.
DELETED = {
    "webhook-not-registered": (WEBHOOK,),
    "apiservice-missing": (EXTERNAL, *CUSTOM),
    "crd-missing": (CRD,),
}
SECONDS = 180.0


async def diagnosis(hub: Member) -> Report:
    async with ApiClient(await load_config(str(hub.kubeconfig), clock=SYSTEM)) as client:
        return await examine(client, seconds=10.0, clock=SYSTEM, commands=Commands(str(hub.kubeconfig)))


def ids(report: Report) -> set[str]:
    return {each.id for each in report.findings}


async def without_a_rule(api: PlaneApi) -> None:
    role = await api.get(ROLE)
    await api.send("PUT", ROLE, body={**role, "rules": role["rules"][1:]})
    await api.delete(BINDING)


def mended(found: dict[str, Any]) -> dict[str, Any]:
    """Returns what a person sees of an object: the controller writes the CA bundle again by itself."""
    spec = found.get("spec", {})
    return written({**found, "spec": {key: value for key, value in spec.items() if key != "caBundle"}})


@only_at_night
async def test_the_printed_helm_upgrade_mends_what_helm_owns(assets: Path, tmp_path: Path) -> None:
    """After each break and its command nothing is found, and the objects are as the chart made them."""
    async with empty_clusters(assets) as (pods, _):
        hub = pods.cluster
        await Helm(assets / "helm", hub).run("install", "fedhpa", str(CHART), "--create-namespace", values={})
        await pods.run_pods()

        async def report() -> Report:
            return await diagnosis(hub)

        async def mends(kind: str, paths: tuple[str, ...], cut: Callable[[PlaneApi], Any]) -> None:
            async with hub.api() as api:
                whole = [mended(await api.get(path)) for path in paths]
                await cut(api)
                broken = await settled(report, lambda found: kind in ids(found), seconds=SECONDS)
                commands = {each.command for each in broken.findings if each.id == kind}
                assert len(commands) == 1
                (command,) = commands
                assert command.startswith("helm upgrade fedhpa charts/fedhpa ")
                await pasted(command, tmp_path, assets)
                after = await settled(report, lambda found: ids(found) == {"no-members"}, seconds=SECONDS)
                assert ids(after) == {"no-members"}, after
                if kind != "crd-missing":  # its schema is compared by the finding crd-fields-pruned
                    assert [mended(await api.get(path)) for path in paths] == whole

        sound = await settled(report, lambda found: ids(found) == {"no-members"}, seconds=SECONDS)
        assert ids(sound) == {"no-members"}, sound
        await mends("component-rights-missing", (ROLE, BINDING), without_a_rule)
        for kind, paths in DELETED.items():

            async def delete(api: PlaneApi, paths: tuple[str, ...] = paths) -> None:
                for path in paths:
                    await api.delete(path)

            await mends(kind, paths, delete)
        values = await Helm(assets / "helm", hub).run("get", "values", "fedhpa")
        assert IMAGE["image"]["registry"] in values.out
