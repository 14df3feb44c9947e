"""The pages under docs/ agree with the code: generated parts, reasons, links, and pages that code cites."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fedhpa.assignment import ClusterState, Course
from fedhpa.cli.main import run
from fedhpa.decision import (
    Absence,
    Blocked,
    ClusterMemory,
    ControllerSettings,
    History,
    MemoryState,
    Rebalance,
)
from fedhpa.decision.record.clusters import RawScale, RawScenarioCluster
from fedhpa.decision.record.scenario import RawScenario
from fedhpa.metric_types.table import METRIC_TYPES
from testbed.reference import chart, pages
from tests.support.sources import parsed

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CODE = (
    "fedhpa",
    "webhook",
    "metrics_adapter",
    "controller",
    "certs",
    "testbed",
    "demo",
    "benchmarks",
    "tests",
)
PAGES = [
    *sorted(DOCS.rglob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
]

# Where conditions and events are made.
DECIDING = (
    "certs/certificate_store.py",
    "certs/keeping.py",
    "fedhpa/metric_types",
    "fedhpa/decision",
    "fedhpa/scaling",
    "controller",
    "fedhpa/cron/execution",
    "fedhpa/members/member.py",
)
REASON = re.compile(r"[A-Z][a-z]+(?:[A-Z]+[a-z]*)+")
# Names in these folders that have the form of a reason and are something else.
OTHER_NAMES = {
    # spec
    "AverageValue",
    "ContainerResource",
    "DynamicWeighted",
    "LoadWeighted",
    "ScaleUpOnly",
    "StaticWeighted",
    "WhenQuiet",
    # models
    "MetricSpec",
    "MetricStatus",
    # status.clusters[].state
    "MetricsLost",
    "MetricsMissing",
    # Kubernetes: kinds, and the condition of a pod
    "FederatedHPA",
    "PodScheduled",
    "ResourceBinding",
}


def literals(tree: ast.Module) -> Iterator[str]:
    """The texts of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def reasons() -> set[str]:
    files = [file for name in DECIDING for file in (sorted((ROOT / name).rglob("*.py")) or [ROOT / name])]
    found = {text for file in files for text in literals(parsed(file))}
    found |= {made.failure_reason for made in METRIC_TYPES.values()}
    return {text for text in found - {"FailedGet"} if REASON.fullmatch(text)} - OTHER_NAMES


@pytest.mark.parametrize("name", pages.PAGES)
def test_a_generated_page_is_what_the_generator_writes(name: str) -> None:
    """`make docs` changes nothing that is committed."""
    page = (pages.FOLDER / name).read_text(encoding="utf-8")

    assert pages.rendered(name, page) == page


def test_the_charts_values_are_what_the_generator_writes() -> None:
    """charts/fedhpa/values.yaml has the defaults and descriptions of values.schema.json."""
    assert chart.values_yaml() == chart.VALUES.read_text(encoding="utf-8")


def test_every_reason_is_listed_and_every_listed_reason_is_in_the_code() -> None:
    """docs/reference/conditions-and-events.md has the reasons of conditions and events, and no others."""
    page = (pages.FOLDER / "conditions-and-events.md").read_text(encoding="utf-8")
    listed = {text for text in re.findall(r"`(\w+)`", page) if REASON.fullmatch(text)}

    assert reasons() == listed - OTHER_NAMES


def test_every_series_name_is_on_the_page_of_series() -> None:
    """No process makes a series that docs/reference/metrics.md leaves out."""
    page = (pages.FOLDER / "metrics.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(\w+?)(?:_total)?` \|", page))
    name = re.compile(r"fedhpa_[a-z_]+|controller_runtime_[a-z_]+")
    made = {
        text
        for folder in ("webhook", "metrics_adapter", "controller", "fedhpa")
        for file in (ROOT / folder).rglob("*.py")
        for text in literals(parsed(file))
        if name.fullmatch(text)
    }

    assert made - listed == set()


@pytest.mark.parametrize(
    "part",
    [
        RawScenario,
        ControllerSettings,
        RawScenarioCluster,
        RawScale,
        History,
        MemoryState,
        ClusterMemory,
        Absence,
        Rebalance,
        ClusterState,
        Course,
        Blocked,
    ],
)
def test_every_key_of_a_scenario_is_on_its_page(part: type[msgspec.Struct]) -> None:
    """docs/reference/decision-record.md leaves out no key that `fedhpa replay` reads."""
    page = (pages.FOLDER / "decision-record.md").read_text(encoding="utf-8")
    keys = {field.encode_name for field in msgspec.structs.fields(part)}

    assert {key for key in keys if not re.search(rf'[`"]{key}[`"]', page)} == set()


def test_the_readme_shows_what_replay_prints(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """The decision in the README is that of demo/lost.json, word for word."""
    assert run(["replay", "-o", "text", str(ROOT / "demo" / "lost.json")]) == 0

    printed = capfdbinary.readouterr().out.decode()

    assert printed in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_page_of_the_architecture_has_the_layers_that_are_checked() -> None:
    """docs/explanation/architecture.md names the layers of import-linter's contract in the same order."""
    page = (DOCS / "explanation" / "architecture.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    checked = project["tool"]["importlinter"]["contracts"][0]["layers"]

    shown = re.findall(r"^\d+\. ([a-z_.]+(?:, [a-z_.]+)*)$", page, flags=re.MULTILINE)

    assert shown == [layer.replace(" | ", ", ").replace(" : ", ", ") for layer in checked]


def test_every_page_is_in_the_index() -> None:
    """docs/README.md leads to every page; the decisions are reached by their folder."""
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    there = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page.parent.name != "decisions"}

    assert there - {"README.md"} - set(re.findall(r"\]\(([^)#]+)", index)) == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    """Links between pages survive when pages move."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    broken = [
        target for target in targets if target and "://" not in target and not (page.parent / target).exists()
    ]

    assert broken == []


def test_every_page_that_is_cited_exists() -> None:
    """A docs/ path in code, configuration or a page names a file that is there."""
    files = [file for folder in CODE for file in (ROOT / folder).rglob("*.py")]
    files += [*PAGES, ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / "benchmarks" / "budget.yaml"]
    cited = {
        (path, str(file.relative_to(ROOT)))
        for file in files
        for path in re.findall(r"\bdocs/[\w./-]+\.(?:md|svg)", file.read_text(encoding="utf-8"))
    }

    assert sorted(one for one in cited if not (ROOT / one[0]).exists()) == []


def test_every_decision_that_is_cited_exists() -> None:
    """A citation such as docs/decisions/0006 names a decision that is recorded."""
    files = [file for folder in CODE for file in (ROOT / folder).rglob("*.py")]
    known = {file.name[:4] for file in (DOCS / "decisions").glob("*.md")}
    cited = {
        number
        for file in [*files, *PAGES]
        for number in re.findall(r"docs/decisions/(\d{4})", file.read_text(encoding="utf-8"))
    }

    assert cited - known == set()


# The other pages name paths of Karmada's and Kubernetes' repositories.
OUR_PAGES = [page for page in PAGES if "upstream" not in page.parts]


@pytest.mark.parametrize("page", OUR_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_of_the_repository_that_a_page_names_exists(page: Path) -> None:
    """A path in backticks that begins with one of our folders names a file or folder that is there."""
    folders = "|".join((*CODE, "docs", "charts", "lock"))
    named = re.findall(rf"`((?:{folders})/[\w./-]*[\w/])`", page.read_text(encoding="utf-8"))

    assert [path for path in named if not (ROOT / path).exists()] == []
