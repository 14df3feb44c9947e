"""Each table that a command prints has one unit in a column: two of them cannot be compared at a glance."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

from fedhpa.admission.crd import CLUSTER, CRON_FEDERATED_HPA, FEDERATED_HPA, custom_resource_definition
from fedhpa.backtest.result import Figures, Run
from fedhpa.cli.backtest.output import table as backtest_table
from fedhpa.cli.top import row
from fedhpa.cli.top import table as top_table
from fedhpa.decision import to_text
from tests.support.scenarios import CPU, cluster, decided, external, scenario

NUMBER = re.compile(r"-?[\d.]+([a-zA-Zµ%]*)")


def units(cells: Iterable[str]) -> set[str]:
    """The units of the numbers in some cells, "" for plain numbers."""
    return {match[1] for cell in cells for match in NUMBER.finditer(cell)}


def shares(text: str) -> list[str]:
    """The values of an explained decision, one for each cluster."""
    return re.findall(r"^    m\d: (\S+)", text.partition("  coverage:")[0], re.MULTILINE)


@pytest.mark.parametrize(
    ("usages", "expected"),
    [
        ([[500, 500], [450, 500]], ["1", "0.95"]),
        ([[50, 50], [600, 600]], ["100m", "1200m"]),
        ([[1], [500, 500]], ["0.001", "1"]),
    ],
)
def test_shares_of_clusters_have_the_unit_of_the_largest(
    usages: list[list[int]], expected: list[str]
) -> None:
    """A target in percent has no unit. `fedhpa explain`, `preview` and `replay` print this text."""
    clusters = [cluster(f"m{number}", found) for number, found in enumerate(usages, 1)]

    assert shares(to_text(decided(scenario(clusters)))) == expected


@pytest.mark.parametrize(("target", "unit"), [("10", ""), ("200m", "m"), ("1k", "k")])
def test_shares_and_the_present_value_have_the_unit_of_the_target(target: str, unit: str) -> None:
    source = {"metric": {"name": "load"}, "target": {"type": "AverageValue", "averageValue": target}}
    metric = {"type": "External", "external": source}
    clusters = [
        cluster(f"m{number}", [50], externalMetrics=[external("load", value)])
        for number, value in ((1, "7500m"), (2, "2"), (3, "1k"))
    ]

    text = to_text(decided(scenario(clusters, spec={"metrics": [metric]})))

    assert len(shares(text)) == 3
    assert units(shares(text)) == {unit}
    present = re.search(r"averageValue (\S+) \(target averageValue (\S+?)[,)]", text)
    assert present is not None
    assert units(present.groups()) == {unit}


def columns(lines: list[str]) -> dict[str, list[str]]:
    """The cells of a table below the names of its columns, which two blanks part. No cell is empty."""
    head, *rows = (re.split(r" {2,}", line.strip()) for line in lines)
    return {name: [row[place] for row in rows] for place, name in enumerate(head)}


def test_the_table_of_a_backtest() -> None:
    """Runs of very different sizes."""
    small = Figures(0.05, 0.00001, 0.4, 0.01, 1, 1, 0.01)
    large = Figures(123456.7, 0.99, 10_000.0, 99.0, 10_000, 123_456, 1234.5)
    nothing: list[Any] = []
    runs = [
        Run(name, [], nothing, nothing, nothing, nothing, [], one)
        for name, one in (("a", small), ("b", large))
    ]

    found = columns(backtest_table(runs, 0.001))

    assert len(found) == 8
    assert {
        name: units(cells) for name, cells in found.items() if name != "RUN" and len(units(cells)) != 1
    } == {}


def test_the_usage_in_top_has_the_unit_of_the_target() -> None:
    """The age is that of kubectl, in its largest unit."""
    status = {"conditions": [{"type": "Ready", "status": "True"}], "clusters": [{"currentReplicas": 2}]}
    found = [
        row({"metadata": {"name": name}, "status": status | {"summary": summary}}, 0)
        for name, targets in (("a", "cpu: 5%/60%"), ("b", "cpu: 500%/60%"))
        for summary in [{"targets": targets, "reason": "steady"}]
    ]

    assert units(columns(top_table(found, 0, "shop"))["USAGE"]) == {"%"}


def test_columns_of_kubectl_are_texts_of_ours_or_counts() -> None:
    """A column with a quantity of a status would have the unit in which a metrics API wrote it."""
    plain = {".status.currentReplicas", ".metadata.creationTimestamp"}
    for definition in (FEDERATED_HPA, CRON_FEDERATED_HPA, CLUSTER):
        for column in custom_resource_definition(definition)["spec"]["versions"][0][
            "additionalPrinterColumns"
        ]:
            assert column["type"] == "string" or column["jsonPath"] in plain, column
            assert "currentMetrics" not in column["jsonPath"]


def test_a_target_in_percent_has_percent_on_both_sides() -> None:
    text = to_text(decided(scenario([cluster("m1", [80, 80])], spec={"metrics": [CPU]})))

    assert "averageUtilization 80, averageValue 80m (target averageUtilization 50" in text
