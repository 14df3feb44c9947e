"""The files that a person meets who joins the project, and the length of the page of limits."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
LIMITS = 120


def test_owners_of_code_are_teams() -> None:
    """A person who leaves would stop every review."""
    lines = (ROOT / ".github/CODEOWNERS").read_text().splitlines()
    owners = {word for line in lines if not line.startswith("#") for word in line.split()[1:]}

    assert owners
    assert all(re.fullmatch(r"@[\w-]+/[\w-]+", owner) for owner in owners)


def test_each_issue_form_asks_for_something() -> None:
    """GitHub ignores a form without a name or a body."""
    forms = [yaml.safe_load(file.read_text()) for file in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yaml")]

    assert forms
    assert all(form["name"] and form["description"] and form["body"] for form in forms)


def test_dependencies_are_raised_by_digest() -> None:
    """Images and actions are pinned by digests, which nobody raises by hand."""
    extends = json.loads((ROOT / ".github/renovate.json").read_text())["extends"]

    assert {"helpers:pinGitHubActionDigests", "docker:pinDigests"} <= set(extends)


def test_the_page_of_limits_is_short_enough_to_be_read() -> None:
    assert len((ROOT / "docs/explanation/limits.md").read_text().splitlines()) <= LIMITS
