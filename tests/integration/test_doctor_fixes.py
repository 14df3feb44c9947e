"""Each command that the doctor prints fixes: it is run as printed, by a shell, and the doctor looks again.

The hub and the member are embedded planes, and kubectl is the real one.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from fedhpa.api import rights
from testbed.real.assets import find_program
from testbed.stage.kubeconfig import merge_kubeconfigs
from testbed.stage.registrations import NAMESPACE
from tests.integration import test_doctor_finds_what_is_broken as broken
from tests.support.commands import fedhpa_thread, pasted
from tests.support.installation import (
    API_SERVICES,
    BREAKABLE,
    CLUSTERS,
    CONTROLLER_LEASES,
    LEASES,
    SECRETS,
    VALIDATING,
    Installation,
    encoded,
    installation,
)

PROBE = "cluster.karmada.io/not-ready"


async def foreign_caller_of_the_webhook(made: Installation) -> None:
    """Somebody wrote another CA into the registration."""
    from certs import CertificateAuthority

    other = encoded(CertificateAuthority.create("other").bundle_pem.decode())
    broken.set_webhooks(made, lambda hook: hook["clientConfig"].update(caBundle=other))


async def foreign_caller_of_the_adapter(made: Installation) -> None:
    from certs import CertificateAuthority

    other = encoded(CertificateAuthority.create("other").bundle_pem.decode())
    await broken.broken_apis(made, spec={"caBundle": other})


# Breaks that do not hide each other, each with the finding whose command mends it.
ROUNDS: list[dict[str, broken.Break]] = [
    {
        "component-rights-missing": broken.no_rights,
        "crd-fields-pruned": broken.karmadas_schema,
        "webhook-not-registered": broken.unregister,
        "apiservice-missing": broken.no_api_services,
        "member-duplicate": broken.second_name,
        "member-tainted": broken.drained,
        "second-owner": broken.second_owner_in_member,
    },
    {
        "crd-outdated": broken.old_schema,
        "karmada-webhook-registered": broken.karmadas_entries,
        "apiservice-certificate": foreign_caller_of_the_adapter,
        "member-tainted": broken.tainted(("theirs", "NoSchedule"), (PROBE, "NoSchedule")),
        "target-kind-unknown": broken.target(kind="Deploymnt"),
    },
    {"webhook-certificate": foreign_caller_of_the_webhook},
    {"webhook-not-asked": broken.skipped_webhook, "member-rights-missing": broken.no_member_rights},
]
KEPT = ("name", "namespace", "labels")


def state(made: Installation) -> dict[str, Any]:
    """Returns what people wrote into the objects of the hub and of the member."""
    stores = {"hub": made.store, "m1": made.plane.members["m1"].store}
    found = {}
    for server, store in stores.items():
        for collection in set(BREAKABLE) - {LEASES}:
            for raw in store.list(collection):
                metadata = {key: raw["metadata"][key] for key in KEPT if key in raw["metadata"]}
                body = {key: value for key, value in raw.items() if key not in ("metadata", "status")}
                if collection == CLUSTERS and not body["spec"].get("taints"):
                    body["spec"] = {key: value for key, value in body["spec"].items() if key != "taints"}
                name = (server, *collection, metadata.get("namespace", ""), metadata["name"])
                found["/".join(name)] = {**body, "metadata": metadata}
    return found


def changed(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Returns the objects that differ, each as it was and as it is."""
    return {
        name: (before.get(name), after.get(name))
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name)
    }


async def report(kubeconfig: Path) -> dict[str, Any]:
    ran = await fedhpa_thread("doctor", "--kubeconfig", str(kubeconfig), "--context", "hub", "-o", "json")
    assert ran.err == ""
    found: dict[str, Any] = json.loads(ran.out)
    return found


def ids(found: dict[str, Any]) -> list[str]:
    return sorted(each["id"] for each in found["findings"])


async def prepared(made: Installation) -> Path:
    """Stores the CA beside the certificates, as cert-manager does; returns the kubeconfig."""
    for name in (rights.WEBHOOK, rights.ADAPTER):
        data = {"ca.crt": encoded(made.authority.bundle_pem.decode())}
        metadata = {"name": f"{name}-tls", "namespace": NAMESPACE}
        made.store.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    # A hub that runs pods has a metrics-server for this API, so no command takes it.
    made.delete(API_SERVICES, "v1beta1.metrics.k8s.io")
    members = {name: each.kubeconfig for name, each in made.plane.members.items()}
    return merge_kubeconfigs(made.folder / "all.kubeconfig", {"hub": made.hub.kubeconfig, **members})


def tidy(made: Installation) -> None:
    """Removes what is Karmada's: the rest of its configuration, and the taint of a probe."""
    if made.store.find(VALIDATING, "", "validating-config") is not None:
        assert made.store.get(VALIDATING, "", "validating-config")["webhooks"] == []
        made.delete(VALIDATING, "validating-config")
        assert [each["key"] for each in made.store.get(CLUSTERS, "", "m1")["spec"]["taints"]] == [PROBE]
        made.edit(CLUSTERS, "m1", spec={"taints": None})


@pytest.fixture
def kubectl() -> None:
    if find_program("kubectl") is None:
        reason = "kubectl is missing (make real-plane builds it)"
        if os.environ.get("FEDHPA_REAL_PLANE") == "require":
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.mark.usefixtures("kubectl")
async def test_each_command_mends_its_finding_and_changes_nothing_else(tmp_path: Path) -> None:
    """After the printed commands the doctor finds nothing, and all objects are as before the break."""
    async with installation(tmp_path) as made:
        kubeconfig = await prepared(made)
        whole = state(made)
        assert (await report(kubeconfig))["healthy"]
        for breaks in ROUNDS:
            for cut in breaks.values():
                await cut(made)
            found = await report(kubeconfig)
            assert ids(found) == sorted(breaks)
            for each in found["findings"]:
                assert each["command"], each
                await pasted(each["command"], tmp_path)
            made.recheck()
            await made.apis_are(True)
            for name in CONTROLLER_LEASES:  # no controller renews them here, and commands take their time
                made.renew(name)
            after = await report(kubeconfig)
            assert after["findings"] == []
            tidy(made)
            assert changed(whole, state(made)) == {}
