"""docs/how-to/upgrade.md names the versions that the chart, the test programs and the processes have."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from testbed.real.tools import CERT_MANAGER, OLDER_KUBERNETES, TOOLS, tools_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "upgrade.md").read_text(encoding="utf-8")
PINNED = {tool.name: tool.version.lstrip("v") for tool in TOOLS}


def short(version: str) -> str:
    """Returns major and minor version."""
    return ".".join(version.split(".")[:2])


@pytest.mark.parametrize("kubernetes", ["", OLDER_KUBERNETES])
def test_the_tested_kubernetes_are_those_of_the_planes(kubernetes: str) -> None:
    version = tools_of(kubernetes)[0].version.lstrip("v")

    assert f"| {short(version)} ({version}) | tested: " in PAGE


def test_the_other_programs_are_the_pinned_ones() -> None:
    assert f"| Helm | {short(PINNED['helm3'])} and {short(PINNED['helm'])} |" in PAGE
    assert f"| cert-manager (`tls.source: certManager`) | {short(CERT_MANAGER.version.lstrip('v'))}: " in PAGE
    assert f"| metrics-server | {short(PINNED['metrics-server'])} |" in PAGE


def test_the_oldest_kubernetes_is_that_of_the_chart() -> None:
    chart = yaml.safe_load((ROOT / "charts" / "fedhpa" / "Chart.yaml").read_text(encoding="utf-8"))
    oldest = short(chart["kubeVersion"].removeprefix(">="))

    assert f"| {oldest} to " in PAGE
    assert f"| before {oldest} | the chart refuses" in PAGE
