"""`fedhpa rbac` prints the rights of each process, and the tests run the processes with exactly these."""

from __future__ import annotations

import re
from importlib import resources
from itertools import chain, pairwise, product
from pathlib import Path
from typing import Any

import pytest
import yaml

from certs.certificate_store import SERVING_SECRETS
from certs.stored import CA_SECRET
from fedhpa.api import rights
from metrics_adapter.apis import SERVED_VERSIONS
from metrics_adapter.registration import APIS
from testbed.stage.registrations import hub_rights, member_rights
from tests.support.commands import fedhpa

FILE = Path(__file__).parents[2] / "charts" / "fedhpa" / "files" / "rights.yaml"
PAGES = Path(__file__).parents[2] / "docs" / "how-to"
PARTS = ["hub", "member", "webhook", "adapter", "controller", "operator"]
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
    """No verb or group is a wildcard, nothing but our own records is deleted, and no Secret is read."""
    found = granted(printed(part))

    assert not {right for right in found if "*" in (right[1], right[3])}
    assert {right[1] for right in found if right[2] == "*"} <= (
        {"custom.metrics.k8s.io", "external.metrics.k8s.io"} if part == "member" else set()
    )
    assert not {right for right in found if right[2] == "secrets"}
    assert {right[2] for right in found if right[3] == "delete"} <= {"scalingrecords"}
    assert {right[3] for right in found} - {"delete"} <= {"get", "list", "watch", "create", "update", "patch"}


@pytest.mark.parametrize("part", PARTS)
def test_every_object_has_the_labels_of_the_project(part: str) -> None:
    """A search by label finds all that was installed."""
    for one in printed(part):
        assert (
            one["metadata"]["labels"].items()
            >= {
                "app.kubernetes.io/name": "fedhpa",
                "app.kubernetes.io/part-of": "fedhpa",
            }.items()
        )


@pytest.mark.parametrize("part", [part for part in PARTS if part != "operator"])
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


def test_hub_is_the_processes_and_operators_together() -> None:
    """One command grants what the single ones grant."""
    single = [one for part in ("controller", "adapter", "webhook", "operator") for one in printed(part)]

    assert sorted(map(str, printed("hub"))) == sorted(map(str, single))


