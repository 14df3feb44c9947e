"""Scales and HPAs are written from `controller.apply` alone, and the sources show it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.sources import parsed

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("fedhpa", "webhook", "metrics_adapter", "controller", "certs")
APPLY = "controller/apply/"
# The methods of ApiClient that change an object, and the functions of fedhpa.kube that call them.
METHODS = frozenset(("post", "put", "patch", "delete"))
FUNCTIONS = frozenset(
    ("patch_finalizers", "patch_status", "patch_with_retry", "put_scale", "update_with_retry")
)
# The names under which the product keeps a client.
CLIENTS = frozenset(("hub", "client", "api", "_hub", "_client", "_authentication", "_authorization"))
# All other modules that write to a Kubernetes API, with what they write. None of it scales a workload.
OTHERS = {
    "certs/certificate_store.py": "Secrets and caBundles",
    "controller/accepted_servers.py": "the ConfigMap of accepted servers",
    "controller/cluster_status.py": "status of Clusters",
    "controller/cronfederatedhpa/objects.py": "status and finalizers of CronFederatedHPAs",
    "controller/cronfederatedhpa/targets.py": "bounds of FederatedHPAs",
    "controller/federatedhpa/removal.py": "finalizers of FederatedHPAs",
    "controller/federatedhpa/publication.py": "conditions of FederatedHPAs",
    "controller/member_tokens.py": "Secrets of members",
    "controller/publish.py": "status of FederatedHPAs",
    "controller/scaling_records.py": "ScalingRecords",
    "controller/shards.py": "Leases",
    "fedhpa/cli/drain/taints.py": "taints of Clusters",
    "fedhpa/cli/hold.py": "annotations",
    "fedhpa/cli/join/registration.py": "Clusters, Secrets and rights",
    "fedhpa/cli/join/removal.py": "Clusters, Secrets and rights",
    "fedhpa/cli/member_notes.py": "the ConfigMaps about members",
    "fedhpa/kube/events.py": "Events",
    "fedhpa/kube/leases.py": "Leases",
    "fedhpa/kube/resources.py": "for those who call its functions",
    "fedhpa/members/cluster.py": "finalizers of Clusters",
    "fedhpa/serving/authentication.py": "reviews of tokens",
    "fedhpa/serving/authorization.py": "reviews of tokens and access",
}
# Each of them sends a write of a scale or an HPA.
OF_SCALES = frozenset(("put_scale", "set_replicas", "apply_hpa"))
# The rules of one target write its scale by the module that carries out plans.
CALLERS = {"controller/cronfederatedhpa/scales.py": {"set_replicas"}}


def sources() -> Iterator[tuple[str, ast.Module]]:
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), parsed(path)


def named(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Each name that the code uses, with that of the object of an attribute, "" without one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield "", node.id
        elif isinstance(node, ast.Attribute):
            owner = node.value
            yield owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", ""), node.attr


def writes(tree: ast.Module) -> bool:
    """True if the code changes an object of a Kubernetes API."""
    return any(
        name in FUNCTIONS if not owner else name in METHODS and owner in CLIENTS
        for owner, name in named(tree)
    )


def test_only_one_package_writes_scales_and_hpas() -> None:
    """The writers of everything else are named here, so that a new writer has to say what it writes."""
    found = {path for path, tree in sources() if writes(tree) and not path.startswith(APPLY)}

    assert found == OTHERS.keys()


def test_what_writes_a_scale_is_called_by_its_package_and_by_rules() -> None:
    """A rule writes one scale or the bounds of a FederatedHPA; all else is a plan."""
    found: dict[str, set[str]] = {}
    for path, tree in sources():
        names = {name for owner, name in named(tree) if not owner and name in OF_SCALES}
        names -= {node.name for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)}
        if names and not path.startswith(APPLY):
            found[path] = names

    assert found == CALLERS


def test_few_modules_name_the_subresource() -> None:
    """It is named where it is read, written and found, and where rights are judged."""
    found = {
        path
        for path, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith("/scale")
    }

    assert found == {
        "controller/federatedhpa/cluster_reader.py",
        "fedhpa/doctor/hub.py",
        "fedhpa/doctor/members.py",
        "fedhpa/kube/resources.py",
    }
