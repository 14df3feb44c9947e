"""The report as one image, without a browser: all runs compared, and one of them drawn."""

from __future__ import annotations

from typing import Any, Final

from fedhpa.backtest.report import engine
from fedhpa.backtest.report.chart import specification
from fedhpa.backtest.report.colours import LIGHT
from fedhpa.backtest.report.drawing import drawn
from fedhpa.backtest.result import Report

# An image has no zoom, and is 840 units wide.
POINTS: Final = 900


def best(report: Report) -> int:
    """Returns the index of the run to look at first: the best one, or the recording if it is alone."""
    return min(1, len(report.runs) - 1) if report.runs else 0


def svg(report: Report) -> str:
    """Returns the image as SVG.

    Raises ConfigError without `fedhpa[report]`, InvalidObject if the report's times are none.
    """
    return engine.svg(_specification(report))


def png(report: Report) -> bytes:
    """Returns the image as PNG, about 1,900 pixels wide. Raises what `svg` raises."""
    return engine.png(_specification(report))


def _specification(report: Report) -> dict[str, Any]:
    return specification(report, drawn(report, POINTS), LIGHT, best(report))