def test_the_propagation_decides_who_scales() -> None:
    """karmada reads templates and ResourceBindings and writes scales on the hub, direct in the members."""
    karmada, direct = "--propagation=karmada", "--propagation=direct"
    on_hub = granted(printed("controller", karmada)) - granted(printed("controller", direct))
    in_member = granted(printed("member", direct)) - granted(printed("member", karmada))

    assert on_hub == {
        ("", "autoscaling", "horizontalpodautoscalers", "list"),
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


def test_a_namespace_of_secrets_is_read_whole() -> None:
    """Karmada keeps the credentials of all its clusters in one namespace."""
    found = granted(printed("hub", "--secrets-namespace=karmada-cluster"))

    assert {right for right in found if right[2] == "secrets"} == {
        ("karmada-cluster", "", "secrets", verb) for verb in ("get", "list", "watch")
    }


def test_scale_targets_replace_the_default() -> None:
    """They are scaled on the hub and in members. Only kinds of apps are watched."""
    options = ("--scale-target=apps/deployments", "--scale-target=argoproj.io/rollouts,experiments")
    on_hub, in_member = (
        printed("controller", "--propagation=karmada", *options),
        granted(printed("member", *options)),
    )

    rollouts = {right for right in granted(on_hub) if right[1] == "argoproj.io"}
    assert rollouts == {
        ("", "argoproj.io", resource, verb)
        for name in ("rollouts", "experiments")
        for resource, verb in ((name, "get"), (f"{name}/scale", "get"), (f"{name}/scale", "update"))
    }
    assert {right[2:] for right in in_member if right[1] == "apps"} == {
        ("deployments", "list"),
        ("deployments", "watch"),
        ("deployments/scale", "get"),
        ("deployments/scale", "update"),
    }
    assert {right[2:] for right in in_member if right[1] == "argoproj.io"} == {
        (f"{name}/scale", verb) for name in ("rollouts", "experiments") for verb in ("get", "update")
    }


@pytest.mark.parametrize(
    "text", ["", "deployments", "apps/", "/deployments", "apps/*", "*/deployments", "a/b,,c"]
)
def test_a_scale_target_that_is_none_is_refused(text: str) -> None:
    """One line names option, value and form. A wildcard is no scale target."""
    ran = fedhpa("rbac", "controller", f"--scale-target={text}")

    assert ran.returncode == 2
    assert ran.stderr == f"fedhpa: --scale-target={text!r}: expected GROUP/RESOURCE[,RESOURCE...]\n"


def test_certificates_are_written_by_name() -> None:
    """The Secrets are in the namespace of the pods. The CA is published into our registrations only."""
    more = granted(printed("controller", "--manage-certificates")) - granted(printed("controller"))
    named = {
        tuple(rule["resourceNames"])
        for one in printed("controller", "--manage-certificates")
        for rule in one.get("rules", ())
        if {"update"} < set(rule["verbs"]) and "resourceNames" in rule
    }
    apis = updated_apis("--manage-certificates")

    assert {right for right in more if right[2] == "secrets"} == {
        ("fedhpa-system", "", "secrets", verb) for verb in ("create", "get", "update")
    }
    assert {right[1:] for right in more if right[2] != "secrets"} == {
        (group, resource, verb)
        for group, resource in (
            ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
            ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
            ("apiregistration.k8s.io", "apiservices"),
        )
        for verb in ("get", "update")
    }
    secrets = tuple(sorted((CA_SECRET, *SERVING_SECRETS.values())))
    assert named == {secrets, (rights.WEBHOOK_CONFIGURATION,)}
    assert sorted(apis) == list(rights.API_SERVICES)


def updated_apis(*options: str) -> list[str]:
    """The APIServices that the controller may update."""
    rules = (rule for one in printed("controller", *options) for rule in one.get("rules", ()))
    return [
        name
        for rule in rules
        if "apiservices" in rule["resources"] and "update" in rule["verbs"]
        for name in rule["resourceNames"]
    ]


def test_only_apis_of_the_adapter_are_written() -> None:
    """An API that the adapter does not serve may be another server's, such as the metrics-server's."""
    options = ("--manage-certificates", "--api=custom", "--api=external")

    assert "v1beta1.metrics.k8s.io" not in updated_apis(*options)
    assert len(updated_apis(*options)) == 3


def test_the_parts_of_an_external_hub_are_the_whole() -> None:
    """The host has the Secrets of the certificates, and the right to report events there."""
    options = ("--manage-certificates",)
    host = granted(printed("hub", *options, "--part=host"))
    whole = granted(printed("hub", *options))

    assert whole | host == granted(printed("hub", *options, "--part=hub")) | host
    assert host - whole == {("fedhpa-system", "", "events", verb) for verb in ("create", "patch")}
    assert {right[2] for right in host} == {"secrets", "events"}


def test_the_api_services_are_those_of_the_adapter() -> None:
    """The names of `fedhpa apiservice`."""
    served = [f"{version}.{group}" for group in APIS.values() for version in SERVED_VERSIONS[group]]

    assert sorted(served) == list(rights.API_SERVICES)


def test_hpas_are_written_in_members_on_demand() -> None:
    """Mode Distributed has a switch of its own."""
    more = granted(printed("member", "--distributed")) - granted(printed("member"))

    assert more == {
        ("", "autoscaling", "horizontalpodautoscalers", verb)
        for verb in ("create", "delete", "get", "update", "watch")
    }


def test_the_default_roles_of_kubernetes_get_our_kinds_on_demand() -> None:
    """Their rights are added by labels. view only reads."""
    added = [
        one
        for one in printed("hub", "--aggregate-to-default-roles")
        if one["metadata"]["name"] in ("fedhpa:view", "fedhpa:edit")
    ]
    label = "rbac.authorization.k8s.io/aggregate-to-view"

    assert [one["metadata"]["labels"].get(label) for one in added] == ["true", None]
    assert {right[3] for right in granted(added[:1])} == {"get", "list", "watch"}
    ours = {"federatedhpas", "cronfederatedhpas", "scalingrecords"}
    assert {right[2] for right in granted(added)} == ours
    assert {right[3] for right in granted(added) if right[2] == "scalingrecords"} == {"get"}
    assert "fedhpa:view" not in str(printed("hub"))


def test_the_commands_read_the_file_of_the_chart() -> None:
    """A rule stands once. The package has a link to the file; the build of the wheel follows it."""
    linked = resources.files("fedhpa.api").joinpath("rights.yaml")

    assert Path(str(linked)).samefile(FILE)


def test_each_rule_says_why_it_is_there() -> None:
    """A comment stands before each rule, and before each role that has none."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    begin = re.compile(r"  - |- name: .*:(auth-delegator|authentication-reader)$")
    bare = [line for before, line in pairwise(lines) if begin.match(line) and "# " not in before]

    assert bare == []


def test_the_testbed_uses_the_printed_rights() -> None:
    """Its controller keeps its Leases in kube-system, with either propagation and source of metrics."""
    secrets = "--secrets-namespace=karmada-cluster"
    options = "--lease-namespace=kube-system", "--metrics-via=hub", secrets
    either = (printed("controller", *options, f"--propagation={one}") for one in ("karmada", "direct"))
    wanted = granted([*printed("adapter", secrets), *chain.from_iterable(either)])

    assert set(granted(hub_rights())) == set(wanted)
    assert member_rights()[1:] == printed("member", "--distributed")


def test_an_operator_writes_clusters_and_holds() -> None:
    """No Secret, no status, and nothing in members. The role has no binding, because it is for people."""
    manifests = printed("operator")
    found = granted(manifests)
    ours = {"federatedhpas", "cronfederatedhpas", "scalingrecords", "clusters", "namespaces"}

    assert [one["kind"] for one in manifests] == ["ClusterRole"]
    assert {right[2] for right in found} == ours
    assert {right[2:] for right in found if right[3] not in ("get", "list", "watch")} == {
        ("clusters", "update"),
        ("cronfederatedhpas", "patch"),
        ("federatedhpas", "patch"),
        ("namespaces", "patch"),
    }


@pytest.mark.parametrize("page", ["run-the-processes.md", "register-a-cluster.md"])
def test_the_pages_print_rights_by_the_command(page: str) -> None:
    """A role that stands on a page would not follow the code."""
    text = (PAGES / page).read_text(encoding="utf-8")

    assert "fedhpa rbac" in text
    assert "kind: ClusterRole" not in text
    assert "create namespace fedhpa-system" in text
