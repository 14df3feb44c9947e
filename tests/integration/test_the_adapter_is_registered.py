"""`fedhpa apiservice` registers what is chosen, and says whose it would take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from certs import CertificateAuthority
from fedhpa.api.membership import SECRET_ANNOTATION
from tests.support.commands import Ran, fedhpa_thread, kubeconfig
from tests.support.fakeapi import CLUSTERS, FakeApi, fake_api

API_SERVICES = ("apiregistration.k8s.io/v1", "apiservices")
ALL = [
    ("v1beta1.metrics.k8s.io", 200),
    ("v1beta2.custom.metrics.k8s.io", 200),
    ("v1beta1.custom.metrics.k8s.io", 100),
    ("v1beta1.external.metrics.k8s.io", 200),
]


async def apiservice(folder: Path, *arguments: str, hub: FakeApi | None = None) -> Ran:
    """Run the command, with a kubeconfig of the hub if there is one."""
    CertificateAuthority.create("ca").save(folder)
    more = ["--kubeconfig", str(kubeconfig(hub, folder))] if hub is not None else []
    return await fedhpa_thread("apiservice", "--ca-file", str(folder / "ca.crt"), *arguments, *more)


def registered(out: str) -> list[tuple[str, int]]:
    found = [document for document in yaml.safe_load_all(out) if document["kind"] == "APIService"]
    return [(document["metadata"]["name"], document["spec"]["versionPriority"]) for document in found]


def stored(name: str, service: dict[str, Any] | None) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"service": service}}


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ([], ALL[1:]),
        (["metrics"], ALL[:1]),
        (["external", "metrics", "custom"], ALL),
    ],
)
async def test_the_chosen_apis_are_registered(
    tmp_path: Path, chosen: list[str], expected: list[tuple[str, int]]
) -> None:
    """metrics.k8s.io only if it is named; standard error names what applying it takes over."""
    code, out, err = await apiservice(tmp_path, *(part for name in chosen for part in ("--api", name)))

    assert (code, registered(out)) == (0, expected)
    assert all(name in err for name, _ in expected)


async def test_an_api_of_somebody_else_is_not_registered_over(tmp_path: Path) -> None:
    """With --check: exit 1 and nothing on standard output, until it is left out; one's own is fine."""
    ours = {"namespace": "fedhpa-system", "name": "fedhpa-metrics-adapter"}
    theirs = {"namespace": "keda", "name": "keda-metrics-apiserver"}
    async with fake_api() as hub:
        hub.put(API_SERVICES, stored("v1beta1.metrics.k8s.io", ours))
        hub.put(API_SERVICES, stored("v1beta1.external.metrics.k8s.io", theirs))
        hub.put(CLUSTERS, cluster("member1", "karmada-cluster"))
        every = ("--api", "metrics", "--api", "custom", "--api", "external")
        refused = await apiservice(tmp_path, "--check", *every, hub=hub)
        fine = await apiservice(tmp_path, "--check", "--api", "metrics", "--api", "custom", hub=hub)

    assert refused[:2] == (1, "")
    assert refused[2] == (
        "APIService v1beta1.external.metrics.k8s.io is served by the Service keda/keda-metrics-apiserver:"
        " leave it out with --api, or delete it first\n"
    )
    assert (fine[0], registered(fine[1]), fine[2]) == (0, ALL[:3], "")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/apis/apiregistration.k8s.io", "cannot read APIService v1beta2.custom.metrics.k8s.io"),
        ("/apis/cluster.karmada.io", "cannot list Clusters"),
    ],
)
async def test_a_hub_that_cannot_be_asked_is_said(tmp_path: Path, path: str, said: str) -> None:
    """Exit 2, and nothing to apply."""
    async with fake_api() as hub:
        hub.faults.status[path] = 403
        code, out, err = await apiservice(tmp_path, "--check", hub=hub)

    assert (code, out) == (2, "")
    assert said in err


def cluster(name: str, namespace: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"secretRef": {"namespace": namespace, "name": f"key-{name}"}},
    }


def readable(out: str) -> dict[str, list[str]]:
    """The Secrets that may be read, by namespace; nothing else may speak of Secrets."""
    found = {}
    for document in yaml.safe_load_all(out):
        for rule in document.get("rules", ()):
            if "secrets" in rule["resources"]:
                assert document["kind"] == "Role"
                assert rule["verbs"] == ["get", "list", "watch"]
                found[document["metadata"]["namespace"]] = rule["resourceNames"]
    return found


async def test_the_secrets_of_the_clusters_may_be_read_and_no_others(tmp_path: Path) -> None:
    """Those that are named, and with --check those of the hub's Clusters, each in its namespace."""
    async with fake_api() as hub:
        hub.put(CLUSTERS, cluster("member1", "karmada-cluster"))
        hub.put(CLUSTERS, cluster("member2", "elsewhere"))
        hub.put(CLUSTERS, {"metadata": {"name": "pull"}, "spec": {}})
        code, out, _ = await apiservice(tmp_path, "--check", "--secret", "a/b", "--secret", "c", hub=hub)

    assert code == 0
    assert readable(out) == {
        "a": ["b"],
        "elsewhere": ["key-member2"],
        "karmada-cluster": ["c", "key-member1"],
    }


async def test_the_secret_of_a_join_is_the_one_that_may_be_read(tmp_path: Path) -> None:
    """Beside Karmada's Secrets `fedhpa join` makes one of its own, and the adapter reads no other."""
    joined = cluster("member1", "karmada-cluster")
    joined["metadata"]["annotations"] = {SECRET_ANNOTATION: "fedhpa-system/fedhpa-member-member1"}
    joined["spec"]["impersonatorSecretRef"] = {"namespace": "karmada-cluster", "name": "member1-impersonator"}
    async with fake_api() as hub:
        hub.put(CLUSTERS, joined)
        code, out, _ = await apiservice(tmp_path, "--check", hub=hub)

    assert (code, readable(out)) == (0, {"fedhpa-system": ["fedhpa-member-member1"]})


async def test_without_names_no_secret_may_be_read(tmp_path: Path) -> None:
    """That is said, with what to do about it."""
    code, out, err = await apiservice(tmp_path)

    assert (code, readable(out)) == (0, {})
    assert "no Secret is named" in err


@pytest.mark.parametrize("name", ["", "/a", "a/", "a/b/c"])
async def test_a_secret_that_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    """An empty name would be all of them."""
    code, out, err = await apiservice(tmp_path, "--secret", name)

    assert (code, out) == (2, "")
    assert f'--secret="{name}"' in err
