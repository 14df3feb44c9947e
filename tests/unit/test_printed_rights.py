"""`fedhpa rbac` prints the rights of each process, and the tests run the processes with exactly these."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedhpa.api import rights
from testbed.stage.registrations import hub_rights, member_rights
from tests.support.commands import fedhpa

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
PARTS = ["hub", "member", "webhook", "adapter", "controller"]
WORKLOADS = ("deployments", "replicasets", "statefulsets")
Right = tuple[str, str, str, str]
Manifest = dict[str, Any]


def printed(part: str, *options: str) -> list[Manifest]:
    """The manifests on standard output, which is all that is printed."""
    ran = fedhpa("rbac", part, *options)
    assert (ran.returncode, ran.stderr) == (0, "")
    return list(yaml.safe_load_all(ran.stdout))


def granted(manifests: list[Manifest]) -> set[Right]:
    """The (namespace or "", group, resource, verb) of all roles; a path has the group "path"."""
    found: set[Right] = set()
    for role in manifests:
        space = [role["metadata"].get("namespace", "")]
        for rule in role.get("rules", ()):
            found |= set(product(space, ["path"], rule.get("nonResourceURLs", []), rule["verbs"]))
            found |= set(product(space, rule.get("apiGroups", []), rule.get("resources", []), rule["verbs"]))
    return found


def roles(manifests: list[Manifest]) -> list[Manifest]:
    """The roles and bindings without their subjects."""
    return [{**one, "subjects": None} for one in manifests if one["apiVersion"].startswith("rbac.")]


@pytest.mark.parametrize("part", PARTS)
def test_all_names_are_our_own(part: str) -> None:
    """Roles and bindings begin with fedhpa:, so that deleting ours deletes nobody else's."""
    manifests = printed(part)

    assert {one["metadata"]["name"].partition(":")[0] for one in roles(manifests)} == {"fedhpa"}
    assert "Namespace" not in {one["kind"] for one in manifests}


@pytest.mark.parametrize("part", PARTS)
def test_no_right_is_wider_than_needed(part: str) -> None:
    """No verb or group is a wildcard, nothing is deleted, and Secrets are those of one namespace."""
    found = granted(printed(part))

    assert not {right for right in found if "*" in (right[1], right[3])}
    assert {right[1] for right in found if right[2] == "*"} <= set(rights.VALUES)
    assert {right[0] for right in found if right[2] == "secrets"} <= {"karmada-cluster"}
    assert {right[3] for right in found} <= {"get", "list", "watch", "create", "update", "patch"}


@pytest.mark.parametrize("part", PARTS)
def test_every_binding_is_of_a_printed_account(part: str) -> None:
    """Each subject is a ServiceAccount among the manifests, and each role of ours is printed too."""
    manifests = printed(part, "-n", "scaling")
    accounts = {
        (one["metadata"]["namespace"], one["metadata"]["name"])
        for one in manifests
        if one["kind"] == "ServiceAccount"
    }
    bindings = [one for one in manifests if "roleRef" in one]
    names = {one["metadata"]["name"] for one in manifests if "rules" in one}

    assert {(one["namespace"], one["name"]) for each in bindings for one in each["subjects"]} == accounts
    assert {space for space, _ in accounts} == {"scaling"}
    assert {each["roleRef"]["name"] for each in bindings} - names <= {
        "system:auth-delegator",
        "extension-apiserver-authentication-reader",
    }


@pytest.mark.parametrize("arguments", [*(("rbac", part) for part in PARTS), ("apiservice", "--member")])
def test_printed_yaml_has_no_anchors(arguments: tuple[str, ...]) -> None:
    """Not every tool that reads manifests supports them."""
    lines = fedhpa(*arguments).stdout.splitlines()

    assert not [line for line in lines if line.partition(": ")[2].startswith(("&", "*"))]


def test_hub_is_the_three_processes_together() -> None:
    """One command grants what the three single ones grant."""
    single = [one for part in ("controller", "adapter", "webhook") for one in printed(part)]

    assert sorted(map(str, printed("hub"))) == sorted(map(str, single))


def test_the_propagation_decides_who_scales() -> None:
    """karmada reads templates and ResourceBindings and writes scales on the hub, direct in the members."""
    karmada, direct = "--propagation=karmada", "--propagation=direct"
    on_hub = granted(printed("controller", karmada)) - granted(printed("controller", direct))
    in_member = granted(printed("member", direct)) - granted(printed("member", karmada))

    assert on_hub == {
        ("", "work.karmada.io", "resourcebindings", "list"),
        *(("", "apps", workload, "get") for workload in WORKLOADS),
        *(("", "apps", f"{workload}/scale", verb) for workload in WORKLOADS for verb in ("get", "update")),
    }
    assert in_member == {("", "apps", f"{workload}/scale", "update") for workload in WORKLOADS}


def test_named_secrets_are_the_only_ones() -> None:
    """--secret replaces the right to all Secrets of the namespace."""
    manifests = printed("controller", "--secret=member1", "--secret=elsewhere/member2")
    found = {
        one["metadata"]["namespace"]: rule.get("resourceNames")
        for one in manifests
        for rule in one.get("rules", ())
        if "secrets" in rule.get("resources", ())
    }

    assert found == {"karmada-cluster": ["member1"], "elsewhere": ["member2"]}


def test_the_testbed_uses_the_printed_rights() -> None:
    """Its controller keeps its Leases in kube-system, and runs with either source of metrics."""
    controller = printed("controller", "--lease-namespace=kube-system", "--metrics-via=hub")

    assert roles(hub_rights()) == [*roles(printed("adapter")), *roles(controller)]
    assert member_rights()[1:] == printed("member")


@pytest.mark.parametrize("page", ["run-the-processes.md", "register-a-cluster.md"])
def test_the_pages_print_rights_by_the_command(page: str) -> None:
    """A role that stands on a page would not follow the code."""
    text = (PAGES / page).read_text(encoding="utf-8")

    assert "fedhpa rbac" in text
    assert "kind: ClusterRole" not in text
    assert "create namespace fedhpa-system" in text
