"""The chart's dashboard for Grafana shows series that the processes have."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DASHBOARD = json.loads((ROOT / "charts" / "fedhpa" / "files" / "dashboard.json").read_text(encoding="utf-8"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
SERIES = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
OURS = r"\b((?:fedhpa|controller_runtime)_\w+)(?:\{(.*?)\})?"
# Prometheus adds these labels to every series that it scrapes.
OF_THE_TARGET = {"pod", "le"}


def labels_by_series() -> dict[str, set[str]]:
    rows = re.findall(r"^\| `(\w+)` \| \w+ \| (.*?) \|", SERIES, flags=re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: str(panel["title"]))
def test_a_panel_shows_series_that_exist(panel: dict[str, Any]) -> None:
    """Each series is on the generated page of series, with all labels that the panel uses."""
    listed = labels_by_series()
    for target in panel["targets"]:
        used = re.findall(OURS, target["expr"])
        assert used
        for name, selector in used:
            family = name.removesuffix("_bucket")
            grouped = {
                label
                for group in re.findall(r"by \(([\w, ]+)\)", target["expr"])
                for label in group.split(", ")
            }
            shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            made = set(re.findall(r'label_replace\(.*?, "(\w+)"', target["expr"]))
            wanted = {*re.findall(r"(\w+)[!=]", selector), *grouped, *shown} - OF_THE_TARGET - made

            assert family in listed
            assert wanted <= listed[family]


def test_panels_do_not_overlap() -> None:
    """No panel covers another one, and each has a number of its own."""
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]

    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert max(x for x, _ in cells) < 24


@pytest.mark.parametrize("variable", ["namespace", "name"])
def test_the_variables_ask_for_a_series_that_exists(variable: str) -> None:
    """The lists of namespaces and objects come from a series of the controller."""
    query = next(one for one in DASHBOARD["templating"]["list"] if one["name"] == variable)["query"]
    series, label = re.fullmatch(r"label_values\((\w+)(?:{.*})?, (\w+)\)", query).groups()  # type: ignore[union-attr]

    assert label in labels_by_series()[series]


def test_no_series_is_named_like_one_of_kubernetes() -> None:
    """One Prometheus often scrapes kube-controller-manager too, whose sums must not include ours."""
    assert not [name for name in labels_by_series() if name.startswith("horizontal_pod_autoscaler")]
