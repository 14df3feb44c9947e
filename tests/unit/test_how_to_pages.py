"""The rights in docs/how-to are no more than those of the processes in the tests."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.stage.registrations import HUB_RIGHTS, MEMBER_RIGHTS, documents

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
Right = tuple[str, str, str]


def rights(role: dict[str, Any]) -> set[Right]:
    """The (group, resource, verb) that a ClusterRole grants; a path has the group "path"."""
    granted: set[Right] = set()
    for rule in role["rules"]:
        granted |= set(product(["path"], rule.get("nonResourceURLs", []), rule["verbs"]))
        granted |= set(product(rule.get("apiGroups", []), rule.get("resources", []), rule["verbs"]))
    return granted


def role_on(page: str) -> dict[str, Any]:
    """The ClusterRole in the page's first yaml block."""
    match = re.search(r"```yaml\n(.*?)```", (PAGES / page).read_text(encoding="utf-8"), re.S)
    assert match is not None
    (role,) = (each for each in yaml.safe_load_all(match[1]) if each["kind"] == "ClusterRole")
    return dict(role)


@pytest.mark.parametrize(
    ("page", "file"),
    [("run-the-processes.md", HUB_RIGHTS), ("register-a-cluster.md", MEMBER_RIGHTS)],
)
def test_the_printed_rights_are_among_those_that_the_tests_use(page: str, file: Path) -> None:
    """The ClusterRole on the page has the name of one in the testbed, and grants nothing beyond it."""
    role = role_on(page)
    (used,) = (
        each
        for each in documents(file)
        if each["kind"] == "ClusterRole" and each["metadata"]["name"] == role["metadata"]["name"]
    )

    assert rights(role) - rights(used) == set()
    assert rights(role) != set()
