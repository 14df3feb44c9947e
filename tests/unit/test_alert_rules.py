"""The rule file and its page agree with each other and with the series of the processes.

tests/real/test_alerts.py evaluates the rules with promtool.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GROUPS = yaml.safe_load((ROOT / "charts" / "fedhpa" / "files" / "alerts.yaml").read_text(encoding="utf-8"))[
    "groups"
]
RULES = [rule for group in GROUPS for rule in group["rules"]]
PAGE = (ROOT / "docs" / "how-to" / "alerts.md").read_text(encoding="utf-8")
SERIES = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")


def names(rules: list[dict[str, Any]]) -> list[str]:
    return [rule["alert"] for rule in rules]


@pytest.mark.parametrize("rule", RULES, ids=names(RULES))
def test_every_series_of_a_rule_exists(rule: dict[str, Any]) -> None:
    """It is on the generated page of series with all labels that the rule names."""
    listed = dict(re.findall(r"^\| `(\w+)` \| \w+ \| (.*?) \|", SERIES, flags=re.MULTILINE))
    used = re.findall(r"\b(fedhpa_\w+)(?:\{(.*?)\})?", rule["expr"])

    assert used
    for name, selector in used:
        # The page has one row for a histogram.
        family = next((name.removesuffix(end) for end in ("_bucket", "_count") if name.endswith(end)), name)
        assert family in listed, name
        labels = {*re.findall(r"(\w+)[!=]", selector)} - {"le"}
        assert labels <= set(re.findall(r"`(\w+)`", listed[family])), selector


@pytest.mark.parametrize("rule", RULES, ids=names(RULES))
def test_labels_in_texts_are_labels_of_the_result(rule: dict[str, Any]) -> None:
    """A text with a label that the expression drops would have a gap."""
    used = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
    kept = re.search(r"\b(?:sum|min|max|count) (?:by \(([\w, ]+)\))?", rule["expr"])
    listed = " ".join(re.findall(r"^\| `(?:fedhpa_\w+)` \| \w+ \| (.*?) \|", SERIES, flags=re.MULTILINE))

    assert used <= set(re.findall(r"\w+", kept[1] if kept and kept[1] else listed))


def test_rules_have_the_same_form() -> None:
    """Each has a severity that the page explains, a duration, two sentences, and the chapter of the page."""
    chapters = {
        f"#{title.lower().replace(' ', '-')}": title
        for title in re.findall(r"^## (.+)$", PAGE, flags=re.MULTILINE)
    }
    for rule in RULES:
        assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"Fedhpa[A-Z]\w+", rule["alert"])
        assert re.fullmatch(r"\d+m", rule["for"])
        assert rule["labels"] in ({"severity": "critical"}, {"severity": "warning"}, {"severity": "info"})
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
        page, chapter = rule["annotations"]["runbook_url"].split("alerts.md")
        assert page == "docs/how-to/"
        assert f"`{rule['alert']}`" in PAGE.split(f"\n## {chapters[chapter]}\n")[1].split("\n## ")[0]
        assert all(rule["annotations"][text].endswith(".") for text in ("summary", "description"))
    assert len(set(names(RULES))) == len(RULES)


def test_the_page_lists_the_rules() -> None:
    """It has each alert in the order of the file, with its severity and duration, and a first step."""
    rows = re.findall(r"^\| `(Fedhpa\w+)` \| (\w+) \| (.*?) \| (.+) \|$", PAGE, flags=re.MULTILINE)

    assert [(name, severity, duration) for name, severity, duration, _ in rows] == [
        (rule["alert"], rule["labels"]["severity"], "at once" if rule["for"] == "0m" else rule["for"])
        for rule in RULES
    ]
